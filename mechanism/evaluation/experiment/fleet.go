package experiment

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/density"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
)

//go:embed fleet.md
var fleetText string

const (
	// fleetSteps is how many steps in a row a vehicle has released in when it is looked for. It is
	// the same on all data, whatever their steps: what counts for the fleet is how many releases
	// there are of each vehicle.
	fleetSteps = 10
	// mostZones is the number of zones that a map is divided into at the most: the total variation
	// of a fleet grows with their number, and what zones of like number say of different maps can
	// be compared.
	mostZones = 150
	// gatheredSides is within how many sides of a zone around its place a gathered fleet begins.
	gatheredSides = 1.1
	// fullest is how many of the fullest zones are looked for.
	fullest = 10
)

// fleetVariant is how fleets release: by the service's default. What else is drawn beside the
// paper's mechanisms changes nothing here.
var fleetVariant = study.Codebook

// whereFleet is where a whole fleet is, from all its releases.
var whereFleet = study.Experiment{
	Name: "fleet", Title: "Where the fleet is", Text: fleetText,
	Plan: func(s *study.Study) (pieces []study.Piece) {
		for _, d := range s.Data {
			pieces = append(pieces, (&fleet{s, d}).pieces()...)
		}
		return pieces
	},
	Show: showFleet,
}

// fleet measures fleets on one data set.
type fleet struct {
	*study.Study
	data *study.Data
}

// stretch is a part of a user's traces that is taken for a vehicle of its own.
type stretch struct {
	fold  int
	cells []grid.Cell
}

// traces returns the vehicles of the fleet of traces: of all stretches of the users with a trace,
// up to Vehicles of them in a random order, so that the vehicles of a small fleet are not all one
// user's. Check-ins have none: ten of a user lie weeks apart.
func (x *fleet) traces() []stretch {
	d, o := x.data, x.Options
	if d.EveryFix {
		return nil
	}
	var all []stretch
	for i := range d.Traces {
		t := &d.Traces[i]
		for _, cells := range density.Stretches(slices.Values(d.Tracks(t.User)), fleetSteps) {
			all = append(all, stretch{t.Fold, cells})
		}
	}
	// any second word: it names the stream
	random := rand.New(rand.NewPCG(o.Seed, 0x73747265746368))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), o.Vehicles)]
}

// kinds returns the kinds of fleets and how many vehicles each has.
func (x *fleet) kinds() (kinds []string, vehicles map[string]int) {
	kinds = []string{density.Expected, density.Gathered}
	vehicles = map[string]int{
		density.Expected: x.Options.Vehicles, density.Gathered: x.Options.Vehicles,
	}
	if n := len(x.traces()); n >= study.LeastFleet {
		kinds = append(kinds, density.Traces)
		vehicles[density.Traces] = n
	}
	return kinds, vehicles
}

// sizes are powers of ten, and the largest size.
func (x *fleet) sizes() (sizes []int) {
	for n := study.LeastFleet; n < x.Options.Vehicles; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, x.Options.Vehicles)
}

func (x *fleet) name(kind string, epsilon float64) string {
	return fmt.Sprintf("fleet/%s/%s/ε %g", x.data.Name, kind, epsilon)
}

// pieces are one for each kind of fleet at each ε.
func (x *fleet) pieces() (pieces []study.Piece) {
	o := x.Options
	kinds, vehicles := x.kinds()
	inputs := fmt.Sprintf("%s seed %d δ %g vehicles %d", x.data.ID, o.Seed, o.Delta, o.Vehicles)
	for _, kind := range kinds {
		for _, epsilon := range o.FleetEpsilons {
			pieces = append(pieces, study.Piece{
				Name: x.name(kind, epsilon), Inputs: inputs,
				Work: fleetSteps * int64(vehicles[kind]),
				Run:  func(tick study.Tick) (any, error) { return x.measure(kind, epsilon, tick) },
			})
		}
	}
	return pieces
}

// zonesOf returns the zones of a data set's map: the smallest blocks of cells of which it has few
// enough.
func zonesOf(d *study.Data) (zones *aggregate.Zones, block int, err error) {
	for block = 1; ; block++ {
		if zones, err = aggregate.NewZones(d.Grid, block); err != nil ||
			zones.Count() <= mostZones {
			return zones, block, err
		}
	}
}

// measure measures one kind of fleet at one ε. Simulated ones move by the model that has not seen
// the first fold, and release under it; each trace is released under the one that has not seen its
// user.
func (x *fleet) measure(kind string, epsilon float64, tick study.Tick) ([]density.Score, error) {
	d, o := x.data, x.Options
	zones, block, err := zonesOf(d)
	if err != nil {
		return nil, err
	}
	told := int64(0)
	run := density.Options{
		Fleets: []string{kind}, Epsilons: []float64{epsilon},
		Release:  d.Release(fleetVariant, epsilon, o.Delta),
		Vehicles: x.sizes(), Steps: fleetSteps, Block: block, Top: fullest, Seed: o.Seed,
		GatheredKM: float64(gatheredSides * zones.SideKM()),
		Progress: func(done, _ int64) error {
			work := fleetSteps * (done - told)
			told = done
			return tick(work)
		},
	}
	if run.Model, err = d.WithoutFold(0); err != nil {
		return nil, err
	}
	if kind == density.Traces {
		for _, t := range x.traces() {
			unseen, err := d.WithoutFold(t.fold)
			if err != nil {
				return nil, err
			}
			run.Traces, run.Models = append(run.Traces, t.cells), append(run.Models, unseen)
		}
	}
	return density.Run(run)
}

// scores returns what was measured, in order of kinds and ε.
func (x *fleet) scores(p *study.Page) (all []density.Score) {
	kinds, _ := x.kinds()
	for _, kind := range kinds {
		for _, epsilon := range x.Options.FleetEpsilons {
			var scores []density.Score
			p.Fail(p.Results.Get(x.name(kind, epsilon), &scores))
			all = append(all, scores...)
		}
	}
	return all
}

func showFleet(p *study.Page) {
	p.Text("intro", study.Figures{"steps": fleetSteps})
	p.Text("kinds", study.Figures{"steps": fleetSteps})
	all := study.Long("fleet", "data", "fleet", "epsilon", "delta", "steps", "zones", "vehicles",
		"fleets", "estimator", "metric")
	for _, d := range p.Data {
		x := &fleet{p.Study, d}
		scores := x.scores(p)
		zones, _, err := zonesOf(d)
		if p.Fail(err); err != nil {
			return
		}
		for _, score := range scores {
			x.addTo(all, zones, score)
		}
		x.show(p, scores, zones, all.Where("data", d.Name))
	}
	p.Add(all)
}

// addTo adds every number of a score. A single fleet has no band, and estimators without intervals
// have no coverage. Nor have fleets without a zone that can be judged.
func (x *fleet) addTo(t *report.Table, zones *aggregate.Zones, score density.Score) {
	add := func(metric string, value report.Band) {
		t.Add(x.data.Name, score.Fleet, score.Epsilon, x.Options.Delta, fleetSteps, zones.Count(),
			score.Vehicles, score.Fleets, score.Estimator, metric, value)
	}
	variation := report.Exact(score.Variation)
	if score.Fleets > 1 {
		variation.Low, variation.High = score.VariationLow, score.VariationHigh
	}
	add(variationMetric, variation)
	add(rankMetric, report.Exact(score.Rank))
	add(topMetric, report.Exact(score.TopFound))
	if score.Judged > 0 {
		add(coverageMetric, report.Exact(score.Coverage))
	}
}

func (x *fleet) show(
	p *study.Page, scores []density.Score, zones *aggregate.Zones, t *report.Table,
) {
	d, name, rows := x.data, "fleet-"+x.data.Name, fleetRows(scores)
	p.Text("data", x.figures(zones))
	p.Text("findings", findings(d, rows))
	for _, m := range fleetMeasures {
		of := t.Where("metric", m.metric)
		estimates := len(of.Values("estimator"))
		if estimates == 0 { // small fleets have no zone whose coverage can be judged
			continue
		}
		p.Figure(name+"-"+m.file, p.Say("figure.caption", study.Figures{
			"data": d.Title, "axis": m.axis, "estimates": estimates,
		}), x.figure(p, m, of))
	}
	p.Table(name+"-use", p.Say("use.caption", study.Figures{
		"data": d.Title, "confidence": 100 * study.Level, "leastFleets": leastFleets,
	}), useTable(rows))
	p.Table(name, p.Say("table.caption", study.Figures{"data": d.Title, "fullest": fullest}),
		t.Pivot([]string{"fleet", "epsilon", "vehicles", "fleets", "metric"}, "estimator",
			map[string]string{"epsilon": "ε"}))
}

// figures say what a data set's fleets are.
func (x *fleet) figures(zones *aggregate.Zones) study.Figures {
	d := x.data
	return study.Figures{
		"data": d.Title, "columns": zones.Columns(), "rows": zones.Rows(), "side": zones.SideKM(),
		"mostZones": mostZones, "folds": d.Folds, "radius": gatheredSides * zones.SideKM(),
		"everyFix": d.EveryFix, "step": d.Step, "steps": fleetSteps, "time": fleetSteps * d.Step,
		"traces": len(x.traces()), "least": study.LeastFleet, "users": len(d.Traces),
	}
}

// The metrics of an estimate of where a fleet is.
const (
	variationMetric = "variation"
	topMetric       = "fullest found"
	rankMetric      = "rank correlation"
	coverageMetric  = "coverage"
)

// fleetMeasure is how a metric is drawn. Its note is the paragraph note.METRIC.
type fleetMeasure struct {
	metric, file, axis string
	stated             float64 // what it should be, drawn as a reference; 0: nothing is drawn
}

var fleetMeasures = []fleetMeasure{
	{metric: variationMetric, file: "variation", axis: "total variation distance"},
	{metric: topMetric, file: "top", axis: "share of the fullest zones found"},
	{metric: rankMetric, file: "rank", axis: "rank correlation"},
	{
		metric: coverageMetric, file: "coverage", axis: "coverage of 90 % intervals",
		stated: aggregate.DefaultLevel,
	},
}

// figure draws a metric of each estimator against the number of vehicles: a row of panels for each
// kind of fleet, a column for each ε.
func (x *fleet) figure(p *study.Page, m fleetMeasure, t *report.Table) *chart.Figure {
	f := &chart.Figure{
		Title: fmt.Sprintf("%s: where the fleet is, from its releases: %s",
			x.data.Title, m.axis),
		Note:    p.Say("note."+m.metric, nil),
		Columns: len(x.Options.FleetEpsilons), PanelWidth: 3.5, PanelHeight: 2.5,
	}
	// The same in all panels. No metric is above 1, and of them only correlations are below 0.
	size, value := chart.Axis{Label: "vehicles", Log: true}, chart.Axis{Label: m.axis, Max: 1}
	for _, line := range t.Lines("metric", []string{"vehicles"}, nil) {
		size.Min, size.Max = slices.Min(line.X), slices.Max(line.X)
		value.Min = min(0, math.Floor(5*slices.Min(line.Y))/5)
	}
	for _, kind := range t.Values("fleet") {
		for _, epsilon := range x.Options.FleetEpsilons {
			lines := t.Where("fleet", kind).Where("epsilon", epsilon).
				Lines("estimator", []string{"vehicles"}, nil)
			for i := range lines {
				lines[i].Look = 1 + slices.Index(density.Estimators(), lines[i].Name)
				lines[i].Reference = lines[i].Name == study.Blind
			}
			if m.stated > 0 {
				lines = append(lines, chart.Series{
					Name: "stated", Reference: true, X: []float64{size.Min, size.Max},
					Y: []float64{m.stated, m.stated},
				})
			}
			f.Panels = append(f.Panels, &chart.Lines{
				Title: fmt.Sprintf("%s, ε = %g", kind, epsilon), X: size, Y: value, Series: lines,
			})
		}
	}
	return f
}
