package account

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// newCheck returns a check of a group that is new, with the topics made.
func newCheck(t *testing.T) (*servicetest.World, *Check) {
	t.Helper()
	w := servicetest.NewWorld(t, 12)
	o := topics.Cluster{
		Brokers: []string{w.Addr}, Group: "first", Topics: servicetest.Topics("first"),
	}
	servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{}, o.Topics))
	return w, &Check{
		Client: w.Client, Cluster: o, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	}
}

// undecided starts a transaction that has written one record to a topic.
func undecided(t *testing.T, w *servicetest.World, topic string) *producer.Transactional {
	t.Helper()
	tx, err := producer.NewTransactional(w.Client, "test/"+topic, producer.Options{})
	servicetest.OK(t, err)
	servicetest.OK(t, tx.Init(t.Context()))
	_, err = tx.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: topic},
		Records: []producer.Record{{
			Key: []byte("a"), Value: []byte("b"), Timestamp: servicetest.StartMS,
		}},
	})
	servicetest.OK(t, err)
	return tx
}

// TestFirstTransactionIsNoEvidence: what an instance has left that was killed in its first
// transaction, open or aborted, was not published.
func TestFirstTransactionIsNoEvidence(t *testing.T) {
	w, check := newCheck(t)
	topic := check.Cluster.Topics
	require := func(want bool, when string) {
		t.Helper()
		got, err := check.Published(t.Context(), 0, servicetest.Partitions)
		servicetest.OK(t, err)
		if got != want {
			t.Errorf("%s something is published: %t", when, got)
		}
	}
	require(false, "new,")
	tx := undecided(t, w, topic.Sanitized)
	require(false, "with an open transaction,")
	servicetest.OK(t, tx.Abort(t.Context()))
	require(false, "after the abort,")
	servicetest.OK(t, check.Before(t.Context()))
	w.Write(t, true, topic.DeadLetters, 0,
		servicetest.Line{Key: "a", Value: "b", Timestamp: servicetest.StartMS})
	require(true, "after a dead letter,")
	w.DeleteRecords(t, topic.DeadLetters, 0, 2)
	require(true, "after retention,")
	check.Replays = true
	require(false, "in a replay,")
}

// TestRoutedIsNoEvidence: where the output is routed, another raw partition may have published. It
// is a loss only if the changelog holds nothing at all.
func TestRoutedIsNoEvidence(t *testing.T) {
	w, check := newCheck(t)
	topic := check.Cluster.Topics
	line := servicetest.Line{Key: "a", Value: "b", Timestamp: servicetest.StartMS}
	w.Write(t, true, topic.Sanitized, 0, line)
	w.Write(t, true, topic.Changelog, 1, line)
	var lost *LostError
	if err := check.Before(t.Context()); !errors.As(err, &lost) {
		t.Errorf("error %v for partition 0, want a loss", err)
	}
	check.Cluster.Topics.Routed = true
	servicetest.OK(t, check.Before(t.Context()))
	w.DeleteRecords(t, topic.Changelog, 1, 2)
	if err := check.Before(t.Context()); !errors.As(err, &lost) {
		t.Errorf("error %v where the changelog is empty, want a loss", err)
	}
}

// TestUndecidedIsNotLost: a changelog whose only records are of a transaction that is not
// decided there yet is not called empty. Right after a commit the marker may still be on its
// way. Once the transaction is aborted it is empty.
func TestUndecidedIsNotLost(t *testing.T) {
	w, check := newCheck(t)
	topic := check.Cluster.Topics
	require := func(want bool, when string) {
		t.Helper()
		holds, err := check.Holds(t.Context(), 0)
		servicetest.OK(t, err)
		if holds != want {
			t.Errorf("%s it holds something: %t", when, holds)
		}
	}
	require(false, "new,")
	tx := undecided(t, w, topic.Changelog)
	require(true, "with an open transaction,")
	servicetest.OK(t, tx.Abort(t.Context()))
	require(false, "after the abort,")
	w.Write(t, true, topic.Changelog, 0,
		servicetest.Line{Key: "a", Value: "b", Timestamp: servicetest.StartMS})
	require(true, "after a commit,")
}

// beforeLook is a connection that does something before it first asks for a topic.
type beforeLook struct {
	kafka.RoundTripper
	once  sync.Once
	topic string
	do    func()
}

// RoundTrip implements kafka.RoundTripper.
func (b *beforeLook) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	if x, ok := req.(*wire.Exchange); ok {
		m, ok := x.Message.(*metadata.Request)
		if ok && slices.Contains(m.TopicNames, b.topic) {
			b.once.Do(b.do)
		}
	}
	return b.RoundTripper.RoundTrip(ctx, addr, req)
}

// TestFirstCommitMeanwhile: a partition's first transaction that is committed between the look into
// the changelog and that for evidence has lost nothing; nor has that of an instance that made the
// changelog meanwhile.
func TestFirstCommitMeanwhile(t *testing.T) {
	before := func(c *Check) error { return c.Before(t.Context()) }
	for _, test := range []struct {
		name    string
		missing bool
		look    func(*Check) error
	}{
		{"before a start", false, before},
		{"before a start without a changelog", true, before},
		{"in doctor", false, func(c *Check) error {
			lost, err := c.LostPartitions(t.Context(), servicetest.Partitions)
			if lost != nil {
				return lost
			}
			return err
		}},
	} {
		w, check := newCheck(t)
		topic := check.Cluster.Topics
		if test.missing {
			w.DeleteTopic(t, topic.Changelog, false)
		}
		own, committed := *w.Client, false
		own.Transport = &beforeLook{
			RoundTripper: w.Client.Transport, topic: topic.Sanitized, do: func() {
				servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{}, topic))
				for _, to := range []string{topic.Changelog, topic.Sanitized} {
					w.Write(t, true, to, 0,
						servicetest.Line{Key: "a", Value: "b", Timestamp: servicetest.StartMS})
				}
				committed = true
			},
		}
		check.Client = &own
		if err := test.look(check); err != nil || !committed {
			t.Errorf("%s: committed meanwhile: %t; %v", test.name, committed, err)
		}
	}
}
