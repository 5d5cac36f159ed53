package experiment

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

//go:embed mechanisms.md
var mechanismsText string

// mechanisms is all mechanisms beside each other, and beside the least error that any mechanism can
// have, under the popular model: whole traces, near factors (near.go), and one release beside the
// bound (once.go).
var mechanisms = study.Experiment{
	Name: "mechanisms", Title: "Mechanisms", Text: mechanismsText,
	Plan: func(s *study.Study) (pieces []study.Piece) {
		for _, d := range s.Data {
			pieces = append(pieces, traceErrors.Pieces(s, blindAt(s, d))...)
			for _, at := range contenders(s, d) {
				pieces = append(pieces, traceErrors.Pieces(s, at)...)
				if hasNearFactor(at) {
					pieces = append(pieces, nearFactors.Pieces(s, at)...)
				}
			}
			pieces = append(pieces, (&singles{s, d}).pieces()...)
		}
		return pieces
	},
	Show: showMechanisms,
}

// blindAt is the baseline beside the mechanisms.
func blindAt(s *study.Study, d *study.Data) study.Point {
	return study.Point{
		Case: study.Case{Data: d, Kind: study.Popular}, Blind: true,
		Setting: study.Setting{Delta: s.Options.Delta},
	}
}

// contenders are the mechanisms that are compared, each at every ε and δ. The codebook has no use
// for a δ, so it has one.
func contenders(s *study.Study, d *study.Data) (points []study.Point) {
	for _, v := range []study.Variant{
		study.Codebook, study.Lattice, study.PIM, study.Tight, study.LM,
	} {
		deltas := s.Options.MechanismDeltas
		if v == study.Codebook {
			deltas = []float64{s.Options.Delta}
		}
		for _, epsilon := range s.Options.MechanismEpsilons {
			for _, delta := range deltas {
				points = append(points, study.Point{
					Case:    study.Case{Data: d, Kind: study.Popular},
					Variant: v, Setting: study.Setting{Epsilon: epsilon, Delta: delta},
				})
			}
		}
	}
	return points
}

// hasNearFactor says of which mechanisms near factors are measured.
func hasNearFactor(at study.Point) bool {
	return at.Variant == study.Codebook || at.Variant == study.Lattice
}

// The metrics of the section.
const (
	estimateMetric = "estimate"
	nearMetric     = "near factor"
	apartMetric    = "neighbours told apart"
	leftMetric     = "variance left by one release"
	deltaMetric    = "best δ"
)

const boundLabel = "bound on all mechanisms"

func showMechanisms(p *study.Page) {
	p.Text("intro", study.Figures{"deltas": listed(p.Options.MechanismDeltas)})
	all := study.Long("mechanisms", "data", "mechanism", "epsilon", "delta", "metric")
	for _, d := range p.Data {
		c := &contest{
			Page: p, data: d, singles: singles{p.Study, d}, least: 1,
			best: study.Long("", "epsilon", "mechanism", "metric"),
		}
		c.addTraces(all)
		for _, epsilon := range p.Options.MechanismEpsilons {
			c.addSingles(all, epsilon)
		}
		c.show(all.Where("data", d.Name))
	}
	p.Add(all)
}

// listed writes numbers with commas.
func listed(values []float64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", ", "), "[]")
}

// contest is all mechanisms on one data set.
type contest struct {
	*study.Page
	data        *study.Data
	singles     singles
	best        *report.Table // each mechanism at its best δ
	least, most float64       // masses of the priors of single releases
}

// addTraces adds what is measured on whole traces.
func (c *contest) addTraces(all *report.Table) {
	type way struct {
		variant study.Variant
		epsilon float64
	}
	best := map[way]measured{}
	var order []way
	for _, at := range contenders(c.Study, c.data) {
		m := c.measured(at)
		m.addTo(func(metric string, b report.Band) {
			all.Add(c.data.Name, at.Label(), at.Epsilon, at.Delta, metric, b)
		})
		w := way{at.Variant, at.Epsilon}
		other, known := best[w]
		if !known {
			order = append(order, w)
		}
		// δ ascend: of equals the smaller one stays.
		if !known || m.estimate.Value < other.estimate.Value {
			best[w] = m
		}
	}
	for _, w := range order {
		m := best[w]
		var delta any = m.at.Delta
		if w.variant == study.Codebook {
			delta = "any"
		}
		c.best.Add(w.epsilon, m.at.Label(), deltaMetric, delta)
		m.addTo(func(metric string, b report.Band) {
			c.best.Add(w.epsilon, m.at.Label(), metric, b)
		})
	}
	blind := estimateScore.of(errorsAt(c.Page, blindAt(c.Study, c.data)))
	all.Add(c.data.Name, study.Blind, nil, nil, estimateMetric, blind)
	c.best.Add(nil, study.Blind, estimateMetric, blind)
	c.best.Add(nil, study.Blind, leftMetric, report.Exact(1))
}

// measured is a mechanism at a setting on whole traces. near and apart are the mean of ln near
// factor and the share of pairs with one above 1.
type measured struct {
	at                    study.Point
	estimate, near, apart report.Band
}

func (c *contest) measured(at study.Point) measured {
	m := measured{at: at, estimate: estimateScore.of(errorsAt(c.Page, at))}
	if hasNearFactor(at) {
		near := c.Read(nearFactors, at).All()
		m.near, m.apart = mean(logFactors, near), mean(toldApart, near)
	}
	return m
}

func (m *measured) addTo(add func(metric string, b report.Band)) {
	add(estimateMetric, m.estimate)
	if hasNearFactor(m.at) {
		add(nearMetric, m.near)
		add(apartMetric, m.apart)
	}
}

// addSingles adds what one release leaves of the variance at an ε.
func (c *contest) addSingles(all *report.Table, epsilon float64) {
	sample, best := c.singles.read(c.Page, epsilon)
	add := func(label string, delta any, quantity int) {
		all.Add(c.data.Name, label, epsilon, delta, leftMetric, mean(quantity, sample))
	}
	add(study.Codebook.Label(), nil, codebookError)
	for k, delta := range c.Options.MechanismDeltas {
		add(study.Lattice.Label(), delta, latticeError+k)
	}
	add("best found", nil, reachedError)
	add(boundLabel, nil, boundError)
	c.best.Add(epsilon, study.Codebook.Label(), leftMetric, mean(codebookError, sample))
	c.best.Add(epsilon, study.Lattice.Label(), leftMetric, mean(latticeError+best, sample))
	c.best.Add(epsilon, boundLabel, leftMetric, mean(boundError, sample))
	for i := range sample {
		mass := sample[i].Of[onceMass]
		c.least, c.most = min(c.least, mass), max(c.most, mass)
	}
}

func (c *contest) show(all *report.Table) {
	d, o := c.data, c.Options
	c.Text("data", study.Figures{
		"data": d.Title, "users": len(c.Traces(d)), "runs": o.Runs, "priors": c.singles.priors(),
		"places": oncePlaces, "least": c.least, "most": c.most,
	})
	name := "mechanisms-" + d.Name
	c.Figure(name, c.Say("caption", study.Figures{"data": d.Title}), &chart.Figure{
		Title: d.Title + ": all mechanisms", PanelWidth: 3.5, PanelHeight: 3.2,
		Note: c.Say("note", study.Figures{
			"users": len(c.Traces(d)), "runs": o.Runs, "priors": c.singles.priors(),
			"epsilons": listed(o.MechanismEpsilons),
		}),
		Panels: []chart.Panel{c.overEpsilon(), c.overOnce(all), c.overNear(all)},
	})
	c.Table(name, c.Say("table.caption", study.Figures{"data": d.Title}),
		c.best.Pivot([]string{"epsilon", "mechanism"}, "metric", map[string]string{
			"epsilon": "ε", estimateMetric: estimateScore.axis, nearMetric: "near factor, mean ln",
		}))
}

// overEpsilon draws the error over ε.
func (c *contest) overEpsilon() *chart.Lines {
	return &chart.Lines{
		Title: "whole traces", X: c.epsilonAxis(),
		Y: chart.Axis{Label: estimateScore.axis, Zero: true},
		Series: styled(c.best.Where("metric", estimateMetric).
			Lines("mechanism", []string{"epsilon"}, c.Options.MechanismEpsilons)),
	}
}

func (c *contest) epsilonAxis() chart.Axis {
	return chart.Axis{
		Label: "ε of a release (natural log)", Log: true, At: c.Options.MechanismEpsilons,
	}
}

// overOnce draws what one release leaves of the variance.
func (c *contest) overOnce(all *report.Table) *chart.Lines {
	left := c.best.Where("metric", leftMetric)
	over := func(t *report.Table, label string) []chart.Series {
		return styled(t.Where("mechanism", label).Lines("mechanism", []string{"epsilon"}, nil))
	}
	lines := append(over(left, study.Codebook.Label()), over(left, study.Lattice.Label())...)
	delta := c.Options.MechanismDeltas[0]
	for _, line := range over(all.Where("metric", leftMetric).Where("delta", delta),
		study.Lattice.Label()) {
		line.Name, line.Look = c.latticeLook(delta)
		lines = append(lines, line)
	}
	for _, line := range over(left, boundLabel) { // a line to compare with
		line.Guide, line.Low, line.High = true, nil, nil
		lines = append(lines, line)
	}
	return &chart.Lines{
		Title: "one release", X: c.epsilonAxis(),
		Y: chart.Axis{Label: "variance left, share of the prior's", Zero: true}, Series: lines,
	}
}

// latticeLook returns the name and the look of the lattice at one δ, the same in every panel.
func (c *contest) latticeLook(delta float64) (name string, look int) {
	for k, d := range c.Options.MechanismDeltas {
		if d == delta {
			look = 6 + k
		}
	}
	return fmt.Sprintf("lattice, δ = %g", delta), look
}

// overNear draws the error over the near factor, with a line for the codebook and one for the
// lattice at each δ.
func (c *contest) overNear(all *report.Table) *chart.Lines {
	panel := &chart.Lines{
		Title: "near places",
		X:     chart.Axis{Label: "near factor (mean ln, cells side by side)", Zero: true},
		Y:     chart.Axis{Label: estimateScore.axis, Zero: true},
	}
	most := 0.
	add := func(v study.Variant, t *report.Table) *chart.Series {
		line := chart.Series{Name: v.Label(), Look: v.Look()}
		rows := func(metric string) []report.Row {
			return t.Where("mechanism", v.Label()).Where("metric", metric).Rows
		}
		errs := rows(estimateMetric)
		for i, row := range rows(nearMetric) {
			x, y := row[len(row)-1].(report.Band).Value, errs[i][len(row)-1].(report.Band).Value
			line.X, line.Y = append(line.X, x), append(line.Y, y)
			most = max(most, x)
		}
		panel.Series = append(panel.Series, line)
		return &panel.Series[len(panel.Series)-1]
	}
	add(study.Codebook, all)
	for _, delta := range c.Options.MechanismDeltas {
		line := add(study.Lattice, all.Where("delta", delta))
		line.Name, line.Look = c.latticeLook(delta)
	}
	panel.Series = append(panel.Series, styled(c.best.Where("mechanism", study.Blind).
		Where("metric", estimateMetric).Lines("mechanism", []string{"epsilon"},
		[]float64{0, most}))...)
	return panel
}
