package experiment

import (
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// The quantities of [nearFactors]: Σ ln factor, and the pairs whose factor is above 1.
const (
	logFactors = iota
	toldApart
)

// nearFactors measures near factors. That of two cells is the greatest ratio of the probabilities
// with which they give the same release. At a timestamp it is measured for the pairs of the true
// cell and the cells beside it, and each pair is counted.
var nearFactors = &study.Walks{
	Name: "mechanisms/near",
	Probe: func(_ *study.Study, w *study.Walk) (study.Probe, error) {
		g := w.Data.Grid
		tell, err := newTeller(g, w.Options)
		return func(to *study.Sums, r *trial.Result) error {
			tell.prepare(r.Outcome.Prior)
			for _, other := range around(g, r.Cell) {
				factor := tell.logFactor(r.Cell, other)
				to.Add(1, factor, share(factor > 0))
			}
			return nil
		}, err
	},
}

// around returns the cells of the map that share a side with a cell.
func around(g *grid.Grid, c grid.Cell) (cells []grid.Cell) {
	column, row, width := g.Column(c), g.Row(c), grid.Cell(g.Width())
	for _, side := range []struct {
		in    bool
		shift grid.Cell
	}{
		{column > 0, -1}, {column < g.Width()-1, 1}, {row > 0, -width}, {row < g.Height()-1, width},
	} {
		if side.in {
			cells = append(cells, c+side.shift)
		}
	}
	return cells
}

// teller says by how much a release that is made under a prior tells two cells apart. It is scratch
// for one goroutine.
type teller struct {
	grid       *grid.Grid
	options    mechanism.Options
	codebook   *law.Quantizer // nil for a mechanism with a location set
	mechanism  law.Mechanism
	set        locationset.Set
	hull       law.SensitivityHull
	surrogates locationset.Surrogates
}

func newTeller(g *grid.Grid, o mechanism.Options) (t *teller, err error) {
	t = &teller{grid: g, options: o}
	if o.Mechanism == law.Codebook {
		t.codebook, err = law.NewQuantizer(g, o.Epsilon)
	} else {
		t.mechanism, err = o.NewMechanism()
	}
	return t, err
}

func (t *teller) prepare(prior *mobility.Distribution) {
	if t.codebook != nil {
		t.codebook.Prepare(prior.Cells, prior.P)
		return
	}
	t.set.Choose(prior, t.options.Delta)
	t.hull.OfCells(t.grid, t.set.Cells)
	t.surrogates.Reset(t.grid, t.set.Cells)
	t.mechanism.Prepare(&t.hull, t.options.Epsilon)
}

// logFactor returns the greatest ln(P(z|a)/P(z|b)) over all releases z. A codebook has ε where the
// cells vote differently. K-norm noise is by ε‖σ(a)-σ(b)‖_K more probable at the surrogate
// σ(a).
func (t *teller) logFactor(a, b grid.Cell) float64 {
	if t.codebook != nil {
		if t.codebook.Vote(a) == t.codebook.Vote(b) {
			return 0
		}
		return t.options.Epsilon
	}
	from := t.grid.Centre(t.set.Cells[t.surrogates.Nearest(a)])
	to := t.grid.Centre(t.set.Cells[t.surrogates.Nearest(b)])
	if from == to {
		return 0
	}
	var exponent [1]float64
	t.mechanism.Exponents(exponent[:], from, []convex.Vec{convex.Vec(to)})
	return -exponent[0]
}
