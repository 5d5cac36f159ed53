package experiment

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/density"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func reportFleet(s *study.Study, r *study.Results) (report.Section, error) {
	prose := study.NewProse(fleetText)
	section := report.Section{Title: "Where the fleet is", Parts: []report.Part{
		report.Text(
			prose.Say("intro", study.Figures{"delta": s.Options.Delta, "steps": fleetSteps})),
		report.Text(prose.Say("kinds", study.Figures{"steps": fleetSteps})),
	}}
	long := &report.Table{
		Name: "fleet", Long: true, Caption: "Every number of the section.",
		Columns: []string{
			"data", "fleet", "epsilon", "delta", "steps", "zones", "vehicles", "fleets",
			"estimator",
			"variation", "low", "high", "rank correlation", "fullest found", "coverage",
		},
	}
	for _, x := range fleets(s) {
		scores, err := x.scores(r)
		if err != nil {
			return section, err
		}
		zones, _, err := zonesOf(x.data)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, x.parts(scores, zones)...)
		for _, score := range scores {
			long.Rows = append(long.Rows, x.row(zones, score))
		}
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

func (x *fleet) parts(scores []density.Score, zones *aggregate.Zones) []report.Part {
	rows := fleetRows(scores)
	parts := []report.Part{report.Text(x.describe(zones)), report.Text(x.findings(rows))}
	for _, m := range density.Measures() {
		parts = append(parts, x.figure(scores, m))
	}
	return append(parts, x.useTable(rows), x.table(rows))
}

// describe says what a data set's fleets are.
func (x *fleet) describe(zones *aggregate.Zones) string {
	d := x.data
	return x.prose.Say("data", study.Figures{
		"data": d.Title, "columns": zones.Columns(), "rows": zones.Rows(), "side": zones.SideKM(),
		"mostZones": mostZones, "folds": d.Folds, "radius": gatheredSides * zones.SideKM(),
		"everyFix": d.EveryFix, "step": d.Step, "steps": fleetSteps, "time": fleetSteps * d.Step,
		"traces": len(x.traces()), "least": study.LeastFleet, "users": len(d.Traces),
	})
}

func (x *fleet) figure(scores []density.Score, m density.Measure) *report.Figure {
	d := x.data
	f := density.Figure(scores, m)
	f.Title = fmt.Sprintf("%s: where the fleet is, from its releases: %s; δ = %g",
		d.Title, m.Axis, x.Options.Delta)
	f.PanelWidth, f.PanelHeight = 3.5, 2.5
	return &report.Figure{
		Name: "fleet-" + d.Name + "-" + m.Name, Chart: f,
		Caption: x.prose.Say("figure.caption", study.Figures{
			"data": d.Title, "axis": m.Axis, "estimates": len(m.Judged()),
		}),
	}
}

// useTable says at which sizes releases are of use.
func (x *fleet) useTable(rows []fleetRow) *report.Table {
	table := &report.Table{
		Name: "fleet-" + x.data.Name + "-use",
		Caption: x.prose.Say("use.caption", study.Figures{
			"data": x.data.Title, "confidence": 100 * study.Level, "leastFleets": leastFleets,
		}),
		Columns: []string{"fleet", "ε", "of use, by vehicles", "gain by vehicles"},
	}
	for _, u := range uses(rows) {
		table.Rows = append(table.Rows, []string{
			u.Kind, study.Short(u.Epsilon), u.String(), u.gains(),
		})
	}
	return table
}

func (x *fleet) table(rows []fleetRow) *report.Table {
	table := &report.Table{
		Name:    "fleet-" + x.data.Name,
		Caption: x.prose.Say("table.caption", study.Figures{"data": x.data.Title}),
		Columns: []string{
			"fleet", "ε", "vehicles × fleets", "variation: naive / blind / posterior / fitted",
			"rank correlation: blind / posterior / fitted",
			fmt.Sprintf("fullest %d found: naive / blind / posterior / fitted", fullest),
			"coverage: posterior / fitted",
		},
	}
	for _, r := range rows {
		n, b, p, f := &r.naive, &r.blind, &r.posterior, &r.fitted
		table.Rows = append(table.Rows, []string{
			b.Fleet, study.Short(b.Epsilon), fmt.Sprintf("%d × %d", b.Vehicles, b.Fleets),
			fmt.Sprintf("%.3f / %.3f / %.3f / %.3f", n.Variation, b.Variation,
				p.Variation, f.Variation),
			fmt.Sprintf("%.2f / %.2f / %.2f", b.Rank, p.Rank, f.Rank),
			fmt.Sprintf("%.2f / %.2f / %.2f / %.2f", n.TopFound, b.TopFound,
				p.TopFound, f.TopFound),
			fmt.Sprintf("%.3f / %.3f", p.Coverage, f.Coverage),
		})
	}
	return table
}

// row is every number of a score.
func (x *fleet) row(zones *aggregate.Zones, score density.Score) []string {
	coverage := ""
	if score.Estimator == "posterior" || score.Estimator == "fitted" {
		coverage = study.Number(score.Coverage)
	}
	low, high := "", ""
	if score.Fleets > 1 {
		low, high = study.Number(score.VariationLow), study.Number(score.VariationHigh)
	}
	return []string{
		x.data.Name, score.Fleet, study.Number(score.Epsilon), study.Number(x.Options.Delta),
		fmt.Sprint(fleetSteps),
		fmt.Sprint(zones.Count()), fmt.Sprint(score.Vehicles), fmt.Sprint(score.Fleets),
		score.Estimator,
		study.Number(score.Variation), low, high, study.Number(score.Rank),
		study.Number(score.TopFound), coverage,
	}
}

// findings are what the rows of a data set say, in a paragraph.
func (x *fleet) findings(rows []fleetRow) string {
	naive, mean, least, most := 0, 0, math.Inf(1), math.Inf(-1)
	own, fit := []float64{1, 0}, []float64{1, 0}
	for _, r := range rows {
		if r.naive.Variation < r.blind.Variation {
			naive++
		}
		if r.posterior.Variation < r.fitted.Variation {
			mean++
		}
		least, most = min(least, r.gain().Value), max(most, r.gain().Value)
		own[0], own[1] = min(own[0], r.posterior.Coverage), max(own[1], r.posterior.Coverage)
		fit[0], fit[1] = min(fit[0], r.fitted.Coverage), max(fit[1], r.fitted.Coverage)
	}
	return x.prose.Say("findings", study.Figures{
		"data": x.data.Title, "useful": 100 * usefulGain, "confidence": 100 * study.Level,
		"leastFleets": leastFleets,
		"uses":        uses(rows), "best": -percent(most) + 0, "worst": -percent(least) + 0,
		"fleets": len(rows), "meanNearer": mean, "naiveNearer": naive, "own": own, "fit": fit,
	})
}
