package verify

import (
	"context"
	"errors"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// recompute runs the mechanism over the raw records and compares what comes of
// them with what is committed, as it goes.
func (c *check) recompute(ctx context.Context, raw *topics.Reader, sanitized, dead output) error {
	if err := c.scanUncommitted(ctx, sanitized); err != nil {
		return err
	}
	from := c.from
	if c.part {
		from = c.changelog.Mark.Since
		if err := c.leaveOut(ctx, raw, from); err != nil {
			return err
		}
	}
	run, err := c.newRecomputation(sanitized, dead, func(at int64) {
		c.progress.Set(int(c.p), at-from, c.end-from)
	})
	if err != nil {
		return err
	}
	show := func(r Recomputed) error { return run.compare(ctx, r) }
	if err := run.rerun.Read(ctx, raw, from, c.to, show); err != nil {
		return err
	}
	if err := run.compareAccounts(); err != nil {
		return err
	}
	// What lies behind is not answered yet, or not as far as the mark knows.
	err = run.rerun.Read(ctx, raw, c.to, c.end, func(r Recomputed) error {
		if err := run.compare(ctx, r); err != nil || !run.explained() {
			return err
		}
		return errExplained
	})
	if err != nil && !errors.Is(err, errExplained) {
		return err
	}
	c.progress.Set(int(c.p), c.end-from, c.end-from)
	if err := run.finish(ctx); err != nil {
		return err
	}
	run.judgeDays(dead)
	if c.whole && !run.rerun.OnePartitioner() {
		return errDiffers // anybody who can write could have dead letters for what is missing
	}
	return nil
}

// leaveOut makes the check one of the users alone that came after the settings changed.
func (c *check) leaveOut(ctx context.Context, raw *topics.Reader, until int64) error {
	if err := c.see(ctx, raw, until); err != nil {
		return err
	}
	if err := c.forget(c.shown, func(_, value []byte) []byte { return value }); err != nil {
		return err
	}
	return c.forget(c.stored, func(key, _ []byte) []byte { return key })
}

// see collects the users that were there before the settings changed, under either
// name that their records may carry.
func (c *check) see(ctx context.Context, raw *topics.Reader, until int64) error {
	names := engine.NewPseudonyms(c.o.Key)
	reader, err := engine.NewReader(c.o.Source())
	if err != nil {
		return err
	}
	var name []byte
	return raw.Scan(ctx, c.from, until, func(r consumer.Record) error {
		if c.misplaced.Has(r.Offset) {
			return nil // its user's state has nothing of it
		}
		user, _, err := reader.Key(topics.Record(r))
		if err != nil {
			return err
		}
		if known, err := c.seen.Has(user); err != nil {
			return err
		} else if !known && task.ValidKey(user) {
			c.leftOut++
		}
		name = names.Of(name[:0], string(user))
		return errors.Join(c.seen.Put(user, 0, []byte{1}), c.seen.Put(name, 0, []byte{1}))
	})
}

// errDiffers ends a recomputation under settings that may not be those of the first release.
var errDiffers = errors.New("the results are of other settings")

// errExplained ends a recomputation before the end of the raw topic.
var errExplained = errors.New("nothing that was written is left to explain")

// forget removes what belongs to users that were there before the settings changed.
func (c *check) forget(s *Map, user func(key, value []byte) []byte) error {
	if err := c.seen.Flush(); err != nil {
		return err
	}
	return s.Each(func(key []byte, _ int64, value []byte) error {
		known, err := c.seen.Has(user(key, value))
		if err != nil || !known {
			return err
		}
		return s.Remove(key)
	})
}

// recomputation is one pass over the raw records.
type recomputation struct {
	*check
	rerun           *Rerun
	letters         *schemas.Codec
	sanitized, dead *matcher
	buf             []byte
	unexplained     int64    // digests in c.shown
	showing         []uint64 // a bit set where c.shown may have a digest
	lacking         int64    // fixes that the key has no noise for, and that were not refused
	fault           error    // the first of the scratch that a matcher met
}

func (c *check) newRecomputation(sanitized, dead output, progress func(at int64)) (
	r *recomputation, err error,
) {
	r = &recomputation{check: c, showing: make([]uint64, 1<<16)}
	again := RerunOptions{
		Settings:  c.o.Settings,
		Partition: engine.Partition{Topic: c.o.Topics.Raw, Number: c.p, Of: c.partitions},
		States:    c.recomputed, Refused: c.refused, Erased: c.erased,
		Misplaced: c.misplaced, Progress: progress,
	}
	if c.misplaced != nil {
		again.Until = c.changelog.Mark.Since
	}
	if c.part {
		again.Skip = c.seen.Has
	}
	if r.rerun, err = NewRerun(again); err != nil {
		return nil, err
	}
	if r.letters, err = schemas.NewCodec(c.o.SanitizedEncoding); err != nil {
		return nil, err
	}
	r.sanitized = c.newMatcher(sanitized, func(kind string, offset int64, detail string) {
		c.violation(kind, offset, "%s", detail)
	})
	r.dead = c.newMatcher(dead, func(kind string, offset int64, detail string) {
		c.violation(DeadLetter, offset, "%s: %s", kind, detail)
	})
	if c.part {
		r.sanitized.keep = func(e *entry) bool { return !r.old(e.Key) }
		r.dead.keep = func(e *entry) bool { return r.judged(e.Value) }
	}
	return r, c.shown.Each(func(key []byte, _ int64, _ []byte) error {
		word, bit := place(digest(key))
		r.showing[word] |= bit
		r.unexplained++
		return nil
	})
}

func (c *check) newMatcher(
	o output, report func(kind string, offset int64, detail string),
) *matcher {
	return &matcher{
		actual: o.pull(), required: c.to, lost: o.reader.First > 0, report: report,
		topic: o.topic, raw: c.o.Topics.Raw, recent: map[digest]struct{}{},
	}
}

// place is where a digest has its bit.
func place(d digest) (word int, bit uint64) {
	return int(d[0])<<8 | int(d[1]), 1 << (d[2] & 63)
}

// compare compares what comes of one raw record.
func (r *recomputation) compare(ctx context.Context, made Recomputed) error {
	if r.whole && r.report.ViolationCount > r.early {
		return errDiffers
	}
	if made.Offset < r.to {
		r.report.Raw++
	}
	if r.misplaced.Has(made.Offset) {
		r.report.RefusedPlaces++
	}
	if !made.Skipped {
		if made.Offset < r.to && made.Tally.Destroyed > 0 {
			r.destroyed(made.Offset)
		}
		if err := r.published(ctx, made.Offset, made.Output); err != nil {
			return err
		}
	}
	for _, m := range made.DeadLetters {
		if r.part && !r.judged(m.Value) {
			continue
		}
		e := entryOf(made.Offset, m, r.dead.actual.undated)
		if err := r.dead.expect(ctx, &e); err != nil {
			return err
		}
	}
	return nil
}

// destroyed counts a fix that the key has no noise for.
func (r *recomputation) destroyed(offset int64) {
	if r.refused.Has(offset) {
		r.report.RefusedDays++
	} else {
		r.lacking++
	}
}

// published compares what a raw record gives with what is committed.
func (r *recomputation) published(ctx context.Context, offset int64, output []task.Message) error {
	for _, m := range output {
		e := entryOf(offset, m, r.sanitized.actual.undated)
		if err := r.explainShown(&e); err != nil {
			return err
		}
		if err := r.sanitized.expect(ctx, &e); err != nil {
			return err
		}
	}
	return nil
}

func entryOf(offset int64, m task.Message, undated bool) entry {
	e := entry{Offset: offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value}
	if undated {
		e.Timestamp = 0
	}
	return e
}

// explainShown strikes off what an aborted transaction has shown of this very record.
func (r *recomputation) explainShown(e *entry) error {
	if r.report.NotCommitted == 0 {
		return nil
	}
	var d digest
	d, r.buf = e.digest(r.buf)
	if word, bit := place(d); r.showing[word]&bit == 0 {
		return nil
	}
	known, err := r.shown.Has(d[:])
	if err != nil || !known {
		return err
	}
	r.unexplained--
	return r.shown.Remove(d[:])
}

// explained reports that nothing is left which a further raw record could be the
// reason of: of what was not answered yet, most is not written either.
func (r *recomputation) explained() bool {
	return r.unexplained == 0 && r.sanitized.settled() && r.dead.settled()
}

// old reports whether a user was there before the settings changed. An error of
// the scratch ends the verification in finish.
func (r *recomputation) old(key []byte) bool {
	known, err := r.seen.Has(key)
	if err != nil && r.fault == nil {
		r.fault = err
	}
	return err == nil && known
}

// judged reports whether a dead letter can be known after the settings have
// changed: whether a fix is late, on which version's map it has to lie, and whether it needs
// a key at all depend on the user's state.
func (r *recomputation) judged(value []byte) bool {
	letter, err := r.letters.DecodeDeadLetter(value)
	if err != nil {
		return true
	}
	switch letter.Reason { //nolint:exhaustive // the others depend on the record alone
	case schemas.ReasonLate, schemas.ReasonOutsideMap, schemas.ReasonKeyDestroyed:
		return false
	}
	return letter.Offset >= r.changelog.Mark.Since
}

// finish compares what is left at the end.
func (r *recomputation) finish(ctx context.Context) error {
	if r.fault != nil {
		return r.fault
	}
	for _, m := range []*matcher{r.sanitized, r.dead} {
		if err := m.end(ctx); err != nil {
			return err
		}
		if m.aged > 0 {
			r.unverified("retention has removed the beginning of %s: %d recomputed records could "+
				"not be compared", m.topic, m.aged)
		} else if m.lost {
			r.unverified("the first records of %s were removed; what follows is as it should be "+
				"where no violation says otherwise", m.topic)
		}
		if m.found > manyViolations {
			r.unverified("%s differs in more than %d places; the rest was not looked at",
				m.topic, manyViolations)
		}
	}
	r.report.Sanitized, r.report.DeadLetters = r.sanitized.actual.read, r.dead.actual.read
	r.report.Equal = r.sanitized.equal + r.dead.equal
	return r.shown.Each(func(_ []byte, offset int64, _ []byte) error {
		r.violation(Uncommitted, offset, "this record of %s, of an aborted transaction, is not "+
			"what any fix gives: readers of uncommitted data have seen another release",
			r.o.Topics.Sanitized)
		return nil
	})
}

// compareAccounts compares the states, and the accounts that are kept of erased users.
func (r *recomputation) compareAccounts() error {
	differ, err := r.rerun.Finish(r.to, r.changelog.Erased)
	if err != nil {
		return err
	}
	if !r.part {
		for range differ {
			r.violation(StateDiffers, -1, "the account that %s keeps of an erased user is not the "+
				"recomputed one", r.o.Topics.Changelog)
		}
	}
	return r.compareStates()
}

// compareStates compares the changelog's last values with the recomputed ones,
// as they are when everything up to its mark is processed.
func (c *check) compareStates() (err error) {
	t := c.o.Topics
	c.report.Users, err = CompareStates(c.recomputed, c.stored,
		func(is StateDifference, at, last int64) {
			switch is {
			case StateUnfounded:
				c.violation(StateDiffers, at, "the state at this offset of %s is of a user of "+
					"whom no fix was accepted", t.Changelog)
			case StateOther:
				c.violation(StateDiffers, at, "the state at this offset of %s is not the "+
					"recomputed one; the user's last release is of the fix at offset %d of %s",
					t.Changelog, last, t.Raw)
			case StateMissing:
				c.violation(StateDiffers, last,
					"the user whose fix is at this offset of %s has no state in %s", t.Raw,
					t.Changelog)
			}
		})
	return err
}

// judgeDays ends a recomputation. Where the key lacked days of fixes that were not refused,
// and the results differ, nothing can be said of them.
func (r *recomputation) judgeDays(dead output) {
	c := r.check
	switch {
	case c.report.ViolationCount == c.early:
	case r.lacking > 0:
		c.unverified("%s", LackingNoise(c.o.Key, r.lacking))
		c.report.From, c.report.To = -1, -1
		c.report.ViolationCount, c.report.Equal = c.early, 0
		c.report.Violations = c.report.Violations[:min(int(c.early), len(c.report.Violations))]
	case dead.reader.First > 0 || dead.reader.End == 0:
		c.unverified("dead letters are gone, so it is not known which fixes were refused since " +
			"the service's key no longer had their day: such a one shows as missing, and its " +
			"user's state as another")
	}
}
