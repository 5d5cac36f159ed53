package train

import (
	"errors"
	"time"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train/internal/smooth"
	"github.com/geodither/geodither/mechanism/parallel"
)

// ErrNoFixes says that training saw no fix inside the box.
var ErrNoFixes = errors.New("train: no fix lies inside the box; check the box's order (south, west, north, east) and the input's columns")

// Finish returns the model of everything added, and what was counted. The same set of fixes gives the same model,
// whatever their order. The trainer may go on to take more fixes.
func (t *Trainer) Finish() (*mobility.Model, mobility.Report, error) {
	return t.FinishWithProgress(func(int64, int64) error { return nil })
}

// FinishWithProgress is [Trainer.Finish] that tells how far it is, in units of its own, and ends with the error that report returns,
// if it returns one. Report is called from the goroutine that called FinishWithProgress, for each user and for every few
// thousand rows, twice. Counting and smoothing take all cores; the bits do not depend on how many there are.
//
// Cost where the map is large and little of it was seen: on 1000×1000 cells with the default kernel some two seconds of computing and 1.3 GB,
// nearly all of it the matrix; each further class of a calendar adds 8 bytes to the 12 of each of its 10⁸ entries.
func (t *Trainer) FinishWithProgress(report func(done, total int64) error) (*mobility.Model, mobility.Report, error) {
	counted := t.Seen()
	if counted.Fixes == 0 {
		return nil, counted, ErrNoFixes
	}
	t.settle()
	work := parallel.Progress{Report: report, Total: int64(len(t.users)) + 2*int64(t.grid.Cells())}
	counts, err := t.count(&work)
	if err != nil {
		return nil, counted, err
	}
	kernel := smooth.Learn(t.grid, counts.transitions, t.options.KernelRadius)
	jumping := kernel.WithJumps(t.grid, t.options.KernelRadius, t.options.Jumps)
	smoother := smooth.New(t.grid, jumping, t.options.Backoff, counts.transitions, counts.classes)
	entries, err := smoother.Measure(&work)
	if err != nil {
		return nil, counted, err
	}
	if err := t.CheckSize(entries); err != nil {
		return nil, counted, err
	}
	matrices, err := smoother.Matrices(&work)
	if err != nil {
		return nil, counted, err
	}
	model := &mobility.Model{
		Grid:     t.grid,
		Step:     time.Duration(t.stepMS) * time.Millisecond,
		Calendar: t.options.Calendar,
		Matrices: matrices,
		Initial:  smooth.Initial(t.grid, counts.popularity, kernel, t.options.Uniform),
	}
	counted.SharedFixes = counts.dropped
	counted.Transitions = counts.raw
	counted.CellsSeen = int64(len(counts.popularity))
	counted.RowsSeen = rowsSeen(counts.transitions)
	counted.MatrixEntries = int64(model.Transitions())
	model.Provenance = mobility.Provenance{Source: t.options.Source, Tool: t.options.Tool, Options: t.options.String(), Report: counted}
	return model, counted, nil
}

// Seen returns how many users and fixes were added so far. Whatever only training counts is 0 in it.
func (t *Trainer) Seen() (r mobility.Report) {
	for _, user := range t.users {
		r.Fixes += user.fixes
		r.OutsideBox += user.outside
		if user.fixes > 0 {
			r.Users++
		}
	}
	return r
}

func rowsSeen(transitions []smooth.Pair) (rows int64) {
	for i, w := range transitions {
		if i == 0 || transitions[i-1].From != w.From {
			rows++
		}
	}
	return rows
}
