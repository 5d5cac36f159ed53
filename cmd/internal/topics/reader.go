package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// Reader reads one partition of a topic between two offsets. Not for concurrent use.
type Reader struct {
	// First and End are the bounds of the partition when it was opened, or at the last Refresh:
	// the first offset that it still has, and the one behind the last that can be read.
	First, End int64

	client  *kafka.Client
	call    wire.Options
	topic   string
	fetcher *consumer.Fetcher
	read    int64    // up to where Entries has read; -1: it was not called yet
	id      [16]byte // of the topic that Entries has read; zero in a cluster without ids
}

// Open returns a reader and takes the partition's bounds.
func Open(ctx context.Context, client *kafka.Client, topic string, partition int32,
	o consumer.FetcherOptions,
) (*Reader, error) {
	f, err := consumer.NewFetcher(client, topic, partition, o)
	if err != nil {
		return nil, err
	}
	r := &Reader{client: client, call: o.Options, topic: topic, fetcher: f, read: -1}
	return r, r.Refresh(ctx)
}

// OpenDecided returns a reader of committed records that ends where the partition ends now. It
// waits until every transaction before that is committed or aborted, and gives up after patience.
func OpenDecided(ctx context.Context, client *kafka.Client, topic string, partition int32,
	patience time.Duration,
) (*Reader, error) {
	all, err := Open(ctx, client, topic, partition, consumer.FetcherOptions{Uncommitted: true})
	if err != nil {
		return nil, err
	}
	r, err := Open(ctx, client, topic, partition, consumer.FetcherOptions{})
	for began := time.Now(); ; {
		if err != nil {
			return nil, err
		}
		if r.End >= all.End {
			r.End = all.End
			return r, nil
		}
		if time.Since(began) > patience {
			return nil, fmt.Errorf("a transaction in %s has been open from offset %d on for more "+
				"than %v (open-transaction)", topic, r.End, patience)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		err = r.Refresh(ctx)
	}
}

// Refresh takes the partition's bounds again.
func (r *Reader) Refresh(ctx context.Context) (err error) {
	r.First, r.End, err = r.fetcher.Bounds(ctx)
	return err
}

// EpochEnd returns where a leader epoch ends in the partition, -1 if that is not known.
func (r *Reader) EpochEnd(ctx context.Context, epoch int32) (end int64, err error) {
	return r.fetcher.EpochEnd(ctx, epoch)
}

// Scan visits the records from an offset up to another. A record is valid during the call only.
// An error of visit ends the scan.
func (r *Reader) Scan(
	ctx context.Context, from, end int64, visit func(consumer.Record) error,
) error {
	for at := from; at < end; {
		got, err := r.fetcher.Fetch(ctx, at)
		if err != nil {
			return err
		}
		for _, record := range got.Records {
			if record.Offset >= end {
				return nil
			}
			if err := visit(record); err != nil {
				return err
			}
		}
		at = got.Next
	}
	return nil
}

// errFound ends a scan at its first record.
var errFound = errors.New("there is a record")

// Any reports whether there is a record from an offset up to another. The cost is one fetch where
// there is one, and else a pass over the aborted records.
func (r *Reader) Any(ctx context.Context, from, end int64) (bool, error) {
	return found(r.Scan(ctx, from, end, func(consumer.Record) error { return errFound }))
}

// found tells errFound from other errors.
func found(err error) (bool, error) {
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// Cursor gives the records of a Reader one by one, in memory of their own.
type Cursor struct {
	reader  *Reader
	at, end int64
	queue   []consumer.Record
}

// Cursor begins at an offset and ends before another.
func (r *Reader) Cursor(from, end int64) *Cursor { return &Cursor{reader: r, at: from, end: end} }

// Next returns the next record, false at the end.
func (c *Cursor) Next(ctx context.Context) (consumer.Record, bool, error) {
	for len(c.queue) == 0 && c.at < c.end {
		got, err := c.reader.fetcher.Fetch(ctx, c.at)
		if err != nil {
			return consumer.Record{}, false, err
		}
		for _, r := range got.Records {
			if r.Offset < c.end {
				c.queue = append(c.queue, owned(r))
			}
		}
		c.at = got.Next
	}
	if len(c.queue) == 0 {
		return consumer.Record{}, false, nil
	}
	next := c.queue[0]
	c.queue = c.queue[1:]
	return next, true, nil
}

// owned keeps nil nil: a null key is not an empty one.
func owned(r consumer.Record) consumer.Record {
	b := append(append(make([]byte, 0, len(r.Key)+len(r.Value)), r.Key...), r.Value...)
	own := consumer.Record{
		Offset: r.Offset, Timestamp: r.Timestamp, Value: b[len(r.Key):],
		Headers: slices.Clone(r.Headers), Appended: r.Appended,
	}
	if r.Key != nil {
		own.Key = b[:len(r.Key):len(r.Key)]
	}
	return own
}

// Record is a record as a task has it, in the same memory.
func Record(r consumer.Record) task.Record {
	record := task.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
	if len(r.Headers) > 0 {
		record.Headers = r.Headers
	}
	return record
}

// Bound is one end of a range of a topic: an offset, the same in each partition; a time, of
// which each partition has an offset of its own; or, zero, whatever the range has by itself.
type Bound struct {
	IsOffset bool
	Offset   int64
	Time     time.Time
}

// Set reads a time, a day or an offset, as the value of a flag.
func (b *Bound) Set(text string) error {
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		*b = Bound{IsOffset: true, Offset: offset}
		return nil
	}
	var at cli.When
	err := at.Set(text)
	*b = Bound{Time: at.Time}
	return err
}

// String returns what [Bound.Set] reads, empty for the zero bound.
func (b *Bound) String() string {
	switch {
	case b.IsOffset:
		return strconv.FormatInt(b.Offset, 10)
	case b.Time.IsZero():
		return ""
	}
	return b.Time.Format(time.RFC3339Nano)
}

// Type names the value in the help of a flag.
func (b *Bound) Type() string { return "time" }

// CheckRange refuses a range that holds nothing, whatever the topic has.
func CheckRange(from, to Bound) error {
	if from.IsOffset && to.IsOffset && to.Offset <= from.Offset {
		return cli.EmptyRange(from.String(), to.String())
	}
	if !from.Time.IsZero() && !to.Time.IsZero() && !from.Time.Before(to.Time) {
		return cli.EmptyRange(from.String(), to.String())
	}
	return nil
}

// Resolve returns the offset that a bound stands for in the reader's partition, and zero for the
// zero bound. It need not be one that the partition holds.
func (b Bound) Resolve(ctx context.Context, r *Reader, zero int64) (int64, error) {
	switch {
	case b.IsOffset:
		return b.Offset, nil
	case b.Time.IsZero():
		return zero, nil
	}
	return r.fetcher.OffsetAt(ctx, b.Time)
}
