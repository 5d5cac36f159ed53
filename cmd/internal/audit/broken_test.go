package audit

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// broken is an engine with a fault: a wrapper that changes what the engine returns, or does
// a small part of its work again.
type broken struct {
	Settings
	inner    Subject
	observer *observer
	streams  noise.Streams
	seen     map[string]grid.Cell // the last true cell of each user, by a fault's doing
	feed     func(b *broken, f Fix, before []byte) (Effect, error)
}

// wrap plants a fault around whatever the maker makes.
func wrap(feed func(b *broken, f Fix, before []byte) (Effect, error)) func(Maker) Maker {
	return func(start Maker) Maker {
		return func(s Settings) (Subject, error) {
			inner, err := start(s)
			if err != nil {
				return nil, err
			}
			observer, err := newObserver(s)
			if err != nil {
				return nil, err
			}
			s.Release = observer.settings.Release
			streams := s.Streams
			if streams == nil {
				streams = noise.NewKeyed(s.Key)
			}
			return &broken{s, inner, observer, streams, map[string]grid.Cell{}, feed}, nil
		}
	}
}

// Feed implements Subject.
func (b *broken) Feed(f Fix, before []byte) (Effect, error) { return b.feed(b, f, before) }

// stream is noise of the instance's own for a transcript that a fault makes up.
func (b *broken) stream(transcript []byte) noise.Source {
	src, err := b.streams.On(0, transcript)
	if err != nil {
		panic(err)
	}
	return src
}

func (b *broken) cell(f Fix) grid.Cell { return b.Model.Grid.Locate(f.Latitude, f.Longitude) }
func (b *broken) step(f Fix) int64     { return b.Model.StepAt(f.Timestamp) }

// set returns the location set and the surrogate of a fix.
func (b *broken) set(f Fix, before []byte) ([]grid.Cell, grid.Cell) {
	cells, err := b.observer.set(before, b.step(f))
	if err != nil {
		panic(err)
	}
	cells = slices.Clone(cells)
	return cells, attack.NearestMember(b.Model.Grid, cells, b.cell(f))
}

func (b *broken) drift(f Fix, before []byte) bool {
	_, site := b.set(f, before)
	return site != b.cell(f)
}

// moved says that a user is in another cell than in the fix before, and remembers this one.
func (b *broken) moved(f Fix) bool {
	last, ok := b.seen[f.User]
	b.seen[f.User] = b.cell(f)
	return ok && last != b.cell(f)
}

// record changes the record of an effect, if there is one.
func (b *broken) record(e *Effect, change func(r *schemas.Sanitized)) {
	for i := range e.Records {
		r, err := b.observer.codec.DecodeSanitized(e.Records[i].Value)
		if err != nil {
			panic(err)
		}
		change(&r)
		if e.Records[i].Value, err = b.observer.codec.AppendSanitized(nil, r); err != nil {
			panic(err)
		}
	}
}

// state changes the state of an effect.
func (b *broken) state(e *Effect, change func(s *mechanism.State)) {
	s := decodedState(e.State)
	change(s)
	e.State = s.AppendBinary(nil)
}

func decodedState(data []byte) *mechanism.State {
	s := new(mechanism.State)
	if err := s.DecodeBinary(data); err != nil {
		panic(err)
	}
	return s
}

// onDrift plants a fault that only shows where the true cell lies outside the location set.
func onDrift(change func(b *broken, e *Effect)) func(Maker) Maker {
	return wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
		e, err := b.inner.Feed(f, before)
		if err == nil && e.Counts.Releases == 1 && b.drift(f, before) {
			change(b, &e)
		}
		return e, err
	})
}

// onTruth plants a fault that looks at the fix.
func onTruth(change func(b *broken, f Fix, e *Effect)) func(Maker) Maker {
	return wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
		e, err := b.inner.Feed(f, before)
		if err == nil {
			change(b, f, &e)
		}
		return e, err
	})
}

// otherRules plants a rule that looks at the truth: where wants is true, a second engine
// under other rules does the work.
func otherRules(change func(o *mechanism.Options),
	wants func(b *broken, f Fix, before []byte) bool,
) func(Maker) Maker {
	return func(start Maker) Maker {
		return func(s Settings) (Subject, error) {
			other := s
			change(&other.Release)
			second, err := start(other)
			if err != nil {
				return nil, err
			}
			return wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
				if wants(b, f, before) {
					return second.Feed(f, before)
				}
				return b.inner.Feed(f, before)
			})(start)(s)
		}
	}
}

// redraw is one release that is drawn by a fault in the place of the engine's.
type redraw struct {
	*broken
	fix        Fix
	cells      []grid.Cell
	cell, site grid.Cell
	number     uint64
	own        grid.Point // what the engine has drawn
	source     noise.Source
	epsilon    float64
}

// drawn plants another way to draw. All else is as an engine has it that draws so: state,
// estimate and radius follow from the release. Where the fault leaves the engine's own release
// alone, nothing is changed.
func drawn(draw func(r *redraw) grid.Point) func(Maker) Maker {
	return wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
		e, err := b.inner.Feed(f, before)
		if err != nil || e.Counts.Releases != 1 {
			return e, err
		}
		cells, site := b.set(f, before)
		after := decodedState(e.State)
		r := &redraw{
			broken: b, fix: f, cells: cells, cell: b.cell(f), site: site,
			number: after.Releases, own: after.Release, epsilon: b.Release.Epsilon,
		}
		r.source = b.stream(fmt.Append(nil, "a fault ", f.User, b.step(f), r.number, site, cells))
		z := draw(r)
		if z == after.Release {
			return e, nil
		}
		return b.republish(f, before, e, z)
	})
}

// republish is the effect of an engine that has drawn z.
func (b *broken) republish(f Fix, before []byte, e Effect, z grid.Point) (Effect, error) {
	b.state(&e, func(s *mechanism.State) { s.Release = z })
	return b.observer.expected(f, before, e)
}

// sample draws from the law of a set, a place and an ε.
func (r *redraw) sample(cells []grid.Cell, from grid.Cell, epsilon float64) grid.Point {
	m, err := r.Release.NewMechanism()
	if err != nil {
		panic(err)
	}
	var hull law.SensitivityHull
	hull.OfCells(r.Model.Grid, cells)
	m.Prepare(&hull, epsilon)
	return m.Sample(r.source, from)
}

// honest is the engine's own release.
func (r *redraw) honest() grid.Point { return r.own }

// again draws once more, as the engine does.
func (r *redraw) again() grid.Point { return r.sample(r.cells, r.site, r.epsilon) }

func (r *redraw) span() *attack.Span { return attack.SpanOf(r.cells, r.Model.Grid.Width()) }

// noise is a release without its place, in cells.
func (r *redraw) noise(z grid.Point) (x, y float64) {
	d := z.Sub(r.Model.Grid.Centre(r.site))
	return d.X / r.Model.Grid.CellKM(), d.Y / r.Model.Grid.CellKM()
}

// at is the point of the lattice with this noise.
func (r *redraw) at(x, y float64) grid.Point {
	n, side := float64(r.Release.Subdivision), r.Model.Grid.CellKM()
	onLattice := func(cell int, v float64) float64 {
		return (float64(cell)*n + n/2 + math.Round(v*n)) / n * side
	}
	g := r.Model.Grid
	return grid.Point{X: onLattice(g.Column(r.site), x), Y: onLattice(g.Row(r.site), y)}
}

// poorStreams make noise of the key in a way that a fault decides.
type poorStreams struct {
	inner      noise.Streams
	transcript func(t []byte) []byte
}

// Stream implements noise.Streams.
func (p *poorStreams) On(day noise.Day, t []byte) (noise.Source, error) {
	return p.inner.On(day, p.transcript(t))
}

// streams plants other noise of the key.
func streams(transcript func() func(t []byte) []byte) func(Maker) Maker {
	return func(start Maker) Maker {
		return func(s Settings) (Subject, error) {
			if s.Streams == nil {
				s.Streams = &poorStreams{noise.NewKeyed(s.Key), transcript()}
			}
			return start(s)
		}
	}
}

// seedOf cuts what noise is made of to so many bits.
func seedOf(bits int) func(Maker) Maker {
	return streams(func() func(t []byte) []byte {
		hash := noise.NewKeyed(noise.KeyFromSeed(99))
		return func(t []byte) []byte {
			return fmt.Append(nil, "seed ", hash.Stream(t).Uint64()>>(64-bits))
		}
	})
}
