package experiment

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

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
	// leastFleets is of how many fleets a size takes to have an interval: fewer differ too much
	// from each other by chance.
	leastFleets = 5
)

// whereFleet is where a whole fleet is, from all its releases under the service's default
// mechanism.
var whereFleet = Experiment{
	Name: "fleet", Title: "Where the fleet is",
	Plan: func(s *Study) (pieces []Piece) {
		for _, d := range s.Data {
			pieces = append(pieces, (&fleet{s, d}).pieces()...)
		}
		return pieces
	},
	Show: func(p *Page) {
		all := long("fleet", "data", "fleet", "epsilon", "delta", "steps", "zones", "vehicles",
			"fleets", "estimator", "metric")
		for _, d := range p.Data {
			(&fleet{p.Study, d}).show(p, all)
		}
		p.Add(all)
	},
}

// fleet measures fleets on one data set.
type fleet struct {
	*Study
	data *Data
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
		for _, track := range d.tracks[t.User] {
			all = append(all, stretches(track, t.Fold)...)
		}
	}
	// any second word: it names the stream
	random := rand.New(rand.NewPCG(o.Seed, 0x73747265746368))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), o.Vehicles)]
}

// stretches cuts a track into stretches of successive steps.
func stretches(t mobility.Track, fold int) (list []stretch) {
	from := 0
	for i := range t.Cells {
		if i > from && t.Steps[i] != t.Steps[i-1]+1 {
			from = i
		}
		if i-from+1 == fleetSteps {
			list = append(list, stretch{fold, t.Cells[from : i+1]})
			from = i + 1
		}
	}
	return list
}

// kinds returns the kinds of fleets and how many vehicles each has.
func (x *fleet) kinds() (kinds []string, vehicles map[string]int) {
	kinds = []string{Expected, Gathered}
	vehicles = map[string]int{Expected: x.Options.Vehicles, Gathered: x.Options.Vehicles}
	if n := len(x.traces()); n >= leastFleet {
		kinds = append(kinds, OfTraces)
		vehicles[OfTraces] = n
	}
	return kinds, vehicles
}

// sizes are powers of ten, and the largest size.
func (x *fleet) sizes() (sizes []int) {
	for n := leastFleet; n < x.Options.Vehicles; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, x.Options.Vehicles)
}

func (x *fleet) name(kind string, epsilon float64) string {
	return fmt.Sprintf("fleet/%s/%s/ε %g", x.data.Name, kind, epsilon)
}

// pieces are one for each kind of fleet at each ε.
func (x *fleet) pieces() (pieces []Piece) {
	o := x.Options
	kinds, vehicles := x.kinds()
	inputs := fmt.Sprintf("%s seed %d vehicles %d", x.data.ID, o.Seed, o.Vehicles)
	for _, kind := range kinds {
		for _, epsilon := range o.FleetEpsilons {
			pieces = append(pieces, Piece{
				Name: x.name(kind, epsilon), Inputs: inputs,
				Work: fleetSteps * int64(vehicles[kind]),
				Run:  func(tick Tick) (any, error) { return x.measure(kind, epsilon, tick) },
			})
		}
	}
	return pieces
}

// zonesOf returns the zones of a map: the smallest blocks of cells of which it has few enough.
func zonesOf(g *grid.Grid) (zones *aggregate.Zones, block int, err error) {
	for block = 1; ; block++ {
		if zones, err = aggregate.NewZones(g, block); err != nil || zones.Count() <= mostZones {
			return zones, block, err
		}
	}
}

// measure measures one kind of fleet at one ε. Simulated ones move by the model that has not seen
// the first fold, and release under it; each trace is released under the one that has not seen its
// user.
func (x *fleet) measure(kind string, epsilon float64, tick Tick) ([]FleetScore, error) {
	d, o := x.data, x.Options
	zones, block, err := zonesOf(d.Grid)
	if err != nil {
		return nil, err
	}
	told := int64(0)
	run := Fleets{
		Kind: kind, Release: d.Release(Codebook, epsilon, Fixed.Delta), Vehicles: x.sizes(),
		Steps: fleetSteps, Block: block, Seed: o.Seed,
		GatheredKM: float64(gatheredSides * zones.SideKM()),
		Progress: func(done int64) error {
			work := fleetSteps * (done - told)
			told = done
			return tick(work)
		},
	}
	if run.Model, err = d.WithoutFold(0); err != nil {
		return nil, err
	}
	if kind == OfTraces {
		for _, t := range x.traces() {
			unseen, err := d.WithoutFold(t.fold)
			if err != nil {
				return nil, err
			}
			run.Traces = append(run.Traces, Path{t.cells, unseen})
		}
	}
	return run.Measure()
}

// scores returns what was measured, in order of kinds and ε.
func (x *fleet) scores(p *Page) (all []FleetScore) {
	kinds, _ := x.kinds()
	for _, kind := range kinds {
		for _, epsilon := range x.Options.FleetEpsilons {
			var scores []FleetScore
			p.Fail(p.Results.Get(x.name(kind, epsilon), &scores))
			all = append(all, scores...)
		}
	}
	return all
}

// show adds every number of a data set to a table, and shows what the fit gains.
func (x *fleet) show(p *Page, all *report.Table) {
	d, name := x.data, "fleet-"+x.data.Name
	zones, _, err := zonesOf(d.Grid)
	if p.Fail(err); err != nil {
		return
	}
	gains := &report.Table{Columns: []string{"fleet", "ε", "vehicles", "fleets", "gain"}}
	scores := x.scores(p)
	for i := range scores {
		score := &scores[i]
		score.addTo(all, d.Name, zones.Count())
		if score.Estimator == "fitted" {
			gains.Add(score.Fleet, score.Epsilon, score.Vehicles, score.Fleets,
				score.gain(&scores[i-2])) // beside blind
		}
	}
	t := all.Where("data", d.Name)
	p.Figure(name, x.figure(t.Where("metric", "variation")))
	p.Table(name+"-gain", d.Title+": the part of M's error that the fit takes away.", gains)
	p.Table(name, d.Title+": means over the fleets of a size.",
		t.Pivot([]string{"fleet", "epsilon", "vehicles", "fleets", "metric"}, "estimator",
			map[string]string{"epsilon": "ε"}))
}

// addTo adds every number of a score. A single fleet has no band, and estimators without intervals
// have no coverage. Nor have fleets without a zone that can be judged.
func (s *FleetScore) addTo(t *report.Table, data string, zones int) {
	add := func(metric string, value report.Band) {
		t.Add(data, s.Fleet, s.Epsilon, Fixed.Delta, fleetSteps, zones, s.Vehicles, s.Fleets,
			s.Estimator, metric, value)
	}
	variation := report.Exact(s.Variation)
	if s.Fleets > 1 {
		variation.Low, variation.High = s.VariationLow, s.VariationHigh
	}
	add("variation", variation)
	add("rank correlation", report.Exact(s.Rank))
	add("fullest found", report.Exact(s.TopFound))
	if s.Judged > 0 {
		add("coverage", report.Exact(s.Coverage))
	}
}

// gain is which part of the model's own error a fit to the releases takes away, below 0 what it
// adds to it: over all fleets of the size, with an interval that takes fleets for independent where
// there are enough of them.
func (s *FleetScore) gain(alone *FleetScore) report.Band {
	if alone.Variation == 0 {
		return report.Exact(0)
	}
	of := report.Exact(1 - s.Variation/alone.Variation)
	if by := alone.Variations; len(by) >= leastFleets {
		over := make([]float64, len(by))
		for i := range by {
			over[i] = by[i] - s.Variations[i]
		}
		interval := Signed(over, by, Level)
		of.Low, of.High = interval.Low, interval.High
	}
	return of
}

// figure draws the variation of each estimator against the number of vehicles: a row of panels for
// each kind of fleet, a column for each ε.
func (x *fleet) figure(t *report.Table) *report.Figure {
	f := &report.Figure{
		Title: x.data.Title + ": where the fleet is, from its releases",
		Note: "Total variation distance from where the vehicles are: the share of the fleet that " +
			"would have to be elsewhere. Bands, or bars of a single size, hold 80 % or more of " +
			"the fleets of a size; a single fleet has none. What lies below blind is what the " +
			"releases tell.",
		Columns: len(x.Options.FleetEpsilons), PanelWidth: 3.5, PanelHeight: 2.5,
	}
	for _, kind := range t.Values("fleet") {
		for _, epsilon := range x.Options.FleetEpsilons {
			lines := t.Where("fleet", kind).Where("epsilon", epsilon).
				Lines("estimator", []string{"vehicles"}, nil)
			for i := range lines {
				lines[i].Look = 1 + slices.Index(estimators, lines[i].Name)
				lines[i].Reference = lines[i].Name == blind
			}
			f.Panels = append(f.Panels, &report.Lines{
				Title: fmt.Sprintf("%s, ε = %g", kind, epsilon),
				X:     report.Axis{Label: "vehicles", Log: true},
				Y:     report.Axis{Label: "total variation distance", Zero: true}, Series: lines,
			})
		}
	}
	return f
}
