package service

import (
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
)

// Window is the part of one raw partition that a replay goes through. All offsets are raw ones.
type Window struct {
	Origin int64 // where processing starts: the states at From depend on what lies before
	From   int64 // where publishing starts
	End    int64 // where both end
	// Settings take the place of the options' fingerprint in the marks: two replays of one group
	// differ in them.
	Settings []byte
	Second   bool            // the records say that they depend on second releases
	Refused  *engine.Offsets // refused again for their day, as in the first release; or nil
}

// Empty reports that there is nothing to publish.
func (w Window) Empty() bool { return w.End <= w.Origin || w.End <= w.From }

// windowed publishes what a processor makes of the records from an offset on. Those before it are
// for the states.
type windowed struct {
	*engine.Processor
	from int64
}

// Process implements task.Processor.
func (w *windowed) Process(rec task.Record, state []byte, fx *task.Effects) error {
	p := w.Processor
	tally := p.Tally()
	before := *tally
	if err := p.Process(rec, state, fx); err != nil {
		return err
	}
	if rec.Offset < w.from {
		fx.Output, fx.DeadLetters = fx.Output[:0], fx.DeadLetters[:0]
		before.RecordsIn = tally.RecordsIn
		*tally = before
	}
	return nil
}
