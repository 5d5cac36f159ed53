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
	Show: showParameters,
}

func showParameters(p *Page) {
	all := numbers("parameters", "data", "model", "mechanism", "epsilon", "delta", "users",
		"timestamps", "metric")
	for _, c := range p.Cases() {
		for _, at := range p.Ways(c, p.Settings()...) {
			sample := errorsAt(p, at)
			label, epsilon, delta := at.Cells()
			for _, m := range errorScores {
				all.Add(c.Data.Name, string(c.Kind), label, epsilon, delta, len(sample),
					int(sample.N()), m.name, m.bandOf(sample))
			}
		}
		t := all.Where("data", c.Data.Name).Where("model", string(c.Kind))
		name := fmt.Sprintf("parameters-%s-%s", c.Data.Name, c.Kind)
		chart := &report.Chart{
			Name: name, Note: p.bands(len(p.Traces(c.Data))),
			Title: fmt.Sprintf("%s, over ε (left, δ = %g) and δ (right, ε = %g)", c.Title(),
				Fixed.Delta, Fixed.Epsilon),
		}
		for _, m := range errorScores {
			rows := t.Where("metric", m.name)
			overEpsilon := rows.Where("delta", Fixed.Delta)
			overDelta := rows.Where("epsilon", Fixed.Epsilon, nil)
			chart.Panels = append(chart.Panels,
				swept(overEpsilon, m, "epsilon", p.Options.Epsilons),
				swept(overDelta, m, "delta", p.Options.Deltas))
		}
		p.Add(chart)
		p.Table(name, c.Title()+", with 95 % confidence over users.",
			t.Pivot([]string{"epsilon", "delta", "mechanism"}, "metric", axes(errorScores)))
	}
	p.Add(all)
}

// swept draws a score over the values of one column.
func swept(t *report.Table, m score, over string, values []float64) report.Panel {
	at := []any{nil}
	for _, v := range values {
		at = append(at, v)
	}
	return report.Panel{
		X:      report.Axis{Label: axes(nil)[over] + ", natural log", Log: true},
		Y:      m.y(),
		Series: t.Where(over, at...).Lines("mechanism", []string{over}, values),
	}
}
