package experiment

import (
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/grid"
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
		e, err := mechanism.NewEmission(g, w.Options)
		return func(to *study.Sums, r *trial.Result) error {
			e.Prepare(r.Outcome.Prior)
			for _, other := range around(g, r.Cell) {
				factor := logFactor(e, r.Cell, other)
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

// logFactor returns the greatest ln(P(z|a)/P(z|b)) over all releases z. A codebook has ε where the
// cells vote differently. Noise is by ε‖σ(a)-σ(b)‖ more probable at the surrogate σ(a).
func logFactor(e *mechanism.Emission, a, b grid.Cell) float64 {
	g, o := e.Grid(), e.Options()
	if q := e.Codebook(); q != nil {
		return o.Epsilon * share(q.Vote(a) != q.Vote(b))
	}
	from, to := convex.Vec(g.Centre(e.Surrogate(a))), convex.Vec(g.Centre(e.Surrogate(b)))
	return o.Epsilon * e.Hull().Share(o.Mechanism, from.Sub(to))
}
