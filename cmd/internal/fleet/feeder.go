package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// Feeder writes fixes to a raw topic.
type Feeder struct {
	producer   *producer.Idempotent
	codec      *schemas.Codec
	topic      string
	partitions int
	// Rate is the largest number of records a second; 0 means no limit.
	Rate float64

	sent    int64
	pending []producer.Record
	started time.Time
}

// batch is the largest number of records that are sent together.
const batch = 2000

// NewFeeder returns a feeder of a topic. If the topic is missing and create is above 0, it creates
// the topic with so many partitions. It does not change a topic that exists.
func NewFeeder(ctx context.Context, client *kafka.Client, topic string, create int,
	codec *schemas.Codec,
) (*Feeder, error) {
	if create > 0 {
		err := admin.CreateTopics(ctx, client, wire.Options{}, admin.Topic{
			Name: topic, Partitions: create,
		})
		var other *admin.PartitionsError
		if err != nil && !errors.As(err, &other) { // an existing topic stays as it is
			return nil, err
		}
	}
	counts, err := admin.Partitions(ctx, client, wire.Options{}, topic)
	var missing *admin.MissingTopicsError
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("%w; --create 4 makes it", err)
	case err != nil:
		return nil, err
	}
	p, err := producer.NewIdempotent(client, producer.Options{})
	if err != nil {
		return nil, err
	}
	return &Feeder{producer: p, codec: codec, topic: topic, partitions: counts[topic]}, nil
}

// delay is how long a fix may wait for others to be sent with it.
const delay = 50 * time.Millisecond

// Fix is a fix, or the error of reading one.
type Fix struct {
	Fix schemas.Raw
	Err error
}

// Read starts to read fixes, until the context ends at the latest. It closes ended when it no
// longer uses the source.
func Read(
	ctx context.Context, source iter.Seq2[schemas.Raw, error],
) (fixes <-chan Fix, ended <-chan struct{}) {
	to, done := make(chan Fix, 1024), make(chan struct{})
	go func() {
		defer close(done)
		defer close(to)
		for fix, err := range source {
			select {
			case to <- Fix{fix, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to, done
}

// All feeds all fixes, or those before the first error. A fix waits at most 50 ms for others to be
// sent with it.
func (f *Feeder) All(ctx context.Context, fixes <-chan Fix, progress *cli.Progress) error {
	defer progress.Done()
	late := time.NewTicker(delay)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			if err := f.Flush(ctx); err != nil {
				return err
			}
			progress.Show(f.sent)
		case next, more := <-fixes:
			if err := ctx.Err(); err != nil {
				return err
			}
			if !more {
				return f.Flush(ctx)
			}
			if err := f.fix(ctx, next); err != nil {
				return err
			}
		}
	}
}

func (f *Feeder) fix(ctx context.Context, next Fix) error {
	if next.Err != nil {
		return next.Err
	}
	value, err := f.codec.AppendRaw(nil, next.Fix)
	if err != nil {
		return fmt.Errorf("a fix of the input: %w", err)
	}
	return f.Add(ctx, []byte(next.Fix.UserID), value, time.Now().UnixMilli())
}

// Sent returns the number of records that the brokers have acknowledged.
func (f *Feeder) Sent() int64 { return f.sent }

// Partitions returns the number of partitions of the topic.
func (f *Feeder) Partitions() int { return f.partitions }

// Add queues one record, sends a full batch, and keeps the pace.
func (f *Feeder) Add(ctx context.Context, key, value []byte, timestampMS int64) error {
	if f.started.IsZero() {
		f.started = time.Now()
	}
	f.pending = append(f.pending, producer.Record{Key: key, Value: value, Timestamp: timestampMS})
	if f.Rate <= 0 {
		if len(f.pending) < batch {
			return nil
		}
		return f.Flush(ctx)
	}
	due := f.started.Add(
		time.Duration(float64(f.sent+int64(len(f.pending))) / f.Rate * float64(time.Second)))
	wait := time.Until(due)
	if wait < 10*time.Millisecond && len(f.pending) < batch {
		return nil
	}
	if err := f.Flush(ctx); err != nil {
		return err
	}
	return cli.Sleep(ctx, wait)
}

// Flush sends what is queued.
func (f *Feeder) Flush(ctx context.Context) error {
	if len(f.pending) == 0 {
		return nil
	}
	if _, err := f.producer.Send(ctx, f.topic, f.partitions, f.pending); err != nil {
		return err
	}
	f.sent += int64(len(f.pending))
	f.pending = f.pending[:0]
	return nil
}
