package verify

import (
	"context"
	"errors"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/rerun"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// recompute runs the mechanism over the raw records and compares what comes of
// them with what is committed, as it goes.
func (c *check) recompute(ctx context.Context, raw *topics.Reader, sanitized, dead output) error {
	from := c.from
	if c.part {
		from = c.changelog.Mark.Since
		if err := c.leaveOut(ctx, raw, from); err != nil {
			return err
		}
	}
	run, err := c.newRecomputation(sanitized, dead)
	if err != nil {
		return err
	}
	err = raw.Scan(ctx, from, c.end, func(r consumer.Record) error {
		if r.Offset < c.to {
			c.report.Raw++
		} else if err := run.compareOnce(); err != nil {
			return err
		} else if run.explained() {
			return errExplained
		}
		if r.Offset%256 == 0 {
			c.progress(c.p, r.Offset-from, c.end-from)
		}
		return run.step(ctx, r)
	})
	if errors.Is(err, errExplained) {
		err = nil
	}
	if err == nil {
		err = run.compareOnce()
	}
	if err != nil {
		return err
	}
	c.progress(c.p, c.end-from, c.end-from)
	if err := run.finish(ctx); err != nil {
		return err
	}
	run.judgeDays(dead)
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
		user, err := reader.Key(topics.Record(r))
		if err != nil {
			return err
		}
		name = names.Of(name[:0], string(user))
		return errors.Join(c.seen.Put(user, 0, []byte{1}), c.seen.Put(name, 0, []byte{1}))
	})
}

// errExplained ends a recomputation before the end of the raw topic.
var errExplained = errors.New("nothing that was written is left to explain")

// forget removes what belongs to users that were there before the settings changed.
func (c *check) forget(s *rerun.Map, user func(key, value []byte) []byte) error {
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
	rerun           rerun.Run
	letters         *schemas.Codec
	sanitized, dead *matcher
	buf             []byte
	unexplained     int64    // digests in c.shown
	showing         []uint64 // a bit set where c.shown may have a digest
	lacking         int64    // fixes that the key has no noise for, and that were not refused
	fault           error    // the first of the scratch that old met
	compared        bool     // compareOnce was called
}

func (c *check) newRecomputation(sanitized, dead output) (*recomputation, error) {
	r := &recomputation{check: c}
	processor, err := engine.NewProcessor(c.o.Settings,
		engine.Partition{Topic: c.o.Topics.Raw, Number: c.p, Of: len(c.done)})
	if err != nil {
		return nil, err
	}
	processor.Use(c.amended)
	processor.Refuse(c.refused)
	r.rerun = rerun.Run{
		Processor: processor, States: c.recomputed,
		Erasures: rerun.NewErasures(c.o.Key, c.erased),
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
	r.showing = make([]uint64, 1<<16)
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

// step processes one raw record.
func (r *recomputation) step(ctx context.Context, rec consumer.Record) error {
	user, err := r.rerun.Processor.Key(topics.Record(rec))
	if err != nil {
		return err
	}
	old := r.part && r.old(user)
	fx, err := r.rerun.Step(rec, !old)
	if err != nil {
		return err
	}
	tally, _ := r.rerun.Processor.Take()
	if !old {
		if rec.Offset < r.to && tally.Destroyed > 0 {
			r.destroyed(rec.Offset)
		}
		if err := r.published(ctx, rec.Offset, fx.Output); err != nil {
			return err
		}
	}
	for _, m := range fx.DeadLetters {
		if r.part && !r.judged(m.Value) {
			continue
		}
		e := made(rec.Offset, m, r.dead.actual.undated)
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
		e := made(offset, m, r.sanitized.actual.undated)
		if err := r.explainShown(&e); err != nil {
			return err
		}
		if err := r.sanitized.expect(ctx, &e); err != nil {
			return err
		}
	}
	return nil
}

func made(offset int64, m task.Message, undated bool) entry {
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
	return r.shown.Each(func(_ []byte, offset int64, _ []byte) error {
		r.violation(Uncommitted, offset, "this record of %s, of an aborted transaction, is not "+
			"what any fix gives: readers of uncommitted data have seen another release",
			r.o.Topics.Sanitized)
		return nil
	})
}

// compareOnce compares the states when it is first called.
func (r *recomputation) compareOnce() error {
	if r.compared {
		return nil
	}
	r.compared = true
	differ, err := r.rerun.Erasures.Finish(r.to, r.changelog.Erased, r.recomputed)
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
	c.report.Users, err = rerun.CompareStates(c.recomputed, c.stored,
		func(is rerun.StateDifference, at, last int64) {
			switch is {
			case rerun.StateUnfounded:
				c.violation(StateDiffers, at, "the state at this offset of %s is of a user of "+
					"whom no fix was accepted", t.Changelog)
			case rerun.StateOther:
				c.violation(StateDiffers, at, "the state at this offset of %s is not the "+
					"recomputed one; the user's last release is of the fix at offset %d of %s",
					t.Changelog, last, t.Raw)
			case rerun.StateMissing:
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
	case c.report.ViolationCount == 0:
	case r.lacking > 0:
		c.unverified("%s", rerun.LackingNoise(c.o.Key, r.lacking))
		c.report.From, c.report.To = -1, -1
		c.report.ViolationCount, c.report.Violations = 0, []Violation{}
	case dead.reader.First > 0 || dead.reader.End == 0:
		c.unverified("dead letters are gone, so it is not known which fixes were refused since " +
			"the service's key no longer had their day: such a one shows as missing, and its " +
			"user's state as another")
	}
}
