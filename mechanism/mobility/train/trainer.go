// Package train learns a mobility model from traces. A [Trainer] collects fixes, counts how often
// users move from one cell to another, caps what each user contributes, smooths the counts by a
// kernel of typical moves, and learns what becomes of users in times without a fix.
// [Trainer.Finish] returns the model.
//
// A model holds counts of what people did. The package private trains models that protect each user
// of the traces by differential privacy.
//
// Training is a function of the set of fixes and the options: it knows no clock and no randomness.
package train

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Trainer collects fixes, in any order, and turns them into a model.
//
// Memory: 32 bytes for each user and step with a fix (for each fix with EveryFix), and up to three
// times as much while slices grow. A Trainer belongs to one goroutine. Trainers that were derived
// from it by [Trainer.Without] and [Trainer.With] may each belong to another.
type Trainer struct {
	settings
	users map[string]*visits
	// shared is known once sharedKnown is true, and until the next fix. inherited are the shared
	// fixes of the trainer that this one was derived from.
	shared      sharedFixes
	sharedKnown bool
	inherited   sharedFixes
}

// settings are what a trainer is made with.
type settings struct {
	grid    *grid.Grid
	stepMS  int64
	options Options // with every default filled in
}

// New returns a trainer for models of the grid and step. It returns an error for options that are
// not valid and for a model that would be too large.
func New(g *grid.Grid, step time.Duration, o Options) (*Trainer, error) {
	if err := o.Validate(step); err != nil {
		return nil, err
	}
	t := &Trainer{
		settings: settings{grid: g, stepMS: step.Milliseconds(), options: o.Defaults()},
		users:    make(map[string]*visits),
	}
	return t, t.CheckSize(0)
}

// Bounds of a trained model in memory. Its matrices have the same columns, kept once, and each its
// own values and weights of the kernel. Together they may take as much as a single matrix of
// [mobility.MaxEntries] does: 3.2 GB.
const (
	bytesPerColumn = 4
	bytesPerCell   = 8 + 12 // where its row starts, and the initial distribution
	bytesPerValue  = 8
	maxBytes       = (bytesPerColumn + bytesPerValue) * mobility.MaxEntries
)

// CheckSize returns an error if a model whose matrices have so many entries each would be too
// large: before the operating system finds that memory runs out.
func (t *Trainer) CheckSize(entries int64) error {
	classes, cells := int64(t.options.Calendar.Classes()), int64(t.grid.Cells())
	size := entries*(bytesPerColumn+classes*bytesPerValue) +
		cells*(bytesPerCell+classes*bytesPerValue)
	if size > maxBytes {
		return fmt.Errorf("train: %d × %d cells with %d classes of time make a model of %.1f GB, "+
			"at most %.1f: choose larger cells, a smaller box or fewer calendar classes",
			t.grid.Width(), t.grid.Height(), classes, float64(size)/1e9, float64(maxBytes)/1e9)
	}
	return nil
}

// Add adds one fix. A fix outside the grid's box is counted and otherwise left out, as if the user
// had not reported. Add panics if a coordinate is not a number.
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
	t.sharedKnown = false
	step := mobility.StepOf(f.TimeMS, t.stepMS)
	at := pointOf(f, f.TimeMS-step*t.stepMS)
	user.add(visit{step, at, at}, t.options.EveryFix)
}

// Merge adds all fixes of another trainer of the same grid, step and options. The model depends
// neither on the order of the fixes nor on how they were split between trainers. The other's memory
// may become part of t: do not use the other again. Merge panics if grid, step or options differ.
func (t *Trainer) Merge(other *Trainer) {
	if t == other || t.grid.ID() != other.grid.ID() || t.stepMS != other.stepMS ||
		t.options.String() != other.options.String() {
		panic("train: only two trainers of the same grid, step and options can be merged")
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
	t.sharedKnown = false
	other.users = nil
}

// Without returns a trainer with the same fixes except those of the users for whom held is true. It
// shares memory with t and costs a few bytes a user; both may take more fixes. Which fixes are
// shared between users stays decided by all users: a trace that a held-out user has in common with
// another says nothing about strangers.
func (t *Trainer) Without(held func(user string) bool) *Trainer {
	t.settle()
	derived := &Trainer{
		settings: settings{grid: t.grid, stepMS: t.stepMS, options: t.options},
		users:    make(map[string]*visits, len(t.users)),
		shared:   t.shared, sharedKnown: true, inherited: t.shared,
	}
	for name, user := range t.users {
		if !held(name) {
			user.shared = true
			derived.users[name] = user
		}
	}
	return derived
}

// settle makes every user's records ready to be read by several goroutines, and finds the shared
// fixes. Records that another trainer reads too are settled already and do not change.
func (t *Trainer) settle() {
	for _, user := range t.users {
		user.settle(t.options.EveryFix)
	}
	if !t.sharedKnown {
		t.shared = union(t.inherited, findShared(t.users, t.stepMS, printsAtOnce))
		t.sharedKnown = true
	}
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

// Seen returns a report with the users and fixes added so far. Its other counts are 0: only
// training makes them.
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
