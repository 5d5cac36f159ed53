package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// parameters is many traces over ε and δ, on each case.
var parameters = Experiment{
	Name: "parameters", Title: "Impact of parameters",
	Plan: func(s *Study) (pieces []Piece) {
		for _, c := range s.Cases() {
			pieces = append(pieces, traceErrors.all(s, s.Ways(c, s.Settings()...))...)
		}
		return pieces
	},
	Show: func(p *Page) {
		all := long("parameters", "data", "model", "mechanism", "epsilon", "delta", "users",
			"timestamps", "metric")
		for _, c := range p.Cases() {
			for _, at := range p.Ways(c, p.Settings()...) {
				sample := errorsAt(p, at)
				label, epsilon, delta := at.Cells()
				for _, m := range errorScores {
					all.Add(c.Data.Name, string(c.Kind), label, epsilon, delta, len(sample),
						int(sample.N()), m.name, m.of(sample))
				}
			}
			t := all.Where("data", c.Data.Name).Where("model", string(c.Kind))
			file := fmt.Sprintf("parameters-%s-%s", c.Data.Name, c.Kind)
			p.Figure(file, sweeps(p, c, t))
			p.Table(file, c.Title()+", with 95 % confidence over users.",
				t.Pivot([]string{"epsilon", "delta", "mechanism"}, "metric", axes(errorScores)))
		}
		p.Add(all)
	},
}

// sweeps draws a row of panels for each metric: over ε and over δ.
func sweeps(p *Page, c Case, t *report.Table) *report.Figure {
	f := &report.Figure{
		Title: c.Title() + ", over ε (left) and δ (right)", Columns: 2, PanelWidth: 4.6,
		PanelHeight: 2.6, Note: p.bands(len(p.Traces(c.Data))),
	}
	o := p.Options
	for _, m := range errorScores {
		rows := t.Where("metric", m.name)
		overEpsilon := swept(rows.Where("delta", Fixed.Delta), m, "epsilon", o.Epsilons)
		overEpsilon.X.Label = fmt.Sprintf("ε of a release (δ = %g)", Fixed.Delta)
		overDelta := swept(rows.Where("epsilon", Fixed.Epsilon, nil), m, "delta", o.Deltas)
		overDelta.X.Label = fmt.Sprintf("δ (ε = %g)", Fixed.Epsilon)
		if m.name == driftScore.name {
			overEpsilon.Series = append(overEpsilon.Series, driftGuide(o.Epsilons, Fixed.Delta))
			overDelta.Series = append(overDelta.Series, driftGuide(o.Deltas, o.Deltas...))
		}
		f.Panels = append(f.Panels, overEpsilon, overDelta)
	}
	return f
}

// swept draws a score over the values of one column.
func swept(t *report.Table, m score, over string, values []float64) *report.Lines {
	at := []any{nil}
	for _, v := range values {
		at = append(at, v)
	}
	return &report.Lines{
		X:      report.Axis{Log: true, At: values},
		Y:      report.Axis{Label: m.axis, Log: m.log, Zero: true},
		Series: styled(t.Where(over, at...).Lines("mechanism", []string{over}, values)),
	}
}
