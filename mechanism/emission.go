package mechanism

import (
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Emission is the law of a release: with which probability each cell of the map emits each release.
// It follows from a public prior, the options and the map alone. Prepare arranges it: the code
// points under Codebook; location set, sensitivity hull and surrogates under the other mechanisms.
//
// It is the one place that knows this law. Step draws and infers by it, Observe infers by it, and
// so does an analyst or an adversary who reads evidence out of releases. Evidence has to be read
// here, from the likelihoods of releases. It must not be read as the ratio of a stored posterior
// and a prior: stored masses are rounded, under Codebook by a hash of step, mass and cell, so what
// one rounding adds to a cell looks like evidence, and all users with the same history share it.
//
// An Emission is scratch for one goroutine. After a few calls it does not allocate.
type Emission struct {
	grid    *grid.Grid
	options Options
	prior   *mobility.Distribution // that of Prepare

	set        law.LocationSet
	surrogates law.Surrogates
	hull       law.SensitivityHull
	mechanism  law.Mechanism  // nil under Codebook
	codebook   *law.Quantizer // nil under the other mechanisms

	likelihood []float64 // under Codebook
	inference  Inference // under the others
	places     []convex.Vec
	nearest    []int32
	neighbours law.Neighbours
	beside     []int32 // surrogates of neighbours
}

// NewEmission returns the law of releases on a map under options, with nothing prepared. It fails
// where the options cannot be used, or not on this map.
func NewEmission(g *grid.Grid, o Options) (*Emission, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if err := o.law().CheckGrid(o.Epsilon, g); err != nil {
		return nil, err
	}
	e := &Emission{grid: g, options: o}
	var err error
	if o.Mechanism == law.Codebook {
		e.codebook, err = law.NewQuantizer(g, o.Epsilon)
	} else {
		e.mechanism, err = o.NewMechanism()
	}
	return e, err
}

// Prepare chooses what determines the law of a release, all of it from the prior: set, hull,
// surrogates, mechanism; under Codebook the code points. The prior must not change before the next
// Prepare. Cost: linear in the prior's cells.
func (e *Emission) Prepare(prior *mobility.Distribution) {
	e.prior = prior
	if e.codebook != nil {
		e.codebook.Prepare(prior.Cells, prior.P)
		return
	}
	e.set.ChoosePadded(e.grid, prior, e.options.Delta, max(e.options.MinCells, 0))
	e.hull.OfCells(e.grid, e.set.Cells)
	e.surrogates.Reset(e.grid, e.set.Cells)
	e.mechanism.Prepare(&e.hull, e.options.Epsilon)
}

// Draw draws a release for the cell x. drift says whether x was released as another cell, its
// surrogate; under Codebook no cell is. Both x and drift are secret.
func (e *Emission) Draw(source noise.Source, x grid.Cell) (z grid.Point, drift bool) {
	if q := e.codebook; q != nil {
		return q.Place(q.Sample(source, q.Vote(x))), false
	}
	surrogate := e.Surrogate(x)
	return e.mechanism.Sample(source, surrogate), surrogate != x
}

// Tells says whether a release would tell anything: a codebook of one code point would release it
// whatever the cell is, and Step draws nothing.
func (e *Emission) Tells() bool { return e.codebook == nil || len(e.codebook.Points()) > 1 }

// Likelihoods returns the likelihood of each of some ascending cells given the release z, up to a
// factor that all cells of the map share. The cells may be any of the map, also those that the
// prior does not have. Where no cell can emit z, which only the paper's inference knows, all are 0.
// Under Codebook z counts as the nearest code point. The result is valid until the next call.
//
// Guarantee: two of them differ by a factor of e^ε at most, except under the paper's inference.
func (e *Emission) Likelihoods(z grid.Point, cells []grid.Cell) []float64 {
	if e.codebook != nil { // every cell emits as itself: there is one way of inference
		j := e.codebook.Nearest(z)
		e.likelihood = e.codebook.Likelihoods(e.likelihood, j, cells)
		return e.likelihood
	}
	if e.options.Inference == InferencePaper {
		e.places = centres(e.places, e.grid, cells)
		return e.inference.Paper(e.mechanism, z, e.places)
	}
	e.places = centres(e.places, e.grid, e.set.Cells)
	e.nearest = e.surrogates.All(e.nearest, cells)
	return e.inference.Surrogate(e.mechanism, z, e.places, e.nearest)
}

// Metric says what ε means for a release.
func (e *Emission) Metric() law.Metric {
	if e.codebook != nil {
		return e.codebook.Metric()
	}
	return e.hull.Metric(e.options.Mechanism, e.options.Epsilon)
}

// NearShare computes law.Metric.NearShare of a release. A cell outside the location set counts as
// its surrogate. Cost: linear in the prior's cells.
func (e *Emission) NearShare() float64 {
	n, prior := &e.neighbours, e.prior
	if e.codebook != nil {
		return e.codebook.NearShare(n, prior.Cells, prior.P)
	}
	n.Gather(e.grid, prior.Cells, prior.P)
	e.nearest = e.surrogates.All(e.nearest, prior.Cells)
	e.places = centres(e.places, e.grid, e.set.Cells)
	sum, all := 0.0, uint64(0)
	for d := range 4 {
		from, to := n.Direction(d)
		e.beside = e.surrogates.All(e.beside, n.Cells[from:to])
		for i, member := range e.beside {
			weight := n.Weight(from + i)
			all += weight
			if own := e.nearest[n.Of[from+i]]; own != member {
				v := e.places[own].Sub(e.places[member])
				sum += float64(float64(weight) * e.hull.Share(e.options.Mechanism, v))
			}
		}
	}
	if all == 0 {
		return 0
	}
	return sum / float64(all)
}

// Grid returns the map.
func (e *Emission) Grid() *grid.Grid { return e.grid }

// Options returns the options with every default filled in.
func (e *Emission) Options() Options { return e.options }

// Set returns the cells of the location set, ascending. They belong to e until the next Prepare.
// Under Codebook nothing depends on it, and each call chooses it, at a cost linear in the prior's
// cells.
func (e *Emission) Set() []grid.Cell {
	if e.codebook != nil {
		e.set.Choose(e.prior, e.options.Delta)
	}
	return e.set.Cells
}

// SetSize returns the number of cells in the location set. Under Codebook it may be a few cells
// off: see law.LocationSet.Size.
func (e *Emission) SetSize() int {
	if e.codebook != nil {
		return e.set.Size(e.prior, e.options.Delta)
	}
	return len(e.set.Cells)
}

// Surrogate returns the cell of the location set that a cell emits as. Under Codebook there are no
// surrogates, and every cell emits as itself.
func (e *Emission) Surrogate(x grid.Cell) grid.Cell {
	if e.codebook != nil {
		return x
	}
	return e.set.Cells[e.surrogates.Nearest(x)]
}

// Hull returns the sensitivity hull; nil under Codebook, which has none.
func (e *Emission) Hull() *law.SensitivityHull {
	if e.codebook != nil {
		return nil
	}
	return &e.hull
}

// Codebook returns the code points and votes; nil under the other mechanisms.
func (e *Emission) Codebook() *law.Quantizer { return e.codebook }

// centres writes the centres of ascending cells into dst, the same numbers as Grid.Centre with one
// division a row.
func centres(dst []convex.Vec, g *grid.Grid, cells []grid.Cell) []convex.Vec {
	dst = slices.Grow(dst[:0], len(cells))[:len(cells)]
	width, side := grid.Cell(g.Width()), g.CellKM()
	start, end, y := grid.Cell(0), int64(0), 0.0
	for i, c := range cells {
		if int64(c) >= end {
			row := c / width
			start, end, y = row*width, int64(row+1)*int64(width), (float64(row)+0.5)*side
		}
		dst[i] = convex.Vec{X: (float64(c-start) + 0.5) * side, Y: y}
	}
	return dst
}
