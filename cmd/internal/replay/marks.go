package replay

import (
	"bytes"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
)

// versions finds out which versions of the model count from where: those that the first
// release has adopted, before the end. Under other settings there is no such thing, and
// for what would be another release anyway all count by event time alone.
func (p *planner) versions(part *PartitionPlan, mark task.Mark) error {
	part.amended = engine.FromTheStart(p.first.Later)
	if !bytes.Equal(mark.Settings, p.settings) {
		return nil
	}
	adopted := slices.DeleteFunc(mark.Amendments,
		func(a task.Amendment) bool { return a.From >= part.To })
	found, err := engine.Resolve(adopted, p.first.Later)
	if err == nil {
		part.amended = found
	}
	return err
}

// shorten makes a partition the one that an earlier run has begun with, and answers false
// if it is another. While that ran, the service may have come further and adopted versions that
// the run knew nothing of. Without an end of its own it then ends before them, as it would
// have, and not before where it has come to.
func (p *planner) shorten(part *PartitionPlan, own task.Mark) bool {
	open := !p.r.To.IsOffset && p.r.To.Time.IsZero()
	for try := *part; ; try.amended = try.amended[:len(try.amended)-1] {
		if n := len(try.amended); n < len(part.amended) {
			try.To = min(try.To, part.amended[n].From)
		}
		if bytes.Equal(own.Settings, try.window(p.settings, p.r.Output).Settings) {
			*part = try
			return true
		}
		if n := len(try.amended); n == 0 || !open || try.amended[n-1].From < own.Input {
			return false
		}
	}
}
