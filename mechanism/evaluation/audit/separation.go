package audit

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// noiseSource is a noise.Source as a rand.Source.
type noiseSource struct{ noise.Source }

const (
	repeatTrials = 8
	placeTrials  = 24
	equalTrials  = 64
	keyTrials    = 96
	lawTrials    = 600
)

// change is one fact that must change the noise.
type change struct {
	name string
	make func(f *Facts)
}

// Changes that all mechanisms are tested with.
var (
	laterStep = change{"step", func(f *Facts) {
		f.State = copied(f.State)
		f.State.Step += 1000 // the same prior, later
		f.Step += 1000
	}}
	laterNumber = change{"release number", func(f *Facts) {
		f.State = copied(f.State)
		f.State.Releases++
	}}
)

// separation is the test that each fact of a release changes its noise.
type separation struct{ *auditor }

func separate(a *auditor, report *Report) error { return separation{a}.test(report) }

// test looks for noise that is the same although a fact has changed: over many users the noise
// before and after the change is compared, as equality and as rank correlation. Equal noise under
// two cells, say, would publish the difference of the cells.
func (a separation) test(report *Report) error {
	at := a.roomiest()
	r := &report.Separation
	base := make([]convex.Vec, keyTrials)
	cell, _ := at.neighbours()
	for i := range base {
		var err error
		if base[i], err = a.noiseOf(at, a.facts(at, fmt.Sprintf("audit-%d", i), cell)); err != nil {
			return err
		}
	}
	for _, c := range a.changes(at) {
		changed := make([]convex.Vec, keyTrials)
		for i := range changed {
			f := a.facts(at, fmt.Sprintf("audit-%d", i), cell)
			c.make(&f)
			var err error
			if changed[i], err = a.noiseOf(at, f); err != nil {
				return err
			}
		}
		r.Trials++
		if related(base, changed) {
			r.fail("noise does not depend on the %s", c.name)
		}
	}
	r.Trials++
	match, err := a.sameLaw(at)
	if err == nil && !match {
		r.fail("what is published has another law than the sampler that the attack looks at")
	}
	return err
}

// roomiest returns a situation of the largest K, among those of users that have been seen before,
// if there are any: there a chance of equal noise is least.
func (a separation) roomiest() *Situation {
	best := a.situations[0]
	for _, s := range a.situations[1:] {
		if s.state.Started != best.state.Started {
			if s.state.Started {
				best = s
			}
			continue
		}
		if s.hull.Body().Dim() > best.hull.Body().Dim() ||
			s.hull.Body().Dim() == best.hull.Body().Dim() &&
				s.hull.Body().Measure() > best.hull.Body().Measure() {
			best = s
		}
	}
	return best
}

// noiseOf is what a release adds to a member's centre. Under other options the member is still the
// cell's surrogate, for the set of those options holds it, or the difference is as good as noise.
func (a separation) noiseOf(at *Situation, f Facts) (convex.Vec, error) {
	out, _, err := a.subject.Publish(f)
	return convex.Vec(out.Release.Sub(at.grid.Centre(f.Cell))), err
}

func (a separation) changes(at *Situation) []change {
	other := &mobility.Model{
		Grid: a.model.Grid, Step: a.model.Step, Matrices: a.model.Matrices,
		Initial: otherInitial(&a.model.Initial, a.model.Grid.Cells()),
	}
	all := []change{
		{"key", func(f *Facts) { f.Key = noise.KeyFromSeed(a.options.Seed + 1) }},
		{"user", func(f *Facts) { f.User += "x" }},
		{"cell", func(f *Facts) { f.Cell = at.cells[len(at.cells)-1] }},
		// a key that drops some bits of the cell
		{"cell", func(f *Facts) { _, f.Cell = at.neighbours() }},
		laterStep,
		laterNumber,
		{"ε", func(f *Facts) {
			if f.Options.Epsilon *= 2; f.Options.Epsilon > law.MaxEpsilon {
				f.Options.Epsilon = law.MaxEpsilon / 2
			}
		}},
		{"mechanism", func(f *Facts) {
			f.Options.Mechanism = law.KNorm
			if a.release.Mechanism == law.KNorm {
				f.Options.Mechanism = law.PIM
			}
		}},
	}
	if radius, ok := a.otherSet(at); ok {
		all = append(all, change{"location set", func(f *Facts) { f.Options.MinRadiusKM = radius }})
	}
	if id, err := mechanism.ParseID(other.ID()); err == nil && other.ID() != a.model.ID() &&
		at.state.Started {
		all = append(all, change{"model", func(f *Facts) {
			f.Model, f.State = other, copied(f.State)
			f.State.Model = id
		}})
	}
	return all
}

// otherSet returns a radius of padding that makes another location set of the same state, if the
// set is not the whole map already.
func (a separation) otherSet(at *Situation) (radiusKM float64, ok bool) {
	l := NewLookout(a.model, a.release)
	for cells := 1.0; cells < 2*float64(a.model.Grid.Width()+a.model.Grid.Height()); cells *= 2 {
		l.options.MinRadiusKM = cells * a.model.Grid.CellKM()
		if set := l.Cells(at.state, at.step); !slices.Equal(set, at.cells) {
			return l.options.MinRadiusKM, true
		}
	}
	return 0, false
}

func copied(s *mechanism.State) *mechanism.State {
	c := new(mechanism.State)
	c.CopyFrom(s)
	return c
}

// otherInitial moves half of the first cell's mass to another one.
func otherInitial(d *mobility.Distribution, cells int) mobility.Distribution {
	var other mobility.Distribution
	other.CopyFrom(d)
	if len(other.P) == 1 && cells > 1 {
		second := (other.Cells[0] + 1) % grid.Cell(cells)
		other.Cells = []grid.Cell{min(other.Cells[0], second), max(other.Cells[0], second)}
		other.P = []float64{1, 0}
	}
	if len(other.P) > 1 {
		other.P[1] += other.P[0] / 2
		other.P[0] /= 2
	}
	return other
}
