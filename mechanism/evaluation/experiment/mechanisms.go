package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/trial"
)

// mechanisms is all mechanisms beside each other under the popular model: errors on whole traces,
// and by how much releases tell neighbouring cells apart.
var mechanisms = Experiment{
	Name: "mechanisms", Title: "Mechanisms",
	Plan: func(s *Study) (pieces []Piece) {
		for _, d := range s.Data {
			pieces = append(pieces, traceErrors.Pieces(s, blindAt(d))...)
			for _, v := range contenders {
				for _, epsilon := range s.Options.MechanismEpsilons {
					for _, at := range contending(s, d, v, epsilon) {
						pieces = append(pieces, traceErrors.Pieces(s, at)...)
						if tellsNeighbours(v) {
							pieces = append(pieces, neighbourFactors.Pieces(s, at)...)
						}
					}
				}
			}
		}
		return pieces
	},
	Show: showMechanisms,
}

// contenders are the mechanisms that are compared.
var contenders = []Variant{Codebook, Lattice, PIM, Tight, LM}

// contending are the points of a mechanism at an ε, by ascending δ. The codebook has no use for a
// δ, so it has one.
func contending(s *Study, d *Data, v Variant, epsilon float64) (points []Point) {
	deltas := s.Options.MechanismDeltas
	if v == Codebook {
		deltas = []float64{Fixed.Delta}
	}
	for _, delta := range deltas {
		points = append(points,
			Point{Case: Case{d, Popular}, Variant: v, Setting: Setting{epsilon, delta}})
	}
	return points
}

// blindAt is the baseline beside the mechanisms.
func blindAt(d *Data) Point {
	return Point{Case: Case{d, Popular}, Blind: true, Setting: Setting{Delta: Fixed.Delta}}
}

// tellsNeighbours says of which mechanisms neighbourFactors are measured.
func tellsNeighbours(v Variant) bool { return v == Codebook || v == Lattice }

// The quantities of [neighbourFactors]: Σ ln factor, and the pairs whose factor is above 1.
const (
	logFactors = iota
	toldApart
)

// neighbourFactors measures by which factor a release tells two cells apart: the greatest ratio of
// the probabilities with which they give the same release. At a timestamp it is measured for the
// pairs of the true cell and the cells beside it, and each pair is counted.
var neighbourFactors = &Walks{
	Name: "mechanisms/near",
	Probe: func(_ *Study, w *Walk) (Probe, error) {
		g := w.Data.Grid
		e, err := mechanism.NewEmission(g, w.Options)
		return func(to *Sums, r *trial.Result) error {
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

// The metrics of the section.
var (
	factorScore = score{
		name: "factor between neighbours", axis: "factor between neighbours, mean ln",
		quantity: logFactors,
	}
	apartScore = score{name: "neighbours told apart", quantity: toldApart}
)

func showMechanisms(p *Page) {
	all := numbers("mechanisms", "data", "mechanism", "epsilon", "delta", "metric")
	for _, d := range p.Data {
		best := numbers("", "epsilon", "mechanism", "metric") // each mechanism at its best δ
		for _, v := range contenders {
			for _, epsilon := range p.Options.MechanismEpsilons {
				addBest(p, all, best, contending(p.Study, d, v, epsilon))
			}
		}
		alone := estimateScore.bandOf(errorsAt(p, blindAt(d)))
		all.Add(d.Name, blind, nil, nil, estimateScore.name, alone)
		best.Add(nil, blind, estimateScore.name, alone)
		name, epsilons := "mechanisms-"+d.Name, p.Options.MechanismEpsilons
		p.Add(&report.Chart{
			Name: name, Title: d.Title + ": all mechanisms",
			Note: fmt.Sprintf("Whole traces, %d users, %d runs each, every mechanism at its best "+
				"δ of %v. Bars: 95 %% confidence over users.", len(p.Traces(d)), p.Options.Runs,
				p.Options.MechanismDeltas),
			Panels: []report.Panel{{
				X: report.Axis{Label: axes(nil)["epsilon"] + ", natural log", Log: true},
				Y: estimateScore.y(),
				Series: best.Where("metric", estimateScore.name).
					Lines("mechanism", []string{"epsilon"}, epsilons),
			}},
		})
		p.Table(name, d.Title+": every mechanism at its best δ, with 95 % confidence.",
			best.Pivot([]string{"epsilon", "mechanism"}, "metric",
				axes([]score{estimateScore, factorScore})))
	}
	p.Add(all)
}

// addBest adds the metrics of a mechanism at an ε and each δ, and at the δ of the smallest error.
func addBest(p *Page, all, best *report.Table, points []Point) {
	var least Point
	for _, at := range points {
		for _, row := range measuredAt(p, at) {
			all.Add(at.Data.Name, at.Label(), at.Epsilon, at.Delta, row[0], row[1])
		}
		// δ ascend: of equals the smaller one stays.
		if least.Data == nil || estimateScore.bandOf(errorsAt(p, at)).Value <
			estimateScore.bandOf(errorsAt(p, least)).Value {
			least = at
		}
	}
	delta := any(least.Delta)
	if least.Variant == Codebook {
		delta = "any"
	}
	best.Add(least.Epsilon, least.Label(), "best δ", delta)
	for _, row := range measuredAt(p, least) {
		best.Add(least.Epsilon, least.Label(), row[0], row[1])
	}
}

// measuredAt returns the metrics of a point on whole traces, with their values.
func measuredAt(p *Page, at Point) []report.Row {
	rows := []report.Row{{estimateScore.name, estimateScore.bandOf(errorsAt(p, at))}}
	if tellsNeighbours(at.Variant) {
		pairs := p.Read(neighbourFactors, at).All()
		rows = append(rows, report.Row{factorScore.name, factorScore.bandOf(pairs)},
			report.Row{apartScore.name, apartScore.bandOf(pairs)})
	}
	return rows
}
