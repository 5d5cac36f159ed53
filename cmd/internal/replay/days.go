package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// days finds out whether a replay can be the first release again as far as the key's days
// go. It refuses one of fixes whose days the key no longer has, which no ε buys back. It reads the
// raw topic and what the service has written; where these do not tell whether it is the first
// release it runs the mechanism once over the raw records.
func (p *planner) days(ctx context.Context, part *PartitionPlan, raw *topics.Reader) error {
	again, first := len(part.Differs) == 0, p.first.Key.FirstDay()
	if part.empty() || !again && first == 0 {
		return nil
	}
	known, to, err := p.answered(ctx, part)
	if err != nil {
		return err
	}
	if err := raw.Refresh(ctx); err != nil || raw.First > part.Origin {
		return err // an earlier run has begun while they were there, and decided then
	}
	if !again {
		to = part.To
	}
	records, doubtful, err := p.countDays(ctx, raw, part, to)
	if err != nil {
		return err
	}
	switch {
	case !again && doubtful > 0:
		return p.destroyed(doubtful)
	case doubtful == 0 && (!again || known == records):
		return nil // each record has its answer
	}
	lacking, same, err := p.repeat(ctx, part, raw)
	switch {
	case err != nil || same:
		return err
	case lacking > 0:
		return p.destroyed(lacking)
	}
	part.Differs = append(part.Differs, "it is not known which fixes were refused: dead "+
		"letters are gone, and the states that the raw records give now are not those of the "+
		"first release")
	return nil
}

// destroyed refuses a replay of so many fixes of days whose noise is gone.
func (p *planner) destroyed(fixes int64) error {
	return fmt.Errorf("%w: %s", noise.ErrDestroyed, verify.LackingNoise(p.first.Key, fixes))
}

// answered reads what the service has refused for its day, and counts the answers that are
// there to raw records of the partition's range; -1 where retention has removed some. They
// are to records before the offset that it returns: the mark is read after them.
func (p *planner) answered(ctx context.Context, part *PartitionPlan) (n, to int64, err error) {
	t := p.first.Topics
	letters, lost, err := p.open(ctx, t.DeadLetters, part.Partition)
	if err != nil {
		return 0, 0, err
	}
	sanitized, gone, err := p.open(ctx, t.Sanitized, part.Partition)
	if err != nil {
		return 0, 0, err
	}
	mark, _, err := topics.LastMark(ctx, p.client, t.Changelog, part.Partition)
	if err != nil {
		return 0, 0, err
	}
	part.refused, n, err = verify.ReadRefused(ctx, letters.Cursor(letters.First, letters.End),
		p.first.SanitizedEncoding, engine.Partition{Topic: t.Raw, Number: part.Partition},
		part.Origin, mark.Input, schemas.ReasonKeyDestroyed)
	if err != nil {
		return 0, 0, err
	}
	if lost || gone {
		return -1, mark.Input, nil
	}
	err = sanitized.Scan(ctx, sanitized.First, sanitized.End, func(consumer.Record) error {
		n++
		return nil
	})
	return n, mark.Input, err
}

// open opens one of the service's outputs, and says whether its beginning is gone. One
// that does not exist is empty.
func (p *planner) open(
	ctx context.Context, topic string, partition int32,
) (r *topics.Reader, lost bool, err error) {
	there, err := topics.Exists(ctx, p.client, topic)
	if err != nil || !there {
		return &topics.Reader{}, !there, err
	}
	if r, err = topics.Open(ctx, p.client, topic, partition,
		consumer.FetcherOptions{}); err != nil {
		return nil, false, err
	}
	return r, r.First > 0, nil
}

// countDays counts the raw records from the origin up to an offset, and those of them before
// the range's end whose day the key lacks and that were not refused: their noise may be needed.
func (p *planner) countDays(ctx context.Context, raw *topics.Reader, part *PartitionPlan,
	to int64,
) (records, doubtful int64, err error) {
	o := p.first
	reader, err := engine.NewReader(o.Source())
	if err != nil {
		return 0, 0, err
	}
	first := o.Key.FirstDay()
	err = raw.Scan(ctx, part.Origin, to, func(r consumer.Record) error {
		records++
		if first == 0 || r.Offset >= part.To || part.refused.Has(r.Offset) {
			return nil
		}
		fixes, err := reader.Fixes(topics.Record(r))
		if slices.ContainsFunc(fixes, func(fix engine.Fix) bool {
			// What is not accepted is a dead letter, or nothing, under any key.
			return fix.Usable() && o.Day(fix.Raw.Timestamp) < first
		}) {
			doubtful++
		}
		return err
	})
	return records, doubtful, err
}

// repeat runs the mechanism over the raw records once. It counts the releases of the range
// that the key cannot make, and says whether the states that come of all that the service has
// answered are those of its changelog. It takes a folder on disk.
func (p *planner) repeat(ctx context.Context, part *PartitionPlan, raw *topics.Reader) (
	lacking int64, same bool, err error,
) {
	verify.Sweep(p.r.TempDir)
	folder, err := verify.NewFolder(p.r.TempDir, p.first.Logger)
	if err != nil {
		return 0, false, fmt.Errorf("comparing states: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	recomputed, stored := folder.Map(0), folder.Map(1)
	found, err := p.committedStates(ctx, part.Partition, stored)
	if err != nil {
		return 0, false, err
	}
	to := found.Mark.Input
	run, err := verify.NewRerun(verify.RerunOptions{
		Settings: p.first.Settings,
		Partition: engine.Partition{
			Topic: p.first.Topics.Raw, Number: part.Partition, Of: p.partitions,
		},
		States: recomputed, Refused: part.refused,
		Progress: func(at int64) {
			if p.r.Planning != nil {
				p.r.Planning(at-part.Origin, to-part.Origin)
			}
		},
	})
	if err != nil {
		return 0, false, err
	}
	err = run.Read(ctx, raw, part.Origin, to, func(r verify.Recomputed) error {
		if r.Tally.Destroyed > 0 && r.Offset < part.To && !part.refused.Has(r.Offset) {
			lacking++
		}
		return nil
	})
	if err != nil {
		return lacking, false, err
	}
	same = true
	_, err = verify.CompareStates(recomputed, stored,
		func(verify.StateDifference, int64, int64) { same = false })
	return lacking, same, err
}

// committedStates reads the states and the mark of the service's changelog. A transaction may be
// committed while its marker is still on its way to the changelog, so it waits for that.
func (p *planner) committedStates(
	ctx context.Context, partition int32, states *verify.Map,
) (verify.Changelog, error) {
	r, err := topics.OpenDecided(ctx, p.client, p.first.Topics.Changelog, partition,
		p.first.Patience())
	if err != nil {
		return verify.Changelog{}, err
	}
	return verify.ReadChangelog(ctx, r, states)
}
