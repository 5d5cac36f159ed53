//go:build kafka

package kafkatest

import (
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/producer"
)

// TestAnUnknownGroupHasNoOffset: the coordinator's answer for a group, topic or
// partition that it has never heard of is "none", not an error.
func TestAnUnknownGroupHasNoOffset(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic("in", 1, nil)
	for _, topic := range []string{topic, h.prefix + "no-such-topic"} {
		if got := h.committed(h.prefix+"nobody", topic); got != -1 {
			t.Errorf("a group that does not exist is at %d of %s", got, topic)
		}
	}
	p := h.transactional(h.client, "id", producer.Options{})
	h.produce(p, topic, 0, "record")
	h.ok(h.commitOffsets(p, h.prefix+"group", member{generation: -1},
		map[producer.TopicPartition]int64{at(topic, 0): 0}))
	h.commit(p)
	if got := h.committed(h.prefix+"group", topic); got != 0 {
		t.Errorf("offset 0 is read as %d", got)
	}
	if got := h.committed(h.prefix+"group", h.topic("other", 1, nil)); got != -1 {
		t.Errorf("a topic that the group never read is at %d", got)
	}
}

// join makes a member of a group and waits for its first generation.
func (h *harness) join(id, topic, instanceID string) (*group.Member, *group.Generation) {
	h.Helper()
	g, err := group.Join(h.client, group.Options{ID: id, Topic: topic, InstanceID: instanceID})
	h.ok(err)
	h.Cleanup(func() { g.Close() })
	generation, err := g.Next(h.within(patience))
	h.ok(err)
	return g, generation
}

// TestAStaleGenerationCommitsNothing: Kafka refuses offsets of a generation that
// is over, of a member that the group does not know, and of an instance whose id
// another process has taken over.
func TestAStaleGenerationCommitsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic, group, static := h.topic("in", 1, nil), h.prefix+"group", h.prefix+"static"
	g, generation := h.join(group, topic, "")
	_, first := h.join(static, topic, "instance")
	_, second := h.join(static, topic, "instance") // fences the first
	now := member{generation.ID, generation.MemberID, ""}

	attempt := func(group string, m member, offset int64) error {
		p := h.transactional(h.client, "id", producer.Options{})
		h.produce(p, topic, 0, "record")
		err := h.commitOffsets(p, group, m, map[producer.TopicPartition]int64{at(topic, 0): offset})
		if err == nil {
			h.commit(p)
		}
		return err
	}
	for _, test := range []struct {
		name, group string
		m           member
		code        kafka.Error
	}{
		{
			"an old generation", group,
			member{generation.ID - 1, generation.MemberID, ""},
			kafka.IllegalGeneration,
		},
		{
			"a generation to come", group,
			member{generation.ID + 1, generation.MemberID, ""},
			kafka.IllegalGeneration,
		},
		{"an unknown member", group, member{generation.ID, "nobody", ""}, kafka.UnknownMemberId},
		{
			"an instance that is fenced", static,
			member{first.ID, first.MemberID, "instance"},
			kafka.FencedInstanceID,
		},
		{
			"an instance that nobody knows", static,
			member{second.ID, second.MemberID, "stranger"},
			kafka.UnknownMemberId,
		},
	} {
		err := attempt(test.group, test.m, 7)
		t.Logf("%s: %v", test.name, err)
		h.is(err, producer.ErrFenced)
		h.is(err, test.code)
		if got := h.committed(test.group, topic); got != -1 {
			t.Errorf("%s: offset %d is committed", test.name, got)
		}
	}
	h.ok(attempt(group, now, 3))
	h.ok(attempt(static, member{second.ID, second.MemberID, "instance"}, 4))
	h.ok(g.Leave())
	err := attempt(group, now, 5)
	t.Logf("a member that has left: %v", err)
	h.is(err, producer.ErrFenced)
	h.transactional(h.client, "id", producer.Options{}) // ends the refused transaction
	h.expect(topic, 0, "record", "record")
	if a, b := h.committed(group, topic), h.committed(static, topic); a != 3 || b != 4 {
		t.Errorf("the groups are at %d and %d, want 3 and 4", a, b)
	}
	if n := h.spy.saw(kafka.IllegalGeneration, protocol.TxnOffsetCommit); n == 0 {
		t.Error("no offset commit was refused for its generation")
	}
}
