package mobility

import (
	"errors"
	"time"
)

// ErrNoFixes says that training saw no fix inside the box.
var ErrNoFixes = errors.New("mobility: no fix lies inside the box; check the box's order (south, west, north, east) and the input's columns")

// Finish returns the model of everything added, and what was counted. The same set of fixes gives the same model,
// whatever their order. The trainer may go on to take more fixes.
func (t *Trainer) Finish() (*Model, Report, error) {
	return t.FinishWhile(func(int64, int64) error { return nil })
}

// FinishWhile is [Trainer.Finish] that tells how far it is, in units of its own, and ends with the error that report returns,
// if it returns one. Report is called from the goroutine that called FinishWhile, for each user and for every few
// thousand rows, twice. Counting and smoothing take all cores; the bits do not depend on how many there are.
//
// Cost where the map is large and little of it was seen: on 1000×1000 cells with the default kernel some two seconds of computing and 1.3 GB,
// nearly all of it the matrix; each further class of a calendar adds 8 bytes to the 12 of each of its 10⁸ entries.
func (t *Trainer) FinishWhile(report func(done, total int64) error) (*Model, Report, error) {
	counted := t.tally()
	if counted.Fixes == 0 {
		return nil, counted, ErrNoFixes
	}
	t.settle()
	work := progress{report: report, total: int64(len(t.users)) + 2*int64(t.grid.Cells())}
	counts, err := t.count(&work)
	if err != nil {
		return nil, counted, err
	}
	kernel := learnKernel(t.grid, counts.transitions, t.options.KernelRadius)
	jumping := kernel.withJumps(t.grid, t.options.KernelRadius, t.options.Jumps)
	matrices, err := t.smooth(counts, jumping, &work)
	if err != nil {
		return nil, counted, err
	}
	model := &Model{
		Grid:     t.grid,
		Step:     time.Duration(t.stepMS) * time.Millisecond,
		Calendar: t.options.Calendar,
		Matrices: matrices,
		Initial:  initial(t.grid, counts.popularity, kernel, t.options.Uniform),
	}
	counted.SharedFixes = counts.dropped
	counted.Transitions = counts.raw
	counted.CellsSeen = int64(len(counts.popularity))
	counted.RowsSeen = rowsSeen(counts.transitions)
	counted.MatrixEntries = int64(model.Transitions())
	model.Provenance = Provenance{Source: t.options.Source, Tool: t.options.Tool, Options: t.options.String(), Report: counted}
	return model, counted, nil
}

// tally adds up what was read of all users.
func (t *Trainer) tally() (r Report) {
	for _, user := range t.users {
		r.Fixes += user.fixes
		r.OutsideBox += user.outside
		if user.fixes > 0 {
			r.Users++
		}
	}
	return r
}

// progress passes on how much of the work is done.
type progress struct {
	report      func(done, total int64) error
	done, total int64
}

func (p *progress) add(n int) error {
	p.done += int64(n)
	return p.report(p.done, p.total)
}

func rowsSeen(transitions []weighted) (rows int64) {
	for i, w := range transitions {
		if i == 0 || transitions[i-1].from != w.from {
			rows++
		}
	}
	return rows
}
