package audit

import (
	"errors"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Sampler draws a release of a user in a cell of the map, in kilometres. It is for one goroutine.
type Sampler func(src noise.Source, cell grid.Cell) grid.Point

// Facts are all that a release may depend on.
type Facts struct {
	Key     noise.Key
	Model   *mobility.Model
	Options mechanism.Options
	User    string
	State   *mechanism.State // before the step; it is not changed
	Step    int64
	Cell    grid.Cell
}

// Subject is what an audit attacks: a way to make releases. Sanitizers is the real one; the tests
// have broken ones.
type Subject interface {
	// Sampler prepares for drawing releases in a situation, from any words: for the attack, which
	// needs many.
	Sampler(at *Situation, o mechanism.Options) (Sampler, error)
	// Publish reports a cell twice in one step by the whole path of the service, in a process that
	// knows nothing but the facts, and returns what comes of it: the release with all that is
	// published beside it. The audit looks at everything but Drift, which is secret.
	Publish(f Facts) (first, again mechanism.Outcome, err error)
}

// Sanitizers is how geodither makes releases: a mechanism behind the surrogate map or a codebook,
// and mechanism.Sanitizer.
type Sanitizers struct{}

// Sampler implements Subject.
func (Sanitizers) Sampler(at *Situation, o mechanism.Options) (Sampler, error) {
	if at.code != nil {
		q, err := at.quantizer(o.Epsilon)
		if err != nil {
			return nil, err
		}
		return func(src noise.Source, cell grid.Cell) grid.Point {
			return q.Place(q.Draw(src, q.Part(cell)))
		}, nil
	}
	m, err := o.NewMechanism()
	if err != nil {
		return nil, err
	}
	m.Prepare(&at.hull, o.Epsilon)
	var surrogates locationset.Surrogates
	surrogates.Reset(at.grid, at.cells)
	return func(src noise.Source, cell grid.Cell) grid.Point {
		return m.Sample(src, at.cells[surrogates.Nearest(cell)])
	}, nil
}

// Publish implements Subject with a new Sanitizer.
func (Sanitizers) Publish(f Facts) (first, again mechanism.Outcome, err error) {
	s, err := mechanism.NewSanitizer(f.Model, noise.NewKeyed(f.Key), f.Options)
	if err != nil {
		return first, again, err
	}
	var state mechanism.State
	state.CopyFrom(f.State)
	in := mechanism.Input{User: f.User, Step: f.Step, Cell: f.Cell, Release: true}
	if first, err = s.Step(&state, in); err != nil {
		return first, again, err
	}
	if first.Kind != mechanism.Released {
		return first, again, errors.New("audit: it needs options that release in every step")
	}
	again, err = s.Step(&state, in)
	return first, again, err
}
