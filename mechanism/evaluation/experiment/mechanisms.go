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

// mechanisms is all mechanisms beside each other, and beside the least error that any mechanism can
// have, under the popular model: whole traces, near factors, and one release beside the bound
// (once.go).
var mechanisms = Experiment{
	Name: "mechanisms", Title: "Mechanisms",
	Plan: func(s *Study) (pieces []Piece) {
		for _, d := range s.Data {
			pieces = append(pieces, traceErrors.Pieces(s, blindAt(d))...)
			for _, v := range contenders {
				for _, epsilon := range s.Options.MechanismEpsilons {
					for _, at := range contending(s, d, v, epsilon) {
						pieces = append(pieces, traceErrors.Pieces(s, at)...)
						if hasNearFactor(v) {
							pieces = append(pieces, nearFactors.Pieces(s, at)...)
						}
					}
				}
			}
			pieces = append(pieces, (&singles{s, d}).pieces()...)
		}
		return pieces
	},
	Show: func(p *Page) {
		all := long("mechanisms", "data", "mechanism", "epsilon", "delta", "metric")
		for _, d := range p.Data {
			c := &contest{
				Page: p, data: d, singles: singles{p.Study, d}, all: all,
				best: long("", "epsilon", "mechanism", "metric"),
			}
			c.addTraces()
			for _, epsilon := range p.Options.MechanismEpsilons {
				c.addSingles(epsilon)
			}
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

// hasNearFactor says of which mechanisms near factors are measured.
func hasNearFactor(v Variant) bool { return v == Codebook || v == Lattice }

// The quantities of [nearFactors]: Σ ln factor, and the pairs whose factor is above 1.
const (
	logFactors = iota
	toldApart
)

// nearFactors measures near factors. That of two cells is the greatest ratio of the probabilities
// with which they give the same release. At a timestamp it is measured for the pairs of the true
// cell and the cells beside it, and each pair is counted.
var nearFactors = &Walks{
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

// The metrics of the section, and what stands beside mechanisms.
const (
	estimateMetric = "estimate"
	nearMetric     = "near factor"
	apartMetric    = "neighbours told apart"
	leftMetric     = "variance left by one release"
	boundLabel     = "bound on all mechanisms"
)

// contest is all mechanisms on one data set.
type contest struct {
	*Page
	data    *Data
	singles singles
	all     *report.Table // every number, of all data sets
	best    *report.Table // each mechanism at its best δ
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
	c.best.Add(nil, blind, leftMetric, report.Exact(1))
}

// estimate is the error of a point on whole traces.
func (c *contest) estimate(at Point) report.Band { return estimateScore.of(errorsAt(c.Page, at)) }

// measured adds the metrics of a mechanism at a setting on whole traces.
func (c *contest) measured(at Point, add func(metric string, band report.Band)) {
	add(estimateMetric, c.estimate(at))
	if hasNearFactor(at.Variant) {
		near := c.Read(nearFactors, at).All()
		add(nearMetric, mean(logFactors, near))
		add(apartMetric, mean(toldApart, near))
	}
}

// addSingles adds what one release leaves of the variance at an ε.
func (c *contest) addSingles(epsilon float64) {
	sample, best := c.singles.read(c.Page, epsilon)
	add := func(label string, delta any, quantity int) {
		c.all.Add(c.data.Name, label, epsilon, delta, leftMetric, mean(quantity, sample))
	}
	add(Codebook.Label(), nil, codebookError)
	for k, delta := range c.Options.MechanismDeltas {
		add(Lattice.Label(), delta, latticeError+k)
	}
	add("best found", nil, reachedError)
	add(boundLabel, nil, boundError)
	c.best.Add(epsilon, Codebook.Label(), leftMetric, mean(codebookError, sample))
	c.best.Add(epsilon, Lattice.Label(), leftMetric, mean(latticeError+best, sample))
	c.best.Add(epsilon, boundLabel, leftMetric, mean(boundError, sample))
}

// show draws the error over ε, and what one release leaves of the variance.
func (c *contest) show() {
	d, epsilons := c.data, c.Options.MechanismEpsilons
	x := report.Axis{Label: "ε of a release (natural log)", Log: true, At: epsilons}
	lines := func(metric string) []report.Series {
		return styled(c.best.Where("metric", metric).
			Lines("mechanism", []string{"epsilon"}, epsilons))
	}
	left := lines(leftMetric)
	for i := range left {
		if line := &left[i]; line.Name == boundLabel { // a line to compare with
			line.Guide, line.Low, line.High = true, nil, nil
		}
	}
	name := "mechanisms-" + d.Name
	c.Figure(name, &report.Figure{
		Title: d.Title + ": all mechanisms", PanelWidth: 4.6, PanelHeight: 3.2,
		Note: fmt.Sprintf("Left: whole traces, %d users, %d runs each, every mechanism at its "+
			"best δ of %s. Right: one release from each of %d priors that the filter met under "+
			"the codebook, of which the %d most probable cells are kept, and the bound, which no "+
			"mechanism of the same ε passes. Bands: 95 %% confidence over users and priors.",
			len(c.Traces(d)), c.Options.Runs, listed(c.Options.MechanismDeltas),
			c.singles.priors(), oncePlaces),
		Panels: []report.Panel{
			&report.Lines{
				Title: "whole traces", X: x, Y: report.Axis{Label: estimateScore.axis, Zero: true},
				Series: lines(estimateMetric),
			},
			&report.Lines{
				Title: "one release", X: x, Series: left,
				Y: report.Axis{Label: "variance left, share of the prior's", Zero: true},
			},
		},
	})
	c.Table(name, d.Title+": every mechanism at its best δ, with 95 % confidence.",
		c.best.Pivot([]string{"epsilon", "mechanism"}, "metric", map[string]string{
			"epsilon": "ε", estimateMetric: estimateScore.axis, nearMetric: "near factor, mean ln",
		}))
}

// listed writes numbers with commas.
func listed(values []float64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", ", "), "[]")
}
