//go:build kafka

package kafkatest

import (
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/producer"
)

// TestASecondInitFencesTheFirst takes a predecessor over in each state in which
// it can be, and has it go on. Nothing that it does after that shows, and its
// errors are those of a fenced producer.
func TestASecondInitFencesTheFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic, group := h.topic("out", 1, nil), h.prefix+"group"
	old, spied := h.newClient(nil)
	offsets := map[producer.TopicPartition]int64{at(topic, 0): 7}
	want := []string{}

	for _, state := range []struct {
		name   string
		before func(p *producer.Transactional) // what the predecessor has done when it is fenced
		after  func(p *producer.Transactional) error
	}{
		{
			"it begins a transaction", func(*producer.Transactional) {},
			func(p *producer.Transactional) error {
				_, err := p.Produce(t.Context(), batch(topic, 0, "zombie"))
				return err
			},
		},
		{
			"it writes more", func(p *producer.Transactional) { h.produce(p, topic, 0, "zombie") },
			func(p *producer.Transactional) error {
				_, err := p.Produce(t.Context(), batch(topic, 0, "zombie"))
				return err
			},
		},
		{
			"it adds its offsets", func(p *producer.Transactional) {
				h.produce(p, topic, 0, "zombie")
			}, func(p *producer.Transactional) error {
				return h.commitOffsets(p, group, member{generation: -1}, offsets)
			},
		},
		{"it changes its offsets", func(p *producer.Transactional) {
			h.produce(p, topic, 0, "zombie")
			h.ok(h.commitOffsets(p, group, member{generation: -1}, offsets))
		}, func(p *producer.Transactional) error {
			return h.commitOffsets(p, group, member{generation: -1}, offsets)
		}},
		{"it commits", func(p *producer.Transactional) {
			h.produce(p, topic, 0, "zombie")
			h.ok(h.commitOffsets(p, group, member{generation: -1}, offsets))
		}, func(p *producer.Transactional) error {
			_, err := p.Commit(t.Context())
			return err
		}},
		{
			"it aborts", func(p *producer.Transactional) { h.produce(p, topic, 0, "zombie") },
			func(p *producer.Transactional) error {
				return p.Abort(t.Context())
			},
		},
	} {
		first := h.transactional(old, "id", producer.Options{})
		state.before(first)
		second := h.transactional(h.client, "id", producer.Options{})
		err := state.after(first)
		t.Logf("%s: %v", state.name, err)
		h.is(err, producer.ErrFenced)
		h.produce(second, topic, 0, state.name)
		h.commit(second)
		want = append(want, state.name)
	}
	h.expect(topic, 0, want...)
	if got := h.committed(group, topic); got != -1 {
		t.Errorf("an offset of a fenced producer is committed: %d", got)
	}
	t.Log(spied)
	for _, code := range []kafka.Error{kafka.InvalidProducerEpoch, kafka.ProducerFenced} {
		if spied.saw(code) == 0 {
			t.Errorf("code %d was never seen", int(code))
		}
	}
	if spied.saw(kafka.ProducerFenced, protocol.InitProducerId) > 0 {
		t.Error("a producer that asks for a new epoch is refused as if it had one")
	}
}
