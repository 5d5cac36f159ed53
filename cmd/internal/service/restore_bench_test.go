package service

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/state"
)

// BenchmarkRestore brings one partition's changelog from the embedded broker, in the same process,
// into an empty store. One iteration is all of it.
func BenchmarkRestore(b *testing.B) {
	const users, stateBytes, together = 40_000, 960, 500
	broker, err := devbroker.Start(devbroker.Options{Partitions: 1, Topics: []devbroker.Topic{
		{Name: "log", Configs: map[string]string{"cleanup.policy": "compact"}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = broker.Close() })
	client := kafkaconn.NewClient([]string{broker.Addr()})
	p, err := producer.NewIdempotent(client, producer.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	batch := producer.Batch{TopicPartition: producer.TopicPartition{Topic: "log"}}
	size := 0
	for i := range users {
		value := make([]byte, stateBytes)
		for at := range value {
			value[at] = byte(rng.Uint32())
		}
		r := producer.Record{Key: fmt.Appendf(nil, "vehicle-%08d", i), Value: value}
		batch.Records = append(batch.Records, r)
		size += len(r.Key) + len(r.Value)
		if i == users-1 {
			mark := task.AppendMark(nil, task.Mark{Input: 1})
			batch.Records = append(batch.Records,
				producer.Record{Key: []byte(task.MarkKey), Value: mark})
		}
		if len(batch.Records) >= together || i == users-1 {
			if _, err := p.Produce(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch.Records = batch.Records[:0]
		}
	}
	b.SetBytes(int64(size))
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		store, err := state.Open(b.TempDir(),
			state.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		f, err := consumer.NewFetcher(client, "log", 0, consumer.FetcherOptions{})
		if err != nil {
			b.Fatal(err)
		}
		changelog := &partitionLog{fetcher: f}
		t, err := task.New(task.Dependencies{
			Input: processed{}, Changelog: changelog, Transactions: processed{},
			Store: store.Partition(0), Processor: &loopProcessor{},
		}, task.Options{End: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := t.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// processed is an input of one record, which is committed.
type processed struct {
	task.Log
	task.Transactions
}

func (processed) Bounds(context.Context) (first, end int64, err error) { return 0, 1, nil }
func (processed) Fence(context.Context) error                          { return nil }
func (processed) Committed(context.Context) (int64, bool, error)       { return 1, true, nil }
