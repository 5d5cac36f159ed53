package pipeline

import (
	"bytes"
	"context"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Rerun processes raw records again, on states of its own.
type Rerun struct {
	Processor *engine.Processor
	States    *Map // user → raw offset of the last change, state

	fx task.Effects
}

// Step processes one raw record on its user's state and returns the effects, which are valid
// until the next call. Without keep the user counts as new, and the state is not kept.
func (r *Rerun) Step(rec consumer.Record, keep bool) (*task.Effects, error) {
	var before []byte
	if keep && task.ValidKey(rec.Key) {
		var err error
		if _, before, err = r.States.Get(rec.Key); err != nil {
			return nil, err
		}
	}
	r.fx = task.Effects{Output: r.fx.Output[:0], DeadLetters: r.fx.DeadLetters[:0]}
	record := task.Record{Offset: rec.Offset, Timestamp: rec.Timestamp, Key: rec.Key, Value: rec.Value}
	if err := r.Processor.Process(record, before, &r.fx); err != nil {
		return nil, err
	}
	if keep && len(r.fx.State) > 0 {
		if err := r.States.Put(rec.Key, rec.Offset, r.fx.State); err != nil {
			return nil, err
		}
	}
	return &r.fx, nil
}

// progressEvery is the number of records between two reports of progress.
const progressEvery = 256

// All processes the raw records of a range, and shows the effects and the tally of each. It
// publishes nothing.
func (r *Rerun) All(ctx context.Context, raw *topics.Reader, from, to int64, progress func(at int64),
	show func(offset int64, fx *task.Effects, tally engine.Tally) error,
) error {
	return raw.Scan(ctx, from, to, func(rec consumer.Record) error {
		if rec.Offset%progressEvery == 0 {
			progress(rec.Offset)
		}
		fx, err := r.Step(rec, true)
		if err != nil {
			return err
		}
		tally, _ := r.Processor.Take()
		return show(rec.Offset, fx, tally)
	})
}

// Changelog is what a partition of a changelog holds.
type Changelog struct {
	Mark   task.Mark // the last one
	Marked bool      // there is one
}

// ReadChangelog copies the last state of each user into a map, with its offset, and returns the
// last mark.
func ReadChangelog(ctx context.Context, r *topics.Reader, states *Map) (Changelog, error) {
	var found Changelog
	err := r.ScanCompacted(ctx, func(r consumer.Record) error {
		switch {
		case string(r.Key) == task.MarkKey:
			mark, err := task.DecodeMark(r.Value)
			if err != nil {
				return fmt.Errorf("the changelog's record at offset %d: %w", r.Offset, err)
			}
			found.Mark, found.Marked = mark.Clone(), true
			return nil
		case !task.ValidKey(r.Key):
			return nil
		case len(r.Value) == 0:
			return states.Remove(r.Key)
		}
		return states.Put(r.Key, r.Offset, r.Value)
	})
	return found, err
}

// StateDifference says how a user's state in the changelog differs from the recomputed one.
type StateDifference uint8

// Values of StateDifference.
const (
	StateUnfounded StateDifference = iota // no fix of the user was accepted
	StateOther                            // it is another one
	StateMissing                          // the changelog has none
)

// CompareStates compares the states of a changelog with the recomputed ones. It tells of each
// difference, with the changelog's offset of the state and the raw offset of the user's last
// change, each -1 where there is none; and returns how many states the changelog has.
func CompareStates(recomputed, stored *Map, differs func(is StateDifference, at, last int64)) (
	users int64, err error,
) {
	if err := recomputed.Flush(); err != nil {
		return 0, err
	}
	err = stored.Each(func(user []byte, at int64, state []byte) error {
		users++
		last, want, err := recomputed.Get(user)
		switch {
		case err != nil:
			return err
		case want == nil:
			differs(StateUnfounded, at, -1)
		case !bytes.Equal(want, state):
			differs(StateOther, at, last)
		}
		return nil
	})
	if err != nil {
		return users, err
	}
	return users, recomputed.Each(func(user []byte, last int64, _ []byte) error {
		known, err := stored.Has(user)
		if err == nil && !known {
			differs(StateMissing, -1, last)
		}
		return err
	})
}

// A key that was advanced (noise.Key.From) is the same key by its fingerprint, so that a service
// goes on under it without a question. What it answers is the same too, but for fixes whose noise
// is of days that it no longer has: those are refused. Whoever computes the answers again, perhaps
// under an older copy of the key, has to refuse the same ones. The dead letters name them. Where
// these are gone, the users' states in the changelog tell: each release counts in them, so they
// are the same only if the same fixes were released.

// ReadRefused reads from a partition's dead letters which raw records [from, to) were refused for
// their day, and counts all letters of that range.
func ReadRefused(ctx context.Context, letters *topics.Cursor, encoding schemas.Encoding, raw engine.Partition,
	from, to int64,
) (refused *engine.Offsets, count int64, err error) {
	codec, err := schemas.NewCodec(encoding)
	if err != nil {
		return nil, 0, err
	}
	refused = new(engine.Offsets)
	for {
		r, more, err := letters.Next(ctx)
		if err != nil || !more {
			refused.Sort()
			return refused, count, err
		}
		letter, err := codec.DecodeDeadLetter(r.Value)
		if err != nil || letter.Topic != raw.Topic || letter.Partition != raw.Number ||
			letter.Offset < from || letter.Offset >= to {
			continue // of no concern here
		}
		count++
		if letter.Reason == schemas.ReasonKeyDestroyed {
			refused.Add(letter.Offset)
		}
	}
}

// LackingNoise says that the noise of fixes cannot be computed, and what would help.
func LackingNoise(key noise.Key, fixes int64) string {
	return fmt.Sprintf("the noise of up to %d fixes is of days whose key was destroyed: this key begins at %v. "+
		"Only a copy of an older key file can repeat their releases", fixes, key.FirstDay())
}
