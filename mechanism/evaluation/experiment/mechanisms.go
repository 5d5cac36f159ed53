package experiment

import (
	"fmt"
	"strings"

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
	Show: func(p *Page) {
		all := long("mechanisms", "data", "mechanism", "epsilon", "delta", "metric")
		for _, d := range p.Data {
			c := &contest{
				Page: p, data: d, all: all, best: long("", "epsilon", "mechanism", "metric"),
			}
			c.addTraces()
			c.show()
		}
		p.Add(all)
	},
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
const (
	estimateMetric = "estimate"
	factorMetric   = "factor between neighbours"
	apartMetric    = "neighbours told apart"
)

// contest is all mechanisms on one data set.
type contest struct {
	*Page
	data *Data
	all  *report.Table // every number, of all data sets
	best *report.Table // each mechanism at its best δ
}

// addTraces adds what is measured on whole traces: of each mechanism at an ε each δ, and the one of
// the smallest error.
func (c *contest) addTraces() {
	for _, v := range contenders {
		for _, epsilon := range c.Options.MechanismEpsilons {
			var best Point
			var least float64
			for _, at := range contending(c.Study, c.data, v, epsilon) {
				c.measured(at, func(metric string, band report.Band) {
					c.all.Add(c.data.Name, v.Label(), epsilon, at.Delta, metric, band)
				})
				// δ ascend: of equals the smaller one stays.
				if err := c.estimate(at).Value; best.Data == nil || err < least {
					best, least = at, err
				}
			}
			delta := any(best.Delta)
			if v == Codebook {
				delta = "any"
			}
			c.best.Add(epsilon, v.Label(), "best δ", delta)
			c.measured(best, func(metric string, band report.Band) {
				c.best.Add(epsilon, v.Label(), metric, band)
			})
		}
	}
	alone := c.estimate(blindAt(c.data))
	c.all.Add(c.data.Name, blind, nil, nil, estimateMetric, alone)
	c.best.Add(nil, blind, estimateMetric, alone)
}

// estimate is the error of a point on whole traces.
func (c *contest) estimate(at Point) report.Band { return estimateScore.of(errorsAt(c.Page, at)) }

// measured adds the metrics of a mechanism at a setting on whole traces.
func (c *contest) measured(at Point, add func(metric string, band report.Band)) {
	add(estimateMetric, c.estimate(at))
	if tellsNeighbours(at.Variant) {
		pairs := c.Read(neighbourFactors, at).All()
		add(factorMetric, mean(logFactors, pairs))
		add(apartMetric, mean(toldApart, pairs))
	}
}

// show draws the error over ε.
func (c *contest) show() {
	d, epsilons := c.data, c.Options.MechanismEpsilons
	name := "mechanisms-" + d.Name
	c.Figure(name, &report.Figure{
		Title: d.Title + ": all mechanisms", PanelWidth: 4.6, PanelHeight: 3.2,
		Note: fmt.Sprintf("Whole traces, %d users, %d runs each, every mechanism at its best δ of "+
			"%s. Bands: 95 %% confidence over users.",
			len(c.Traces(d)), c.Options.Runs, listed(c.Options.MechanismDeltas)),
		Panels: []report.Panel{&report.Lines{
			Title: "whole traces",
			X:     report.Axis{Label: "ε of a release (natural log)", Log: true, At: epsilons},
			Y:     report.Axis{Label: estimateScore.axis, Zero: true},
			Series: styled(c.best.Where("metric", estimateMetric).
				Lines("mechanism", []string{"epsilon"}, epsilons)),
		}},
	})
	c.Table(name, d.Title+": every mechanism at its best δ, with 95 % confidence.",
		c.best.Pivot([]string{"epsilon", "mechanism"}, "metric", map[string]string{
			"epsilon": "ε", estimateMetric: estimateScore.axis,
			factorMetric: "factor between neighbours, mean ln",
		}))
}

// listed writes numbers with commas.
func listed(values []float64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", ", "), "[]")
}
