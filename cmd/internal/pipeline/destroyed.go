package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/state"
)

// A key that was advanced (noise.Key.From) is the same key by its fingerprint, so that
// a service goes on under it without a question. What it answers is the same too, but for
// fixes whose noise is of days that it no longer has: those are refused. Whoever computes
// the answers again, perhaps under an older copy of the key, has to refuse the same ones.
// The dead letters name them (Offsets). Where these are gone, the users' states in the
// changelog tell: each release counts in them, so they are the same only if the same fixes
// were released.

// readRefused reads from a partition's dead letters which raw records [from, to) were
// refused for their day, and counts all letters of that range.
func (o Options) readRefused(ctx context.Context, letters *puller, partition int32,
	from, to int64,
) (refused *Offsets, count int64, err error) {
	codec, err := schemas.NewCodec(o.SanitizedEncoding)
	if err != nil {
		return nil, 0, err
	}
	refused = new(Offsets)
	for {
		e, more, err := letters.next(ctx)
		if err != nil || !more {
			refused.Sort()
			return refused, count, err
		}
		letter, err := codec.DecodeDeadLetter(e.value)
		if err != nil || letter.Topic != o.Topics.Raw || letter.Partition != partition ||
			letter.Offset < from || letter.Offset >= to {
			continue // of no concern here
		}
		count++
		if letter.Reason == schemas.ReasonKeyDestroyed {
			refused.Add(letter.Offset)
		}
	}
}

// lackingText says what cannot be computed, and what would help.
func (o Options) lackingText(fixes int64) string {
	return fmt.Sprintf("the noise of up to %d fixes is of days whose key was destroyed: this key begins at %v. "+
		"Only a copy of an older key file can repeat their releases", fixes, o.Key.FirstDay())
}

// judgeDays ends a recomputation. Where the key lacked days of fixes that were not refused,
// and the results differ, nothing can be said of them.
func (r *recomputation) judgeDays(dead output) {
	c := r.check
	switch {
	case c.report.ViolationCount == 0:
	case r.lacking > 0:
		c.unverified("%s", c.o.lackingText(r.lacking))
		c.report.From, c.report.To = -1, -1
		c.report.ViolationCount, c.report.Violations = 0, []Violation{}
	case dead.first > 0 || dead.end == 0:
		c.unverified("dead letters are gone, so it is not known which fixes were refused since the service's key " +
			"no longer had their day: such a one shows as missing, and its user's state as another")
	}
}

// days finds out whether a replay can be the first release again as far as the key's days
// go. It refuses one of releases whose days the key no longer has, which no ε buys back.
// It reads the raw topic and what the service has written; where these do not tell it runs
// the mechanism once over the raw records.
func (p *planner) days(ctx context.Context, part *ReplayPartition, raw *consumer.Fetcher) error {
	again, first := len(part.Differs) == 0, p.first.Key.FirstDay()
	if part.empty() || !again && first == 0 {
		return nil
	}
	known, to, err := p.answered(ctx, part)
	if err != nil {
		return err
	}
	if start, _, err := raw.Bounds(ctx); err != nil || start > part.Origin {
		return err // an earlier run has begun while they were there, and decided then
	}
	if !again {
		to = part.To
	}
	records, doubtful, err := p.first.countDays(ctx, raw, part, to)
	if err != nil {
		return err
	}
	if doubtful == 0 && (!again || known == records) {
		return nil // each record has its answer
	}
	lacking, same, err := p.repeat(ctx, part, raw, again)
	switch {
	case err != nil || same:
		return err
	case lacking > 0:
		return fmt.Errorf("%w: %s", noise.ErrDestroyed, p.first.lackingText(lacking))
	case again:
		part.Differs = append(part.Differs, "it is not known which fixes were refused: dead letters are gone, "+
			"and the states that the raw records give now are not those of the first release")
	}
	return nil
}

// answered reads what the service has refused for its day, and counts the answers that are
// there to raw records of the partition's range; -1 where retention has removed some. They
// are to records before the offset that it returns: the mark is read after them.
func (p *planner) answered(ctx context.Context, part *ReplayPartition) (n, to int64, err error) {
	t := p.first.Topics
	letters, lost, err := p.open(ctx, t.DeadLetters, part.Partition)
	if err != nil {
		return 0, 0, err
	}
	sanitized, gone, err := p.open(ctx, t.Sanitized, part.Partition)
	if err != nil {
		return 0, 0, err
	}
	mark, _, err := p.lastMark(ctx, t.Changelog, part.Partition)
	if err != nil {
		return 0, 0, err
	}
	if part.refused, n, err = p.first.readRefused(ctx, letters, part.Partition, part.Origin, mark.Input); err != nil {
		return 0, 0, err
	}
	if lost || gone {
		return -1, mark.Input, nil
	}
	err = scan(ctx, sanitized.fetcher, sanitized.at, sanitized.end, func(consumer.Record) error {
		n++
		return nil
	})
	return n, mark.Input, err
}

// open opens one of the service's outputs, and says whether its beginning is gone. One
// that does not exist is empty.
func (p *planner) open(ctx context.Context, topic string, partition int32) (*puller, bool, error) {
	there, err := p.exists(ctx, topic)
	if err != nil || !there {
		return &puller{}, !there, err
	}
	f, err := consumer.NewFetcher(p.client, topic, partition, consumer.FetcherOptions{})
	if err != nil {
		return nil, false, err
	}
	first, end, err := f.Bounds(ctx)
	return &puller{fetcher: f, at: first, end: end}, first > 0, err
}

// countDays counts the raw records from the origin up to an offset, and those of them before
// the range's end whose day the key lacks and that were not refused: their noise may be needed.
func (o Options) countDays(ctx context.Context, raw *consumer.Fetcher, part *ReplayPartition,
	to int64,
) (records, doubtful int64, err error) {
	codec, err := schemas.NewCodec(o.RawEncoding)
	if err != nil {
		return 0, 0, err
	}
	first := o.Key.FirstDay()
	err = scan(ctx, raw, part.Origin, to, func(r consumer.Record) error {
		records++
		if first == 0 || r.Offset >= part.To || part.refused.Has(r.Offset) {
			return nil
		}
		fix, err := Accept(codec, o.MaxAhead, r.Key, r.Value, r.Timestamp)
		if err == nil && o.Day(fix.Timestamp) < first {
			doubtful++
		}
		return nil // what is not accepted is a dead letter under any key
	})
	return records, doubtful, err
}

// repeat runs the mechanism over the raw records once. It counts the releases of the range
// that the key cannot make, and says whether the states that come of all that the service has
// answered are those of its changelog. Where it is another release anyway, it goes no further
// than the range and has nothing to compare. It takes a folder on disk, as costs does.
func (p *planner) repeat(ctx context.Context, part *ReplayPartition, raw *consumer.Fetcher,
	again bool,
) (lacking int64, same bool, err error) {
	sweep(p.r.TempDir)
	dir, err := os.MkdirTemp(p.r.TempDir, scratchPrefix)
	if err != nil {
		return 0, false, fmt.Errorf("comparing states needs a temporary folder: %w", err)
	}
	store, err := state.Open(dir, state.Options{
		CacheBytes: 16 << 20, BlockCacheBytes: 16 << 20, MemTableBytes: 8 << 20, Logger: p.first.Logger,
	})
	if err != nil {
		return 0, false, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, store.Close(), os.RemoveAll(dir)) }()
	c := &check{verification: &verification{o: p.first, client: p.client}, p: part.Partition, to: part.To}
	c.recomputed, c.stored = newScratch(store.Partition(0)), newScratch(store.Partition(1))
	c.amended = part.amended
	if again {
		if err := c.readStates(ctx); err != nil {
			return 0, false, err
		}
	}
	lacking, err = c.restate(ctx, part, raw, p.partitions, func(at int64) {
		if p.r.Planning != nil {
			p.r.Planning(at-part.Origin, c.to-part.Origin)
		}
	})
	if err != nil || !again {
		return lacking, false, err
	}
	err = c.compareStates()
	return lacking, c.report.ViolationCount == 0, err
}

// readStates reads the states of the changelog as of its last mark, and up to which raw record
// and under which versions of the model they are.
func (c *check) readStates(ctx context.Context) (err error) {
	// A transaction may be committed while its marker is still on its way to the changelog.
	if _, err := c.openOutput(ctx, c.o.Topics.Changelog); err != nil {
		return err
	}
	if err := c.readChangelog(ctx); err != nil {
		return err
	}
	c.to = c.mark.Input
	c.amended, err = Resolve(c.mark.Amendments, c.o.Later)
	return err
}

// restate computes the states of all users again, with the refusals of the first release.
func (c *check) restate(ctx context.Context, part *ReplayPartition, raw *consumer.Fetcher, of int,
	progress func(at int64),
) (lacking int64, err error) {
	processor, err := NewProcessor(c.o.Settings, Partition{c.o.Topics.Raw, c.p, of})
	if err != nil {
		return 0, err
	}
	processor.Use(c.amended)
	processor.Refuse(part.refused)
	err = processor.rerun(ctx, raw, part.Origin, c.to, c.recomputed, progress,
		func(offset int64, _ *task.Effects) error {
			if processor.Tally().Destroyed > 0 && offset < part.To && !part.refused.Has(offset) {
				lacking++
			}
			return nil
		})
	return lacking, err
}
