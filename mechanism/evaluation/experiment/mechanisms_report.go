package experiment

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

//go:embed mechanisms.md
var mechanismsText string

func mechanismsExperiment() study.Experiment {
	return study.Experiment{
		Name: "mechanisms", Title: "Mechanisms",
		Plan: func(s *study.Study) (pieces []study.Piece, err error) {
			for _, x := range eachMechanisms(s) {
				pieces = append(pieces, x.pieces()...)
			}
			return pieces, nil
		},
		Report: reportMechanisms,
	}
}

func reportMechanisms(s *study.Study, r *study.Results) (report.Section, error) {
	intro := study.NewProse(mechanismsText).Say("intro",
		study.Figures{"deltas": listed(s.Options.MechanismDeltas)})
	section := report.Section{Title: "Mechanisms", Parts: []report.Part{report.Text(intro)}}
	long := &report.Table{
		Name: "mechanisms", Long: true, Caption: "Every number of the section.",
		Columns: []string{
			"data", "mechanism", "epsilon", "delta", "metric", "value", "low", "high",
		},
	}
	for _, x := range eachMechanisms(s) {
		c, err := newContest(x, r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, c.describe(), c.figure(), c.table())
		long.Rows = append(long.Rows, c.rows()...)
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

// listed writes numbers with commas.
func listed(values []float64) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, ", ")
}

// measured is a mechanism at a setting.
type measured struct {
	variant  study.Variant
	at       study.Setting
	best     bool // of the mechanism's δ at this ε
	estimate study.Band
	// Bands of nearContenders alone, else NaN: the mean of ln near factor, and the share of pairs
	// with one above 1.
	near, apart study.Band
}

// contest is all mechanisms on one data set, measured.
type contest struct {
	*mechanisms
	prose study.Prose
	list  []measured
	onces [][]once // for each ε
	blind study.Band
}

// newContest reads what was measured.
func newContest(x *mechanisms, r *study.Results) (*contest, error) {
	blind, err := x.whole().blindTallies(r, x.Options.Delta)
	if err != nil {
		return nil, err
	}
	c := &contest{
		mechanisms: x, prose: study.NewProse(mechanismsText), blind: study.EstimateBand(blind),
	}
	for _, epsilon := range x.Options.MechanismEpsilons {
		onces, err := x.once().results(r, epsilon)
		if err != nil {
			return nil, err
		}
		c.onces = append(c.onces, onces)
	}
	none := study.Band{Value: math.NaN(), Low: math.NaN(), High: math.NaN()}
	x.eachSetting(contenders(), func(v study.Variant, at study.Setting) {
		m := measured{variant: v, at: at, near: none, apart: none}
		tallies, failed := x.whole().tallies(r, v, at)
		if failed == nil {
			m.estimate = study.EstimateBand(tallies)
		}
		if failed == nil && (v == study.Codebook || v == study.Lattice) {
			m.near, m.apart, failed = x.near().bands(r, v, at)
		}
		if err == nil {
			err = failed
		}
		c.list = append(c.list, m)
	})
	for i := range c.list {
		c.list[i].best = !slices.ContainsFunc(c.list, c.list[i].worse)
	}
	return c, err
}

// worse says that another δ of the same mechanism has a smaller error at the same ε, or the same
// error at a smaller δ.
func (m *measured) worse(other measured) bool {
	return other.variant == m.variant && other.at.Epsilon == m.at.Epsilon &&
		cmp.Or(cmp.Compare(other.estimate.Value, m.estimate.Value),
			cmp.Compare(other.at.Delta, m.at.Delta)) < 0
}

func (c *contest) describe() report.Text {
	least, most := 1., 0.
	for _, onces := range c.onces {
		for _, o := range onces {
			least, most = min(least, o.Mass), max(most, o.Mass)
		}
	}
	return report.Text(c.prose.Say("data", study.Figures{
		"data": c.data.Title, "users": len(c.Traces(c.data)), "runs": c.Options.Runs,
		"priors": c.once().priors(), "places": oncePlaces, "least": least, "most": most,
	}))
}

func (c *contest) figure() *report.Figure {
	f := &chart.Figure{
		Title: c.data.Title + ": all mechanisms", PanelWidth: 3.5, PanelHeight: 3.2,
		Note: c.prose.Say("note", study.Figures{
			"users": len(c.Traces(c.data)), "runs": c.Options.Runs, "priors": c.once().priors(),
			"epsilons": listed(c.Options.MechanismEpsilons),
		}),
		Panels: []chart.Panel{c.overEpsilon(), c.overOnce(), c.overNear()},
	}
	return &report.Figure{
		Name: "mechanisms-" + c.data.Name, Chart: f,
		Caption: c.prose.Say("caption", study.Figures{"data": c.data.Title}),
	}
}

func (c *contest) epsilonAxis() chart.Axis {
	return chart.Axis{
		Label: "ε of a release (natural log)", Log: true, At: c.Options.MechanismEpsilons,
	}
}

// blindLine is the blind baseline between two ends of an axis.
func (c *contest) blindLine(from, to float64) chart.Series {
	line := chart.Series{Name: "blind", Reference: true}
	for _, at := range []float64{from, to} {
		add(&line, at, c.blind)
	}
	return line
}

// overEpsilon draws the error over ε.
func (c *contest) overEpsilon() *chart.Lines {
	panel := &chart.Lines{
		Title: "whole traces", X: c.epsilonAxis(),
		Y: chart.Axis{Label: "estimate to truth (rms), km", Zero: true},
	}
	for _, v := range contenders() {
		line := chart.Series{Name: v.Label(), Look: v.Look()}
		for _, m := range c.list {
			if m.variant == v && m.best {
				add(&line, m.at.Epsilon, m.estimate)
			}
		}
		panel.Series = append(panel.Series, line)
	}
	list := c.Options.MechanismEpsilons
	panel.Series = append(panel.Series, c.blindLine(list[0], list[len(list)-1]))
	return panel
}

// overOnce draws what one release leaves of the variance.
func (c *contest) overOnce() *chart.Lines {
	panel := &chart.Lines{
		Title: "one release", X: c.epsilonAxis(),
		Y: chart.Axis{Label: "variance left, share of the prior's", Zero: true},
	}
	deltas := c.Options.MechanismDeltas
	lines := []chart.Series{
		{Name: study.Codebook.Label(), Look: study.Codebook.Look()},
		{Name: study.Lattice.Label(), Look: study.Lattice.Look()},
		c.latticeLine(deltas[0]),
		{Name: "bound on all mechanisms", Guide: true},
	}
	for i, epsilon := range c.Options.MechanismEpsilons {
		list := c.onces[i]
		best := bestLattice(list)
		for k, of := range []func(*once) float64{
			func(o *once) float64 { return o.Codebook },
			func(o *once) float64 { return o.Lattice[best] },
			func(o *once) float64 { return o.Lattice[0] },
			func(o *once) float64 { return o.Bound },
		} {
			add(&lines[k], epsilon, shares(list, of))
		}
	}
	lines[3].Low, lines[3].High = nil, nil // a line to compare with
	panel.Series = lines
	return panel
}

// latticeLine is an empty line of the lattice at one δ, with the same look in every panel.
func (c *contest) latticeLine(delta float64) chart.Series {
	for k, d := range c.Options.MechanismDeltas {
		if d == delta {
			return chart.Series{Name: fmt.Sprintf("lattice, δ = %g", delta), Look: 6 + k}
		}
	}
	return chart.Series{}
}

// overNear draws the error over the near factor, with a line for the codebook and one for the
// lattice at each δ.
func (c *contest) overNear() *chart.Lines {
	panel := &chart.Lines{
		Title: "near places",
		X:     chart.Axis{Label: "near factor (mean ln, cells side by side)", Zero: true},
		Y:     chart.Axis{Label: "estimate to truth (rms), km", Zero: true},
	}
	lines := []chart.Series{{Name: study.Codebook.Label(), Look: study.Codebook.Look()}}
	for _, delta := range c.Options.MechanismDeltas {
		lines = append(lines, c.latticeLine(delta))
	}
	most := 0.
	for _, m := range c.list {
		k := 0
		switch m.variant {
		case study.Codebook:
		case study.Lattice:
			for lines[k].Name != c.latticeLine(m.at.Delta).Name {
				k++
			}
		default:
			continue
		}
		lines[k].X = append(lines[k].X, m.near.Value)
		lines[k].Y = append(lines[k].Y, m.estimate.Value)
		most = max(most, m.near.Value)
	}
	panel.Series = append(lines, c.blindLine(0, most))
	return panel
}

// table has the figures of every mechanism at its best δ.
func (c *contest) table() *report.Table {
	table := &report.Table{
		Name:    "mechanisms-" + c.data.Name,
		Caption: c.prose.Say("table.caption", study.Figures{"data": c.data.Title}),
		Columns: []string{
			"ε", "mechanism", "best δ", "estimate to truth (rms), km", "near factor, mean ln",
			"neighbours told apart", "variance left by one release",
		},
	}
	text := func(b study.Band) string {
		if math.IsNaN(b.Value) {
			return ""
		}
		return b.String()
	}
	for i, epsilon := range c.Options.MechanismEpsilons {
		list := c.onces[i]
		best := bestLattice(list)
		left := map[study.Variant]string{
			study.Codebook: shares(list, func(o *once) float64 { return o.Codebook }).String(),
			study.Lattice:  shares(list, func(o *once) float64 { return o.Lattice[best] }).String(),
		}
		for _, m := range c.list {
			if m.at.Epsilon != epsilon || !m.best {
				continue
			}
			delta := fmt.Sprint(m.at.Delta)
			if m.variant == study.Codebook {
				delta = "any"
			}
			table.Rows = append(table.Rows, []string{
				fmt.Sprint(epsilon), m.variant.Label(), delta, m.estimate.String(), text(m.near),
				text(m.apart), left[m.variant],
			})
		}
		least := shares(list, func(o *once) float64 { return o.Bound })
		table.Rows = append(table.Rows, []string{
			fmt.Sprint(epsilon), "bound on all mechanisms", "", "", "", "", least.String(),
		})
	}
	table.Rows = append(table.Rows, []string{"", "blind", "", c.blind.String(), "", "", "1"})
	return table
}

// rows are every number of a data set.
func (c *contest) rows() (rows [][]string) {
	add := func(mechanism string, at study.Setting, metric string, b study.Band) {
		if math.IsNaN(b.Value) {
			return
		}
		row := []string{
			c.data.Name, mechanism, study.Number(at.Epsilon), study.Number(at.Delta), metric,
		}
		rows = append(rows, append(row, b.Fields()...))
	}
	for _, m := range c.list {
		add(m.variant.Mechanism, m.at, "estimate", m.estimate)
		add(m.variant.Mechanism, m.at, "near factor", m.near)
		add(m.variant.Mechanism, m.at, "neighbours told apart", m.apart)
	}
	none := math.NaN()
	for i, epsilon := range c.Options.MechanismEpsilons {
		list := c.onces[i]
		without := study.Setting{Epsilon: epsilon, Delta: none}
		const metric = "variance left by one release"
		add("codebook", without, metric, shares(list, func(o *once) float64 { return o.Codebook }))
		for k, delta := range c.Options.MechanismDeltas {
			add("lattice", study.Setting{Epsilon: epsilon, Delta: delta}, metric,
				shares(list, func(o *once) float64 { return o.Lattice[k] }))
		}
		add("best found", without, metric, shares(list, func(o *once) float64 { return o.Reached }))
		add("bound", without, metric, shares(list, func(o *once) float64 { return o.Bound }))
	}
	add("blind", study.Setting{Epsilon: none, Delta: none}, "estimate", c.blind)
	return rows
}
