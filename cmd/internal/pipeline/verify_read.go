package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// scan reads a partition between two offsets.
func scan(ctx context.Context, f *consumer.Fetcher, from, end int64, visit func(consumer.Record) error) error {
	for at := from; at < end; {
		got, err := f.Fetch(ctx, at)
		if err != nil {
			return err
		}
		for _, r := range got.Records {
			if r.Offset >= end {
				return nil
			}
			if err := visit(r); err != nil {
				return err
			}
		}
		at = got.Next
	}
	return nil
}

// entry is a record in memory of its own. Offset is that of the topic it was
// read from, or of the raw record that it was recomputed from.
type entry struct {
	offset, timestamp int64
	key, value        []byte
}

// copied keeps nil nil: a null key is not an empty one.
func copied(r consumer.Record) entry {
	b := append(append(make([]byte, 0, len(r.Key)+len(r.Value)), r.Key...), r.Value...)
	e := entry{offset: r.Offset, timestamp: r.Timestamp, key: b[:len(r.Key):len(r.Key)], value: b[len(r.Key):]}
	if r.Key == nil {
		e.key = nil
	}
	return e
}

func (e *entry) same(o *entry) bool {
	return e.timestamp == o.timestamp && (e.key == nil) == (o.key == nil) && bytes.Equal(e.key, o.key) && bytes.Equal(e.value, o.value)
}

// digest is a hash of a record's content.
type digest [16]byte

func (e *entry) digest(scratch []byte) (digest, []byte) {
	scratch = binary.BigEndian.AppendUint64(scratch[:0], uint64(e.timestamp))
	n := int64(len(e.key))
	if e.key == nil {
		n = -1
	}
	scratch = binary.BigEndian.AppendUint64(scratch, uint64(n))
	scratch = append(append(scratch, e.key...), e.value...)
	sum := sha256.Sum256(scratch)
	return digest(sum[:16]), scratch
}

// puller reads a partition record by record.
type puller struct {
	fetcher *consumer.Fetcher
	at, end int64
	undated bool // the timestamps are left out
	queue   []entry
	read    int64
}

// next returns the next record, false at the end.
func (p *puller) next(ctx context.Context) (entry, bool, error) {
	for len(p.queue) == 0 && p.at < p.end {
		got, err := p.fetcher.Fetch(ctx, p.at)
		if err != nil {
			return entry{}, false, err
		}
		for _, r := range got.Records {
			if r.Offset < p.end {
				p.queue = append(p.queue, copied(r))
			}
		}
		p.at = got.Next
	}
	if len(p.queue) == 0 {
		return entry{}, false, nil
	}
	e := p.queue[0]
	p.queue = p.queue[1:]
	p.read++
	if p.undated {
		e.timestamp = 0
	}
	return e, true, nil
}

// output is one topic that the service writes, up to an offset before which all
// transactions are decided.
type output struct {
	topic      string
	first, end int64
	undated    bool
}

// openOutput takes the topic's end and waits until all before it is decided.
func (c *check) openOutput(ctx context.Context, topic string) (output, error) {
	all, err := consumer.NewFetcher(c.client, topic, c.p, consumer.FetcherOptions{Uncommitted: true})
	if err != nil {
		return output{}, err
	}
	decided, err := consumer.NewFetcher(c.client, topic, c.p, consumer.FetcherOptions{})
	if err != nil {
		return output{}, err
	}
	_, end, err := all.Bounds(ctx)
	if err != nil {
		return output{}, err
	}
	patience := c.o.TransactionTimeout + verifyPatience
	for began := time.Now(); ; {
		first, stable, err := decided.Bounds(ctx)
		if err != nil {
			return output{}, err
		}
		if stable >= end {
			return output{topic: topic, first: first, end: end, undated: c.undated[topic]}, nil
		}
		if time.Since(began) > patience {
			return output{}, fmt.Errorf("a transaction in %s has been open from offset %d on for more than %v: "+
				"wait for its timeout, or end it (kafka-transactions.sh find-hanging), and try again", topic, stable, patience)
		}
		select {
		case <-ctx.Done():
			return output{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// pull reads the topic from its beginning.
func (c *check) pull(o output, uncommitted bool) (*puller, error) {
	f, err := consumer.NewFetcher(c.client, o.topic, c.p, consumer.FetcherOptions{Uncommitted: uncommitted})
	return &puller{fetcher: f, at: o.first, end: o.end, undated: o.undated}, err
}

// catchUpRecords is how short a pass over the changelog has to be to be the last.
const catchUpRecords = 10_000

// readChangelog copies the last value of each user, and the last mark. The end
// is taken again after each pass: while one is under way, the cleaner may remove
// values for the sake of newer ones behind it.
func (c *check) readChangelog(ctx context.Context) error {
	f, err := consumer.NewFetcher(c.client, c.o.Topics.Changelog, c.p, consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	at, end, err := f.Bounds(ctx)
	for err == nil && at < end {
		if err := scan(ctx, f, at, end, c.store); err != nil {
			return err
		}
		if end-at <= catchUpRecords {
			return nil
		}
		at = end
		_, end, err = f.Bounds(ctx)
	}
	return err
}

// readAmendments takes the versions of the model that were adopted, as of a mark that is
// not older than what the outputs hold: the service may go on and adopt another.
func (c *check) readAmendments(ctx context.Context) error {
	c.amendments = c.mark.Amendments
	mark, found, err := (&planner{client: c.client}).lastMark(ctx, c.o.Topics.Changelog, c.p)
	if err == nil && found && bytes.Equal(mark.Settings, c.settings) {
		c.amendments = mark.Amendments
	}
	return err
}

// store takes one record of the changelog.
func (c *check) store(r consumer.Record) error {
	switch {
	case string(r.Key) == task.MarkKey:
		mark, err := task.DecodeMark(r.Value)
		if err != nil {
			return fmt.Errorf("%s/%d at offset %d: %w", c.o.Topics.Changelog, c.p, r.Offset, err)
		}
		c.mark, c.marked = mark.Clone(), true
		return nil
	case !task.ValidKey(r.Key):
		return nil
	case len(r.Value) == 0:
		return c.stored.remove(r.Key)
	}
	return c.stored.put(r.Key, r.Offset, r.Value)
}

// scanUncommitted collects what was written to the sanitized topic and is not
// committed: of aborted transactions, for all before the output's end is decided.
func (c *check) scanUncommitted(ctx context.Context, o output) error {
	all, err := c.pull(o, true)
	if err != nil {
		return err
	}
	committed, err := c.pull(o, false)
	if err != nil {
		return err
	}
	good, more, err := committed.next(ctx)
	if err != nil {
		return err
	}
	var buf []byte
	for {
		e, ok, err := all.next(ctx)
		if err != nil || !ok {
			c.report.UncommittedScanned = all.read
			return err
		}
		for more && good.offset < e.offset {
			if good, more, err = committed.next(ctx); err != nil {
				return err
			}
		}
		if more && good.offset == e.offset {
			continue
		}
		c.report.NotCommitted++
		var d digest
		d, buf = e.digest(buf)
		known, err := c.shown.get(d[:])
		if err == nil && known == nil {
			err = c.shown.put(d[:], e.offset, e.key)
		}
		if err != nil {
			return err
		}
	}
}
