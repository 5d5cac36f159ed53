package audit

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
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
	fresh    *stated              // of new users
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
			return &broken{
				Settings: s, inner: inner, observer: observer, streams: streams,
				seen: map[string]grid.Cell{}, feed: feed,
			}, nil
		}
	}
}

// Feed implements Subject.
func (b *broken) Feed(f Fix, before []byte) (Effect, error) { return b.feed(b, f, before) }

// stream is noise of the instance's own for a transcript that a fault makes up.
func (b *broken) stream(transcript []byte) noise.Source {
	src, err := b.streams.On(noise.LastDay, transcript)
	if err != nil {
		panic(err)
	}
	return src
}

func (b *broken) cell(f Fix) grid.Cell { return b.Model.Grid.Locate(f.Latitude, f.Longitude) }
func (b *broken) step(f Fix) int64     { return b.Model.StepAt(f.Timestamp) }

// law returns the law of a release, of which the observer has the memory. That of a new user is the
// same in each step.
func (b *broken) law(f Fix, before []byte) *stated {
	if len(before) == 0 && b.fresh != nil {
		return b.fresh
	}
	law, err := b.observer.law(before, b.step(f))
	if err != nil {
		panic(err)
	}
	if len(before) == 0 {
		law.cells = slices.Clone(law.cells)
		b.fresh = law
	}
	return law
}

func (b *broken) drift(f Fix, before []byte) bool { return b.law(f, before).drifts(b.cell(f)) }

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
	before     []byte
	law        *stated
	cells      []grid.Cell // of the location set
	cell, site grid.Cell
	vote       int // of the cell, under the codebook mechanism
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
		law, after := b.law(f, before), decodedState(e.State)
		r := &redraw{
			broken: b, fix: f, before: before, law: law, cells: slices.Clone(law.cells),
			cell: b.cell(f), site: law.site(b.cell(f)), number: after.Releases, own: after.Release,
			epsilon: b.Release.Epsilon,
		}
		facts := fmt.Append(nil, "a fault ", f.User, b.step(f), r.number)
		if law.code != nil {
			r.vote = law.code.vote(r.cell)
			facts = fmt.Append(facts, r.vote)
		} else {
			facts = fmt.Append(facts, r.site, r.cells)
		}
		r.source = b.stream(facts)
		z := draw(r)
		if z == after.Release {
			return e, nil
		}
		return b.republish(f, before, e, z)
	})
}

// gap is how many steps lie between a release and the record before it.
func (r *redraw) gap() int64 {
	s := decodedState(r.before)
	if !s.Started {
		return 0
	}
	return r.step(r.fix) - s.Step
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

func (r *redraw) hull() *hull { return hullOf(r.cells, r.Model.Grid.Width()) }

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

// On implements noise.Streams.
func (p *poorStreams) On(day noise.Day, t []byte) (noise.Source, error) {
	return p.inner.On(day, p.transcript(t))
}

// streams plants other noise of the key: from a transcript that a fault makes of the right one.
func streams(transcript func(b *broken, f Fix, before, t []byte) []byte) func(Maker) Maker {
	return func(start Maker) Maker {
		return func(s Settings) (Subject, error) {
			if s.Streams != nil {
				return start(s)
			}
			var now struct {
				*broken
				fix    Fix
				before []byte
			}
			s.Streams = &poorStreams{noise.NewKeyed(s.Key), func(t []byte) []byte {
				return transcript(now.broken, now.fix, now.before, slices.Clone(t))
			}}
			return wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
				now.broken, now.fix, now.before = b, f, before
				return b.inner.Feed(f, before)
			})(start)(s)
		}
	}
}

// seedOf cuts what noise is made of to so many bits, of all days.
func seedOf(bits int) func(Maker) Maker {
	return keyed(func(k *noise.Keyed) noise.Streams { return &shortSeeds{oneDay{k}, bits} })
}

// keyed plants other streams in the place of the key's.
func keyed(other func(k *noise.Keyed) noise.Streams) func(Maker) Maker {
	return func(start Maker) Maker {
		return func(s Settings) (Subject, error) {
			if s.Streams == nil {
				s.Streams = other(noise.NewKeyed(s.Key))
			}
			return start(s)
		}
	}
}

// oneDay are streams that take no notice of the day.
type oneDay struct{ inner *noise.Keyed }

// On implements noise.Streams.
func (o oneDay) On(_ noise.Day, transcript []byte) (noise.Source, error) {
	return o.inner.On(noise.LastDay, transcript)
}

// shortSeeds are streams of a few seeds.
type shortSeeds struct {
	oneDay
	bits int
}

// On implements noise.Streams.
func (s *shortSeeds) On(day noise.Day, transcript []byte) (noise.Source, error) {
	if _, err := s.inner.On(day, transcript); err != nil {
		return nil, err // days are destroyed all the same
	}
	source, err := s.oneDay.On(day, transcript)
	if err != nil {
		return nil, err
	}
	return s.oneDay.On(day, fmt.Append(nil, "seed ", source.Uint64()>>(64-s.bits)))
}

// factNames are what a release of the lattice depends on.
var factNames = []string{
	"key", "beginning of the user's id", "end of the user's id", "cell", "last bit of the cell",
	"step", "number of the release", "ε", "location set", "model",
}

// without plants noise that does not depend on one fact.
func without(name string) func(Maker) Maker {
	return drawn(func(r *redraw) grid.Point {
		user, half := r.fix.User, len(r.fix.User)/2
		known := map[string]any{
			"beginning of the user's id": user[:half], "end of the user's id": user[half:],
			"cell": r.site &^ 1, "last bit of the cell": r.site & 1, "step": r.step(r.fix),
			"number of the release": r.number, "ε": r.epsilon, "location set": r.cells,
			"model": r.Model.ID(),
		}
		delete(known, name)
		if name == "cell" {
			delete(known, "last bit of the cell")
		}
		key := r.Key
		if name == "key" {
			key = noise.KeyFromSeed(0)
		}
		source, err := noise.NewKeyed(key).On(noise.LastDay, fmt.Append(nil, known))
		if err != nil {
			panic(err)
		}
		r.source = source
		return r.again()
	})
}
