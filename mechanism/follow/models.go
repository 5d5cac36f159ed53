package follow

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Models are the public models that records may name: the versions of a service's model, in any
// order. The first one's step is that of all.
type Models []*mobility.Model

// validate checks that there is a model, and that all have the step of the first, as the versions
// of one service have.
func (m Models) validate() error {
	if len(m) == 0 {
		return errors.New("no model is given")
	}
	for _, other := range m[1:] {
		if other.Step != m[0].Step {
			return fmt.Errorf("the models %s and %s have steps of %v and %v: versions of one "+
				"service have the same", m[0].ID(), other.ID(), m[0].Step, other.Step)
		}
	}
	return nil
}

// filter is the service's filter under one model, with the scratch memory of one goroutine. A
// user's Track points to the one of the last record.
type filter struct {
	model       *mobility.Model
	sanitizer   *mechanism.Sanitizer
	toleranceKM float64
	longest     uint64 // gap in steps, after which the filter starts again
}

func newFilter(model *mobility.Model, o mechanism.Options) (*filter, error) {
	s, err := observer(model, o)
	if err != nil {
		return nil, err
	}
	// Estimates agree up to the seven decimals of a degree that CSV has, a centimetre. Hidden steps
	// of prediction are rounded and pruned on their own.
	tolerance := .01
	if s.Options().Hides() {
		tolerance = .1
	}
	tolerance = max(tolerance*model.Grid.CellKM(), 1e-4)
	return &filter{
		model: model, sanitizer: s, toleranceKM: tolerance,
		longest: s.Options().LongestGap(model),
	}, nil
}

// observer returns a sanitizer whose key is never used: an observer draws nothing.
func observer(model *mobility.Model, o mechanism.Options) (*mechanism.Sanitizer, error) {
	return mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(0)), o)
}

// grid returns the model's map.
func (v *filter) grid() *grid.Grid { return v.model.Grid }

// sameMap says whether two models have one map.
func (v *filter) sameMap(other *filter) bool { return v.model.Grid.ID() == other.model.Grid.ID() }
