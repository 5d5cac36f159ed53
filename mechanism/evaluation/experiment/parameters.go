package experiment

import (
	_ "embed"
	"fmt"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

//go:embed parameters.md
var parametersText string

// parameters is many traces over ε and δ, on each case.
var parameters = study.Experiment{
	Name: "parameters", Title: "Impact of parameters", Text: parametersText,
	Plan: func(s *study.Study) (pieces []study.Piece) {
		for _, c := range s.Cases() {
			for _, at := range s.Ways(c, s.Settings()...) {
				pieces = append(pieces, traceErrors.Pieces(s, at)...)
			}
		}
		return pieces
	},
	Show: showParameters,
}

func showParameters(p *study.Page) {
	p.Text("intro", study.Figures{"epsilon": p.Options.Epsilon, "delta": p.Options.Delta})
	all := study.Long("parameters", "data", "model", "mechanism", "epsilon", "delta", "users",
		"timestamps", "metric")
	for _, c := range p.Cases() {
		for _, at := range p.Ways(c, p.Settings()...) {
			sample := errorsAt(p, at)
			label, epsilon, delta := at.Cells()
			for _, m := range errorScores() {
				all.Add(c.Data.Name, string(c.Kind), label, epsilon, delta, len(sample),
					int(sample.N()), m.name, m.of(sample))
			}
		}
		showCase(p, c, all.Where("data", c.Data.Name).Where("model", string(c.Kind)))
	}
	p.Add(all)
}

// showCase shows the numbers of one case.
func showCase(p *study.Page, c study.Case, t *report.Table) {
	p.Text("case", caseFigures(p, c))
	file := fmt.Sprintf("parameters-%s-%s", c.Data.Name, c.Kind)
	for _, g := range p.Groups() {
		p.Figure(g.File(file),
			p.Say("caption", study.Figures{"case": c.Title(), "group": g.Title}),
			sweeps(p, c, g, t.Where("mechanism", g.Labels()...)))
	}
	p.Table(file, c.Title()+", with 95 % confidence over users.",
		t.Pivot([]string{"epsilon", "delta", "mechanism"}, "metric", axes(errorScores())))
}

// caseFigures says what was measured.
func caseFigures(p *study.Page, c study.Case) study.Figures {
	d, traces := c.Data, p.Traces(c.Data)
	var timestamps, shortest, holes int64
	for i, t := range traces {
		n := int64(len(t.Steps))
		timestamps += n
		holes += t.Holes()
		if i == 0 || n < shortest {
			shortest = n
		}
	}
	return study.Figures{
		"case": c.Title(), "kind": string(c.Kind), "folds": d.Folds, "runs": p.Options.Runs,
		"users": d.Users, "able": len(d.Traces), "taken": len(traces),
		"least": d.Least, "most": d.Timestamps, "shortest": shortest, "timestamps": timestamps,
		"everyFix": d.EveryFix, "step": d.Step, "maxGap": d.MaxGap,
		"holes": 100 * float64(holes) / float64(holes+timestamps),
	}
}

// sweeps draws a row of panels for each metric: over ε and over δ.
func sweeps(p *study.Page, c study.Case, g study.Group, t *report.Table) *chart.Figure {
	o := p.Options
	f := &chart.Figure{
		Title: g.Titled(c.Title()+", over ε (left) and δ (right)", ": "), Columns: 2,
		PanelWidth: 4.6, PanelHeight: 2.6,
		Note: p.Say("note",
			study.Figures{"users": len(p.Traces(c.Data)), "runs": o.Runs}),
	}
	for _, m := range errorScores() {
		if m.name == estimateScore.name && !p.Also(study.AlsoEstimate) {
			continue
		}
		rows := t.Where("metric", m.name)
		overEpsilon := swept(rows.Where("delta", o.Delta), m, "epsilon", o.Epsilons)
		overEpsilon.X.Label = fmt.Sprintf("ε of a release (δ = %g)", o.Delta)
		overDelta := swept(rows.Where("epsilon", o.Epsilon, nil), m, "delta", o.Deltas)
		overDelta.X.Label = fmt.Sprintf("δ (ε = %g)", o.Epsilon)
		if m.name == driftScore.name {
			overEpsilon.Series = append(overEpsilon.Series,
				driftGuide(o.Epsilons, func(float64) float64 { return o.Delta }))
			overDelta.Series = append(overDelta.Series, driftGuide(o.Deltas, exact))
		}
		f.Panels = append(f.Panels, overEpsilon, overDelta)
	}
	return f
}

// swept draws a score over the values of one column.
func swept(t *report.Table, m score, over string, values []float64) *chart.Lines {
	at := []any{nil}
	for _, v := range values {
		at = append(at, v)
	}
	return &chart.Lines{
		X:      chart.Axis{Log: true, At: values},
		Y:      chart.Axis{Label: m.axis, Log: m.log, Zero: true},
		Series: styled(t.Where(over, at...).Lines("mechanism", []string{over}, values)),
	}
}
