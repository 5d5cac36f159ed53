package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/geodither/geodither/cmd/internal/recompute"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/schemas"
)

// entry is a record in memory of its own. Offset is that of the topic it was read from, or of
// the raw record that it was recomputed from.
type entry consumer.Record

func (e *entry) same(o *entry) bool {
	return e.Timestamp == o.Timestamp && (e.Key == nil) == (o.Key == nil) &&
		bytes.Equal(e.Key, o.Key) && bytes.Equal(e.Value, o.Value)
}

// digest is a hash of a record's content.
type digest [16]byte

func (e *entry) digest(scratch []byte) (digest, []byte) {
	scratch = binary.BigEndian.AppendUint64(scratch[:0], uint64(e.Timestamp))
	n := int64(len(e.Key))
	if e.Key == nil {
		n = -1
	}
	scratch = binary.BigEndian.AppendUint64(scratch, uint64(n))
	scratch = append(append(scratch, e.Key...), e.Value...)
	sum := sha256.Sum256(scratch)
	return digest(sum[:16]), scratch
}

// output is one topic that the service writes, up to an offset before which all transactions are
// decided.
type output struct {
	topic   string
	reader  *topics.Reader
	undated bool // the brokers set the timestamps: they are left out
}

// openOutput takes the topic's end and waits until all before it is decided.
func (c *check) openOutput(ctx context.Context, topic string) (output, error) {
	r, err := topics.OpenDecided(ctx, c.client, topic, c.p, c.o.Patience())
	return output{topic: topic, reader: r, undated: c.undated[topic]}, err
}

// puller reads an output record by record.
type puller struct {
	*topics.Cursor
	undated bool
	read    int64
}

// pull reads the topic from its beginning.
func (o output) pull() *puller {
	return &puller{Cursor: o.reader.Cursor(o.reader.First, o.reader.End), undated: o.undated}
}

// next returns the next record, false at the end. It leaves out the number of its schema, which is
// the registry's.
func (p *puller) next(ctx context.Context) (entry, bool, error) {
	r, ok, err := p.Next(ctx)
	if !ok || err != nil {
		return entry{}, false, err
	}
	p.read++
	if p.undated {
		r.Timestamp = 0
	}
	r.Value = schemas.WithoutID(r.Value)
	return entry(r), true, nil
}

// readChangelog copies the last state of each user, and the last mark.
func (c *check) readChangelog(ctx context.Context) error {
	r, err := topics.Open(ctx, c.client, c.o.Topics.Changelog, c.p, consumer.FetcherOptions{})
	if err == nil {
		c.changelog, err = recompute.ReadChangelog(ctx, r, c.stored)
	}
	return err
}

// readLater takes the versions of the model that were adopted, and who was erased, as of a mark
// that is not older than what the outputs hold: the service may go on and adopt another version,
// and users who have been erased since are missing in later records only.
func (c *check) readLater(ctx context.Context) error {
	later, err := c.changelog.Later(ctx)
	c.erased, c.amendments = later.Erased, c.changelog.Mark.Amendments
	if bytes.Equal(later.Mark.Settings, c.settings) {
		c.amendments = later.Mark.Amendments
	}
	return err
}

// scanUncommitted collects what was written to the sanitized topic and is not
// committed: of aborted transactions, for all before the output's end is decided.
func (c *check) scanUncommitted(ctx context.Context, o output) error {
	r, err := topics.Open(ctx, c.client, o.topic, c.p, consumer.FetcherOptions{Uncommitted: true})
	if err != nil {
		return err
	}
	all := &puller{Cursor: r.Cursor(o.reader.First, o.reader.End), undated: o.undated}
	committed := o.pull()
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
		for more && good.Offset < e.Offset {
			if good, more, err = committed.next(ctx); err != nil {
				return err
			}
		}
		if more && good.Offset == e.Offset {
			continue
		}
		c.report.NotCommitted++
		var d digest
		d, buf = e.digest(buf)
		known, err := c.shown.Has(d[:])
		if err == nil && !known {
			err = c.shown.Put(d[:], e.Offset, e.Key)
		}
		if err != nil {
			return err
		}
	}
}
