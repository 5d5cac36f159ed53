package group

import (
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire/wiretest"
	"github.com/geodither/geodither/producer"
)

// TestWhoMayCommit: the coordinator takes offsets from the current member alone,
// told apart by instance id too.
func TestWhoMayCommit(t *testing.T) {
	h := newHarness(t, 1)
	commit := func(by producer.Member, offset int64) error {
		t.Helper()
		p, err := producer.NewTransactional(h.Client, h.Topic, producer.Options{})
		h.OK(err)
		h.OK(p.Init(t.Context()))
		if err := p.CommitOffsets(t.Context(), by,
			map[producer.TopicPartition]int64{{Topic: h.Topic}: offset}); err != nil {
			h.OK(p.Init(t.Context())) // ends the transaction
			return err
		}
		_, err = p.Commit(t.Context())
		return err
	}
	of := func(g *Generation) producer.Member {
		return producer.Member{
			Group: h.group, Generation: g.ID, MemberID: g.MemberID,
			InstanceID: g.InstanceID,
		}
	}
	first := of(h.settle(1, h.start(Options{InstanceID: "one"}))[0])
	h.OK(commit(first, 5))
	second := of(h.settle(1, h.start(Options{InstanceID: "one"}))[0])
	stale, unnamed := second, first
	stale.Generation--
	unnamed.InstanceID = ""
	for _, c := range []struct {
		by   producer.Member
		code kafka.Error
	}{
		{first, kafka.FencedInstanceID},
		{unnamed, kafka.UnknownMemberId},
		{stale, kafka.IllegalGeneration},
	} {
		err := commit(c.by, 6)
		h.Is(err, c.code)
		h.Is(err, producer.ErrFenced)
	}
	h.OK(commit(second, 7))
	offset, found, err := consumer.Committed(t.Context(), h.Client, wiretest.Quick, h.group,
		h.Topic, 0)
	h.OK(err)
	if !found || offset != 7 {
		t.Errorf("offset %d, %v", offset, found)
	}
}
