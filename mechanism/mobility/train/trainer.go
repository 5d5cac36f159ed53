package train

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Trainer gathers fixes, in any order, and turns them into a model. Memory: 32 bytes for each user and step with a fix (for
// each fix with EveryFix), up to three times as much while slices grow. It belongs to one goroutine; trainers that come
// from it by [Trainer.Without] and [Trainer.With] may each have another.
type Trainer struct {
	grid    *grid.Grid
	stepMS  int64
	options Options
	users   map[string]*visits
	// shared fixes of all users, once they have been looked for, and those that were known when users were taken out.
	shared    sharedFixes
	looked    bool
	inherited sharedFixes
}

// Bounds of a trained model in memory. Its matrices have the same columns, kept once, and each its
// own values. Together they may take as much as a single matrix of [mobility.MaxEntries] does: 3.2 GB.
const (
	bytesPerColumn = 4
	bytesPerValue  = 8
	maxBytes       = (bytesPerColumn + bytesPerValue) * mobility.MaxEntries
)

// New returns a trainer for models of the grid and step, or an error for options that make no sense.
func New(g *grid.Grid, step time.Duration, o Options) (*Trainer, error) {
	if err := o.Validate(step); err != nil {
		return nil, err
	}
	t := &Trainer{grid: g, stepMS: step.Milliseconds(), options: o.Defaults(), users: make(map[string]*visits)}
	return t, t.checkSize()
}

// checkSize refuses a model that is too large, before anything is read and not by the operating system after it. Every row
// holds the kernel: π r² cells or a few more.
func (t *Trainer) checkSize() error {
	radius := float64(t.options.KernelRadius) + 0.5
	return t.CheckSize(int64(float64(t.grid.Cells()) * math.Pi * radius * radius))
}

// CheckSize returns an error if a model whose matrices have so many entries each would be too large.
func (t *Trainer) CheckSize(entries int64) error {
	classes := t.options.Calendar.Classes()
	if size := float64(entries) * float64(bytesPerColumn+classes*bytesPerValue); size > maxBytes {
		return fmt.Errorf("train: %d × %d cells with a kernel radius of %d and %d classes of time make a model of %.1f GB, of at most %.1f: choose larger cells, a smaller box, a smaller kernel radius or fewer classes",
			t.grid.Width(), t.grid.Height(), t.options.KernelRadius, classes, size/1e9, float64(maxBytes)/1e9)
	}
	return nil
}

// Add takes one fix. Fixes outside the grid's box are counted and left out, as if the user had not reported. It panics
// if a coordinate is not a number.
func (t *Trainer) Add(f Fix) {
	if math.IsNaN(f.Lat) || math.IsNaN(f.Lon) {
		panic("train: a fix has a coordinate that is not a number")
	}
	user := t.users[f.User]
	if user == nil {
		user = &visits{}
		t.users[f.User] = user
	}
	if !t.grid.Contains(f.Lat, f.Lon) {
		user.outside++
		return
	}
	if user.shared {
		user = user.own()
		t.users[f.User] = user
	}
	user.fixes++
	t.looked = false
	step := mobility.StepOf(f.TimeMS, t.stepMS)
	at := pointOf(f, f.TimeMS-step*t.stepMS)
	user.add(visit{step, at, at}, t.options.EveryFix)
}

// Merge adds what another trainer of the same grid, step and options has seen. Whatever the fixes' order was and however they
// were split between trainers, the model is the same. The other's memory may become part of t: do not use it again. It
// panics if the two do not fit together.
func (t *Trainer) Merge(other *Trainer) {
	if t == other || t.grid.ID() != other.grid.ID() || t.stepMS != other.stepMS || t.options.String() != other.options.String() {
		panic("train: only two trainers of one grid, step and options can be merged")
	}
	for _, name := range slices.Sorted(maps.Keys(other.users)) {
		if mine := t.users[name]; mine != nil {
			mine = mine.own()
			mine.absorb(other.users[name], t.options.EveryFix)
			t.users[name] = mine
		} else {
			t.users[name] = other.users[name]
		}
	}
	t.inherited = union(t.inherited, other.inherited)
	t.looked = false
	other.users = nil
}

// settle makes every user's records ready to be read by many, and finds the fixes that are shared. Users whose records another trainer
// reads too are settled, and change no more.
func (t *Trainer) settle() {
	for _, user := range t.users {
		user.settle(t.options.EveryFix)
	}
	if !t.looked {
		t.shared, t.looked = union(t.inherited, t.findShared(signedAtOnce)), true
	}
}

func union(a, b sharedFixes) sharedFixes {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

// Without returns a trainer with the same fixes but those of the users for whom held says true. It shares memory with t, and
// costs some bytes a user; both may take more fixes. Which fixes are shared between users stays decided by all of them: a
// trace that a user who is held out has in common with another tells nothing about strangers.
func (t *Trainer) Without(held func(user string) bool) *Trainer {
	return t.derive(t.options, held)
}

// With returns a trainer with the same fixes and other options, sharing memory with t. It refuses options that are not valid,
// and another EveryFix, which decides what is kept of the fixes.
func (t *Trainer) With(o Options) (*Trainer, error) {
	if err := o.Validate(time.Duration(t.stepMS) * time.Millisecond); err != nil {
		return nil, err
	}
	if o.EveryFix != t.options.EveryFix {
		return nil, errors.New("train: fixes gathered for steps cannot count each by itself, nor the other way round: read the traces again")
	}
	derived := t.derive(o.Defaults(), func(string) bool { return false })
	return derived, derived.checkSize()
}

func (t *Trainer) derive(o Options, held func(user string) bool) *Trainer {
	t.settle()
	derived := &Trainer{
		grid: t.grid, stepMS: t.stepMS, options: o, users: make(map[string]*visits, len(t.users)),
		shared: t.shared, looked: true, inherited: t.shared,
	}
	for name, user := range t.users {
		if !held(name) {
			user.shared = true
			derived.users[name] = user
		}
	}
	return derived
}

// Grid returns the map that models are made for.
func (t *Trainer) Grid() *grid.Grid { return t.grid }

// Step returns the time step of the models.
func (t *Trainer) Step() time.Duration { return time.Duration(t.stepMS) * time.Millisecond }

// Options returns the options with every default filled in.
func (t *Trainer) Options() Options { return t.options }

// Users returns the users with a fix in the box, in ascending order.
func (t *Trainer) Users() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range slices.Sorted(maps.Keys(t.users)) {
			if t.users[name].fixes > 0 && !yield(name) {
				return
			}
		}
	}
}
