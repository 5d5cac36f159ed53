package account

import (
	"log/slog"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// TestFirstTransactionIsNoEvidence: what an instance has left that was killed in its first
// transaction, open or aborted, was not published.
func TestFirstTransactionIsNoEvidence(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := topics.Cluster{
		Brokers: []string{w.Addr}, Group: "first", Topics: servicetest.Topics("first"),
	}
	servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{}, o.Topics))
	check := &Check{
		Client: w.Client, Cluster: o, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	}
	require := func(want bool, when string) {
		t.Helper()
		got, err := check.Published(t.Context(), 0, servicetest.Partitions)
		servicetest.OK(t, err)
		if got != want {
			t.Errorf("%s something is published: %t", when, got)
		}
	}
	require(false, "new,")
	tx, err := producer.NewTransactional(w.Client, "test/first", producer.Options{})
	servicetest.OK(t, err)
	servicetest.OK(t, tx.Init(t.Context()))
	_, err = tx.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: o.Topics.Sanitized},
		Records: []producer.Record{{
			Key: []byte("a"), Value: []byte("b"), Timestamp: servicetest.StartMS,
		}},
	})
	servicetest.OK(t, err)
	require(false, "with an open transaction,")
	servicetest.OK(t, tx.Abort(t.Context()))
	require(false, "after the abort,")
	servicetest.OK(t, check.Before(t.Context()))
	w.Write(t, true, o.Topics.DeadLetters, 0,
		servicetest.Line{Key: "a", Value: "b", Timestamp: servicetest.StartMS})
	require(true, "after a dead letter,")
	w.DeleteRecords(t, o.Topics.DeadLetters, 0, 2)
	require(true, "after retention,")
	check.Replays = true
	require(false, "in a replay,")
}

// TestUndecidedIsNotLost: a changelog whose only records are of a transaction that is not
// decided there yet is not called empty. Right after a commit the marker may still be on its
// way. Once the transaction is aborted it is empty.
func TestUndecidedIsNotLost(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := topics.Cluster{
		Brokers: []string{w.Addr}, Group: "first", Topics: servicetest.Topics("first"),
	}
	servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{}, o.Topics))
	check := &Check{
		Client: w.Client, Cluster: o, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	}
	require := func(want bool, when string) {
		t.Helper()
		holds, err := check.Holds(t.Context(), 0)
		servicetest.OK(t, err)
		if holds != want {
			t.Errorf("%s it holds something: %t", when, holds)
		}
	}
	require(false, "new,")
	tx, err := producer.NewTransactional(w.Client, "test/undecided", producer.Options{})
	servicetest.OK(t, err)
	servicetest.OK(t, tx.Init(t.Context()))
	_, err = tx.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: o.Topics.Changelog},
		Records: []producer.Record{{
			Key: []byte("a"), Value: []byte("b"), Timestamp: servicetest.StartMS,
		}},
	})
	servicetest.OK(t, err)
	require(true, "with an open transaction,")
	servicetest.OK(t, tx.Abort(t.Context()))
	require(false, "after the abort,")
	w.Write(t, true, o.Topics.Changelog, 0,
		servicetest.Line{Key: "a", Value: "b", Timestamp: servicetest.StartMS})
	require(true, "after a commit,")
}
