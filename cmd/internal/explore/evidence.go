package explore

import (
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
)

// evidence says how likely each cell is to lead to a release, for somebody with some prior. With
// that of the sanitizer the likelihoods are the sanitizer's own. One goroutine owns it.
type evidence struct {
	grid    *grid.Grid
	options mechanism.Options
	book    *law.Quantizer // of codebook; nil: what follows is of the other mechanisms

	law        law.Mechanism
	set        locationset.Set
	hull       law.SensitivityHull
	surrogates locationset.Surrogates
	inference  mechanism.Inference
	places     []convex.Vec // centres of the set's cells
}

func newEvidence(g *grid.Grid, o mechanism.Options) (*evidence, error) {
	e := &evidence{grid: g, options: o}
	var err error
	if o.Mechanism == law.Codebook {
		e.book, err = law.NewNearQuantizer(g, o.Epsilon, o.Near)
	} else {
		e.law, err = o.NewMechanism()
	}
	return e, err
}

// prepare chooses code points, or location set and hull, for a prior, as a step does.
func (e *evidence) prepare(prior *mobility.Distribution) {
	if e.book != nil {
		e.book.Prepare(prior.Cells, prior.P)
		return
	}
	o := e.options
	e.set.ChoosePadded(e.grid, prior, o.Delta,
		locationset.Padding{MinCells: max(o.MinCells, 0), RadiusKM: max(o.MinRadiusKM, 0)})
	e.hull.OfCells(e.grid, e.set.Cells)
	e.surrogates.Reset(e.grid, e.set.Cells)
	e.law.Prepare(&e.hull, o.Epsilon)
	e.places = e.places[:0]
	for _, x := range e.set.Cells {
		e.places = append(e.places, convex.Vec(e.grid.Centre(x)))
	}
}

// likelihoods returns the likelihood of each of some cells, up to a factor.
func (e *evidence) likelihoods(release grid.Point, cells []grid.Cell) []float64 {
	if e.book != nil {
		return e.book.Likelihoods(nil, e.book.Nearest(release), cells)
	}
	return e.inference.Surrogate(e.law, release, e.places, e.surrogates.All(nil, cells))
}
