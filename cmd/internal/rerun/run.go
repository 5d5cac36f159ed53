package rerun

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// Run processes raw records again, on states of its own.
type Run struct {
	Processor *engine.Processor
	States    *Map // user → raw offset of the last change, state
	// Erasures are those of the first release; nil: there were none.
	Erasures *Erasures

	fx task.Effects
}

// Step processes one raw record on its user's state and returns the effects, which are valid
// until the next call. Without keep the user counts as new, and the state is not kept.
func (r *Run) Step(rec consumer.Record, keep bool) (*task.Effects, error) {
	record := topics.Record(rec)
	key, err := r.Processor.Key(record)
	if err != nil {
		return nil, err
	}
	var before []byte
	var recalled string
	if keep && task.ValidKey(key) {
		before, recalled, err = r.Erasures.state(key, rec.Offset, r.States)
		if err != nil {
			return nil, err
		}
	}
	r.fx = task.Effects{Output: r.fx.Output[:0], DeadLetters: r.fx.DeadLetters[:0]}
	if err := r.Processor.Process(record, before, &r.fx); err != nil {
		return nil, err
	}
	if keep && len(r.fx.State) > 0 {
		if err := r.States.Put(key, rec.Offset, r.fx.State); err != nil {
			return nil, err
		}
		if recalled != "" {
			if err := r.Erasures.recalled(recalled); err != nil {
				return nil, err
			}
		}
	}
	return &r.fx, nil
}

// progressEvery is the number of records between two reports of progress.
const progressEvery = 256

// All processes the raw records of a range, and shows the effects and the tally of each. It
// publishes nothing.
func (r *Run) All(ctx context.Context, raw *topics.Reader, from, to int64, progress func(at int64),
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
