package topics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	kafka "github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Tail reads every partition of a topic from its first offset to the end that it had at the start.
type Tail struct {
	Client      *kafka.Client
	Topic       string
	Uncommitted bool // records of open and aborted transactions too
	FromEnd     bool // from the end that it had at the start
	Follow      bool // until the context ends, which is then no error
	Made        bool // "geodither run" makes the topic where it is missing
}

// Run calls each for every record, one call at a time, in the order of offsets within a partition.
// The record is valid during the call only. An error of each ends the reading.
func (t Tail) Run(ctx context.Context, each func(partition int32, r consumer.Record) error) error {
	var refused error // by each; once the context ends, all else fails because of that
	err := t.all(ctx, func(partition int32, r consumer.Record) error {
		refused = each(partition, r)
		return refused
	})
	switch {
	case err == nil || refused != nil || ctx.Err() == nil:
		return err
	case t.Follow && errors.Is(ctx.Err(), context.Canceled):
		return nil
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// all reads the partitions at the same time. Once each has failed it is not called again, and its
// error is returned whichever partition ends first.
func (t Tail) all(ctx context.Context, each func(partition int32, r consumer.Record) error) error {
	counts, err := admin.Partitions(ctx, t.Client, wire.Options{}, t.Topic)
	// Brokers refuse a topic that a login may not see in the same way as one that does not exist.
	missing := errors.As(err, new(*admin.MissingTopicsError))
	if missing && t.Made {
		return fmt.Errorf("there is no topic %s yet (topics-missing)", t.Topic)
	}
	if missing ||
		errors.Is(err, kafka.TopicAuthorizationFailed) {
		return fmt.Errorf("%w%s", err,
			Similar(ctx, t.Client, wire.Options{}, Set{}, []string{t.Topic}))
	}
	if err != nil {
		return err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	var first error
	for p := range int32(counts[t.Topic]) {
		group.Go(func() error {
			return t.Partition(ctx, p, func(r consumer.Record) error {
				mu.Lock()
				defer mu.Unlock()
				if first != nil {
					return first
				}
				if err := each(p, r); err != nil {
					first = fmt.Errorf("%s/%d at offset %d: %w", t.Topic, p, r.Offset, err)
				}
				return first
			})
		})
	}
	return group.Wait()
}

// Partition calls each for every record of one partition, in the order of offsets.
func (t Tail) Partition(ctx context.Context, p int32, each func(consumer.Record) error) error {
	r, err := Open(ctx, t.Client, t.Topic, p, consumer.FetcherOptions{Uncommitted: t.Uncommitted})
	if err != nil {
		return err
	}
	from, end := r.First, r.End
	if t.FromEnd {
		from = r.End
	}
	if t.Follow {
		end = math.MaxInt64
	}
	return r.Scan(ctx, from, end, each)
}

// Waiting says why no record of the topic can be read yet, or none after those that were read, from
// its ends as they are now; empty if there is no reason, or if that cannot be asked.
func (t Tail) Waiting(ctx context.Context, read bool) string {
	counts, err := admin.Partitions(ctx, t.Client, wire.Options{}, t.Topic)
	held, open := int64(0), int64(0)
	for p := range int32(counts[t.Topic]) {
		all, wrong := Open(ctx, t.Client, t.Topic, p, consumer.FetcherOptions{Uncommitted: true})
		if wrong != nil {
			return ""
		}
		decided, wrong := Open(ctx, t.Client, t.Topic, p, consumer.FetcherOptions{})
		if wrong != nil {
			return ""
		}
		held, open = held+decided.End-decided.First, open+max(0, all.End-decided.End)
	}
	switch {
	case err != nil:
		return ""
	case open > 0:
		return fmt.Sprintf("%s has %d offsets behind a transaction that is neither committed nor "+
			"aborted yet", t.Topic, open)
	case read:
		return ""
	case held == 0:
		return t.Topic + " is empty"
	case t.FromEnd:
		return t.Topic + " has nothing new"
	}
	return fmt.Sprintf("none of the %d offsets of %s is a committed record", held, t.Topic)
}
