package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/density"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func fleet() Experiment {
	return Experiment{Name: "fleet", Title: "Where the fleet is", Plan: planFleet, Report: reportFleet}
}

func reportFleet(s *Study, r *Results) (report.Section, error) {
	section := report.Section{Title: "Where the fleet is", Parts: []report.Part{
		report.Text(fmt.Sprintf(
			"How near those come to where a whole fleet is who have its releases and the model, as geodither aggregate has: to how many vehicles are in each zone of the map. The mechanism is lattice, by which geodither releases unless told otherwise; δ = %g. Each vehicle releases in each of %d successive steps and is looked for in the last of them; budgets add up, so that by then it has cost %d ε. naive counts each vehicle in the zone where its last release lies; blind is M alone, without a release; posterior is the mean of the vehicles' posteriors; fitted judges them all together under a prior that the fleet itself has taught (iterative Bayesian inference), held to M.",
			s.Options.Delta, fleetSteps, fleetSteps)),
		report.Text(fmt.Sprintf(
			"The fleet called expected is simulated: it begins where M has vehicles begin and moves by M, which is all that M foretells. Of the one called gathered every other vehicle begins near one place where M puts few, as at the end of an event, which nobody who has M knows. traces are stretches of %d successive steps of the users with a trace, each taken for a vehicle and released under the M that has not seen its user, all laid over each other: their times differ, so that it is no fleet of one moment. Small fleets are parts of the largest one, and figures are means over up to twenty of them; of the largest size there is a single one, so that its figures are left to chance. Bands and bars hold 80 %% or more of the fleets of a size: they are no confidence intervals, and there is none of a single fleet.",
			fleetSteps)),
	}}
	long := &report.Table{
		Name: "fleet", Long: true, Caption: "Every number of the section.",
		Columns: []string{"data", "fleet", "epsilon", "delta", "steps", "zones", "vehicles", "fleets", "estimator", "variation", "low", "high", "rank correlation", "fullest found", "coverage"},
	}
	for _, d := range s.Data {
		scores, err := s.fleetScores(d, r)
		if err != nil {
			return section, err
		}
		zones, _, err := d.fleetZones()
		if err != nil {
			return section, err
		}
		rows := fleetRows(scores)
		section.Parts = append(section.Parts, report.Text(s.fleetText(d, zones)), report.Text(d.Title+": "+fleetFindings(rows)))
		for _, m := range density.Measures() {
			section.Parts = append(section.Parts, s.fleetFigure(d, scores, m))
		}
		section.Parts = append(section.Parts, d.fleetUseTable(rows), d.fleetTable(rows))
		for _, score := range scores {
			long.Rows = append(long.Rows, s.fleetLong(d, zones, score))
		}
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

// fleetText says what a data set's fleets are.
func (s *Study) fleetText(d *Data, zones *aggregate.Zones) string {
	text := fmt.Sprintf("%s: %d × %d zones of %s km, the smallest blocks of cells of which there are at most %d. M is trained without one of %d parts of the users. A gathered vehicle begins within %s km of the place.",
		d.Title, zones.Columns(), zones.Rows(), short(zones.SideKM()), mostZones, d.Folds, short(gatheredSides*zones.SideKM()))
	if d.EveryFix {
		return text + " A step is a check-in, and a simulated vehicle is one that has just checked in for the last time of these. There is no fleet of traces: check-ins of one user lie hours to weeks apart, and a map of many users' is none of a fleet at any time."
	}
	text += fmt.Sprintf(" A step is %s, so that the %d releases of a vehicle take %s.", seconds(d.Step), fleetSteps, seconds(fleetSteps*d.Step))
	n := len(d.fleetTraces(s.Options))
	if n < leastFleet {
		return text + fmt.Sprintf(" There is no fleet of traces: there are %d stretches of %d successive steps.", n, fleetSteps)
	}
	return text + fmt.Sprintf(" There are %d traces of %s.", n, plural(len(d.Traces), "user"))
}

func (s *Study) fleetFigure(d *Data, scores []density.Score, m density.Measure) *report.Figure {
	f := density.Figure(scores, m)
	f.Title = fmt.Sprintf("%s: where the fleet is, from its releases: %s; δ = %g", d.Title, m.Axis, s.Options.Delta)
	f.PanelWidth, f.PanelHeight = 3.5, 2.5
	return &report.Figure{
		Name: "fleet-" + d.Name + "-" + m.Name, Chart: f,
		Caption: fmt.Sprintf("%s: %s of %d estimates of where the fleet is, by its size, kind and ε.", d.Title, m.Axis, len(m.Judged())),
	}
}

// fleetUseTable says at which sizes releases are of use.
func (d *Data) fleetUseTable(rows []fleetRow) *report.Table {
	table := &report.Table{
		Name:    "fleet-" + d.Name + "-use",
		Caption: fmt.Sprintf("%s: at how many vehicles releases are of use, and which part of M's error the fit takes away at each size, with %g %% confidence over fleets where there are %d or more.", d.Title, 100*level, leastFleets),
		Columns: []string{"fleet", "ε", "of use, by vehicles", "gain by vehicles"},
	}
	for _, u := range uses(rows) {
		table.Rows = append(table.Rows, []string{u.kind, short(u.epsilon), u.String(), u.gains()})
	}
	return table
}

func (d *Data) fleetTable(rows []fleetRow) *report.Table {
	table := &report.Table{
		Name:    "fleet-" + d.Name,
		Caption: fmt.Sprintf("%s: means over the fleets of a size. Variation is the total variation distance; coverage that of intervals of 90 %%.", d.Title),
		Columns: []string{
			"fleet", "ε", "vehicles × fleets", "variation: naive / blind / posterior / fitted", "rank correlation: blind / posterior / fitted",
			fmt.Sprintf("fullest %d found: naive / blind / posterior / fitted", fullest), "coverage: posterior / fitted",
		},
	}
	for _, r := range rows {
		table.Rows = append(table.Rows, []string{
			r.blind.Fleet, short(r.blind.Epsilon), fmt.Sprintf("%d × %d", r.blind.Vehicles, r.blind.Fleets),
			fmt.Sprintf("%.3f / %.3f / %.3f / %.3f", r.naive.Variation, r.blind.Variation, r.posterior.Variation, r.fitted.Variation),
			fmt.Sprintf("%.2f / %.2f / %.2f", r.blind.Rank, r.posterior.Rank, r.fitted.Rank),
			fmt.Sprintf("%.2f / %.2f / %.2f / %.2f", r.naive.TopFound, r.blind.TopFound, r.posterior.TopFound, r.fitted.TopFound),
			fmt.Sprintf("%.3f / %.3f", r.posterior.Coverage, r.fitted.Coverage),
		})
	}
	return table
}

func (s *Study) fleetLong(d *Data, zones *aggregate.Zones, score density.Score) []string {
	coverage := ""
	if score.Estimator == "posterior" || score.Estimator == "fitted" {
		coverage = number(score.Coverage)
	}
	low, high := "", ""
	if score.Fleets > 1 {
		low, high = number(score.VariationLow), number(score.VariationHigh)
	}
	return []string{
		d.Name, score.Fleet, number(score.Epsilon), number(s.Options.Delta), fmt.Sprint(fleetSteps), fmt.Sprint(zones.Count()),
		fmt.Sprint(score.Vehicles), fmt.Sprint(score.Fleets), score.Estimator,
		number(score.Variation), low, high, number(score.Rank), number(score.TopFound), coverage,
	}
}
