package mobility

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// TrainOptions says how traces become a model. The zero value takes every default.
type TrainOptions struct {
	// KernelRadius is the reach in cells of the smoothing kernel (default 5). It decides the size of the model: each row
	// holds the cells within it, 81 for a radius of 5, 29 for 3, 13 for 2, the jumps, and the transitions seen beyond it.
	KernelRadius int
	// Backoff is the weight κ of the kernel in a row, in transitions (default 20): a cell with n counted transitions out
	// of it trusts them as n to κ. Rows never seen are the kernel alone.
	Backoff float64
	// UserCap bounds what one user contributes to one cell's row, in transitions, and to its popularity, in steps
	// (default 30): a user who sat somewhere for weeks does not speak for the others. Weights beyond it are scaled down
	// in proportion.
	UserCap int
	// MaxGap cuts a trace where two successive fixes are further apart. 0: no limit but that transitions are between
	// consecutive steps. Otherwise it must be at least the step (or, with EveryFix, positive).
	MaxGap time.Duration
	// EveryFix makes each pair of a user's successive fixes a transition, whatever the time between them: for check-ins,
	// which come too rarely for any step. The model's step is then nominal.
	EveryFix bool
	// Uniform is the share of the initial distribution that is spread evenly over the grid (default 0.1), so that a
	// user who starts where nobody was before can be found.
	Uniform float64
	// Jumps is the share of the kernel that goes to far cells, in eight directions at twice the radius, twice that and so
	// on (default 1e-3; negative: none). It stands in for a uniform teleport, which would make every row as long as the
	// grid: a user who reappears beyond the kernel is found again sooner. It makes rows at most a third longer, and a
	// radius of 1 or 2 has no room for it.
	Jumps float64
	// Source and Tool are copied into the provenance.
	Source, Tool string
}

// Defaults returns o with every zero number replaced by its default.
func (o TrainOptions) Defaults() TrainOptions {
	o.KernelRadius = cmp.Or(o.KernelRadius, 5)
	o.Backoff = cmp.Or(o.Backoff, 20)
	o.UserCap = cmp.Or(o.UserCap, 30)
	o.Uniform = cmp.Or(o.Uniform, 0.1)
	o.Jumps = cmp.Or(o.Jumps, 1e-3)
	return o
}

// maxKernelRadius keeps a row below 50,000 cells.
const maxKernelRadius = 125

// Validate reports the first option, defaults filled in, that training at the step cannot use.
func (o TrainOptions) Validate(step time.Duration) error {
	o = o.Defaults()
	switch {
	case step < time.Millisecond || step > 24*time.Hour || step%time.Millisecond != 0:
		return errors.New("mobility: the step must be a whole number of milliseconds, at most a day")
	case o.KernelRadius < 1 || o.KernelRadius > maxKernelRadius:
		return fmt.Errorf("mobility: the kernel radius must be 1 to %d cells", maxKernelRadius)
	case !(o.Backoff > 0) || o.Backoff > 1e6:
		return errors.New("mobility: the back-off weight must be positive and at most 1e6")
	case o.UserCap < 1 || o.UserCap > 1e6:
		return errors.New("mobility: the cap of transitions per user and cell must be 1 to 1e6")
	case !(o.Uniform > 0) || o.Uniform > 1:
		return errors.New("mobility: the uniform share of the initial distribution must be in (0, 1]")
	case !(o.Jumps < 1):
		return errors.New("mobility: the share of jumps must be less than 1 (negative for none)")
	case o.MaxGap < 0, o.MaxGap > 0 && o.MaxGap < step && !o.EveryFix:
		return errors.New("mobility: the greatest gap must be 0 (no limit) or at least the step")
	}
	return nil
}

func (o TrainOptions) String() string {
	return fmt.Sprintf("kernel_radius=%d backoff=%g user_cap=%d max_gap=%s every_fix=%t uniform=%g jumps=%g",
		o.KernelRadius, o.Backoff, o.UserCap, o.MaxGap, o.EveryFix, o.Uniform, max(o.Jumps, 0))
}

// Trainer gathers fixes, in any order, and turns them into a model. Memory: 24 bytes per user and step.
type Trainer struct {
	grid    *grid.Grid
	stepMS  int64
	options TrainOptions
	users   map[string]*visits
	report  Report
}

// visits holds a user's records, in the order they came until they are read.
type visits struct{ records []visit }

// visit is what a user did in one step: the cell of the last fix stands for the step. Merging two visits of a step
// is commutative, which is what makes the model independent of the order of fixes. With EveryFix each fix is a visit.
type visit struct {
	step    int64
	firstMS int32 // of the first and the last fix, since the step began
	lastMS  int32
	cell    grid.Cell
}

// maxEntries bounds a model's matrix, 3.2 GB at 12 bytes an entry.
const (
	maxEntries    = 1 << 28
	bytesPerEntry = 12
)

// NewTrainer returns a trainer for models of the grid and step, or an error for options that make no sense.
func NewTrainer(g *grid.Grid, step time.Duration, o TrainOptions) (*Trainer, error) {
	if err := o.Validate(step); err != nil {
		return nil, err
	}
	// Every row holds the kernel: π r² cells or a few more. Refused here, not by the operating system after the reading.
	radius := float64(o.Defaults().KernelRadius) + 0.5
	if entries := float64(g.Cells()) * math.Pi * radius * radius; entries > maxEntries {
		return nil, fmt.Errorf("mobility: %d × %d cells with a kernel radius of %d make a model of %.0f GB or more: choose larger cells, a smaller box or a smaller kernel radius",
			g.Width(), g.Height(), o.Defaults().KernelRadius, math.Ceil(entries*bytesPerEntry/1e9))
	}
	return &Trainer{grid: g, stepMS: step.Milliseconds(), options: o.Defaults(), users: make(map[string]*visits)}, nil
}

// Add takes one fix. Fixes outside the grid's box are counted and left out, as if the user had not reported. It panics
// if a coordinate is not a number.
func (t *Trainer) Add(f Fix) {
	if math.IsNaN(f.Lat) || math.IsNaN(f.Lon) {
		panic("mobility: a fix has a coordinate that is not a number")
	}
	if !t.grid.Contains(f.Lat, f.Lon) {
		t.report.OutsideBox++
		return
	}
	t.report.Fixes++
	user := t.users[f.User]
	if user == nil {
		user = &visits{}
		t.users[f.User] = user
	}
	user.add(t.visitOf(f), t.options.EveryFix)
}

func (t *Trainer) visitOf(f Fix) visit {
	v := visit{step: StepOf(f.TimeMS, t.stepMS), cell: t.grid.Locate(f.Lat, f.Lon)}
	v.firstMS = int32(f.TimeMS - v.step*t.stepMS)
	v.lastMS = v.firstMS
	return v
}

func (u *visits) add(v visit, every bool) {
	if n := len(u.records); n > 0 && !every && u.records[n-1].step == v.step {
		u.records[n-1] = u.records[n-1].merge(v)
		return
	}
	u.records = append(u.records, v)
}

// merge returns one visit for two of the same step. Two last fixes at the same millisecond: the greater cell, so that
// the order does not matter.
func (v visit) merge(w visit) visit {
	if w.lastMS > v.lastMS || w.lastMS == v.lastMS && w.cell > v.cell {
		v.lastMS, v.cell = w.lastMS, w.cell
	}
	v.firstMS = min(v.firstMS, w.firstMS)
	return v
}

// sorted returns the records in order of time, one per step (or per fix).
func (u *visits) sorted(every bool) []visit {
	slices.SortFunc(u.records, func(a, b visit) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.lastMS, b.lastMS), cmp.Compare(a.cell, b.cell))
	})
	if every {
		return u.records
	}
	kept := u.records[:0]
	for _, v := range u.records {
		if n := len(kept); n > 0 && kept[n-1].step == v.step {
			kept[n-1] = kept[n-1].merge(v)
		} else {
			kept = append(kept, v)
		}
	}
	u.records = kept
	return kept
}

// Train makes a model of all the fixes, or returns the first error that reading them gives.
func Train(g *grid.Grid, step time.Duration, fixes iter.Seq2[Fix, error], o TrainOptions) (*Model, Report, error) {
	t, err := NewTrainer(g, step, o)
	if err != nil {
		return nil, Report{}, err
	}
	for fix, err := range fixes {
		if err != nil {
			return nil, t.report, err
		}
		t.Add(fix)
	}
	return t.Finish()
}

// ErrNoFixes says that training saw no fix inside the box.
var ErrNoFixes = errors.New("mobility: no fix lies inside the box; check the box's order (south, west, north, east) and the input's columns")

// Finish returns the model of everything added, and what was counted. The same set of fixes gives the same model,
// whatever their order. The trainer may go on to take more fixes.
func (t *Trainer) Finish() (*Model, Report, error) {
	if t.report.Fixes == 0 {
		return nil, t.report, ErrNoFixes
	}
	counts := t.count()
	kernel := learnKernel(t.grid, counts.transitions, t.options.KernelRadius)
	jumping := kernel.withJumps(t.grid, t.options.KernelRadius, t.options.Jumps)
	model := &Model{
		Grid:     t.grid,
		Step:     time.Duration(t.stepMS) * time.Millisecond,
		Matrices: []*Matrix{smooth(t.grid, counts.transitions, jumping, t.options.Backoff)},
		Initial:  initial(t.grid, counts.popularity, kernel, t.options.Uniform),
	}
	report := t.report
	report.Users = int64(len(t.users))
	report.Transitions = counts.raw
	report.CellsSeen = int64(len(counts.popularity))
	report.RowsSeen = rowsSeen(counts.transitions)
	report.MatrixEntries = int64(model.Matrices[0].Transitions())
	model.Provenance = Provenance{Source: t.options.Source, Tool: t.options.Tool, Options: t.options.String(), Report: report}
	return model, report, nil
}

func rowsSeen(transitions []weighted) (rows int64) {
	before := grid.Cell(-1)
	for _, w := range transitions {
		if w.from != before {
			rows, before = rows+1, w.from
		}
	}
	return rows
}
