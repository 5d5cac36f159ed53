package experiment

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/density"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

const (
	// leastFleet is the smallest fleet that is looked at. The largest one may have mostVehicles, of some kilobytes each.
	leastFleet   = 10
	mostVehicles = 100_000
	// fleetSteps is how many steps in a row a vehicle has released in when it is looked for. It is the same on all data, whatever their steps: what
	// counts for the fleet is how many releases there are of each vehicle.
	fleetSteps = 10
	// mostZones is the number of zones that a map is divided into at the most: the total variation of a fleet grows with their number, and what
	// zones of like number say of different maps can be compared.
	mostZones = 150
	// gatheredSides is within how many sides of a zone around its place a gathered fleet begins.
	gatheredSides = 1.1
	// fullest is how many of the fullest zones are looked for.
	fullest = 10
)

// fleetVariant is how fleets release: as the service does whose records an analyst reads. What else is drawn beside the paper's mechanisms changes nothing here.
var fleetVariant = Variant{law.Lattice, mechanism.InferenceSurrogate}

// stretch is a part of a user's traces that is taken for a vehicle of its own.
type stretch struct {
	fold  int
	cells []grid.Cell
}

// fleetTraces returns the vehicles of the fleet of traces: of all stretches of the users with a trace, up to Vehicles of them in a random order, so that
// the vehicles of a small fleet are not all one user's. Check-ins have none: ten of a user lie weeks apart.
func (d *Data) fleetTraces(o Options) []stretch {
	if d.EveryFix {
		return nil
	}
	var all []stretch
	for i := range d.Traces {
		t := &d.Traces[i]
		for _, cells := range density.Stretches(slices.Values(d.tracks[t.User]), fleetSteps) {
			all = append(all, stretch{t.Fold, cells})
		}
	}
	random := rand.New(rand.NewPCG(o.Seed, 0x73747265746368))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), o.Vehicles)]
}

// fleetsOf returns the kinds of fleets of a data set and how many vehicles each has.
func (s *Study) fleetsOf(d *Data) (kinds []string, vehicles map[string]int) {
	kinds = []string{density.Expected, density.Gathered}
	vehicles = map[string]int{density.Expected: s.Options.Vehicles, density.Gathered: s.Options.Vehicles}
	if n := len(d.fleetTraces(s.Options)); n >= leastFleet {
		kinds = append(kinds, density.Traces)
		vehicles[density.Traces] = n
	}
	return kinds, vehicles
}

// fleetSizes are powers of ten, and the largest size.
func (o Options) fleetSizes() (sizes []int) {
	for n := leastFleet; n < o.Vehicles; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, o.Vehicles)
}

func fleetPiece(d *Data, kind string, epsilon float64) string {
	return fmt.Sprintf("fleet/%s/%s/ε %g", d.Name, kind, epsilon)
}

// planFleet plans a piece for each kind of fleet at each ε.
func planFleet(s *Study) (pieces []Piece, err error) {
	o := s.Options
	for _, d := range s.Data {
		kinds, vehicles := s.fleetsOf(d)
		for _, kind := range kinds {
			for _, epsilon := range o.FleetEpsilons {
				pieces = append(pieces, Piece{
					Name: fleetPiece(d, kind, epsilon), Inputs: fmt.Sprintf("%s seed %d δ %g vehicles %d", d.ID, o.Seed, o.Delta, o.Vehicles),
					Work: fleetSteps * int64(vehicles[kind]),
					Run:  func(tick Tick) (any, error) { return d.scoreFleet(kind, epsilon, o, tick) },
				})
			}
		}
	}
	return pieces, nil
}

// fleetZones returns the zones of a data set's map: the smallest blocks of cells of which it has few enough.
func (d *Data) fleetZones() (zones *aggregate.Zones, block int, err error) {
	for block = 1; ; block++ {
		if zones, err = aggregate.NewZones(d.Grid, block); err != nil || zones.Count() <= mostZones {
			return zones, block, err
		}
	}
}

// scoreFleet measures one kind of fleet at one ε. Simulated ones move by the model that has not seen the first fold, and release under it; each trace is
// released under the one that has not seen its user.
func (d *Data) scoreFleet(kind string, epsilon float64, o Options, tick Tick) ([]density.Score, error) {
	zones, block, err := d.fleetZones()
	if err != nil {
		return nil, err
	}
	told := int64(0)
	x := density.Options{
		Fleets: []string{kind}, Release: d.Release(fleetVariant, epsilon, o.Delta), Epsilons: []float64{epsilon},
		Vehicles: o.fleetSizes(), Steps: fleetSteps, Block: block, GatheredKM: float64(gatheredSides * zones.SideKM()), Top: fullest, Seed: o.Seed,
		Progress: func(done, _ int64) error {
			work := fleetSteps * (done - told)
			told = done
			return tick(work)
		},
	}
	if x.Model, err = d.WithoutFold(0); err != nil {
		return nil, err
	}
	if kind == density.Traces {
		for _, t := range d.fleetTraces(o) {
			var unseen *mobility.Model
			if unseen, err = d.WithoutFold(t.fold); err != nil {
				return nil, err
			}
			x.Traces, x.Models = append(x.Traces, t.cells), append(x.Models, unseen)
		}
	}
	return density.Run(x)
}

// fleetScores returns what was measured of a data set, in order of kinds and ε.
func (s *Study) fleetScores(d *Data, r *Results) (all []density.Score, err error) {
	kinds, _ := s.fleetsOf(d)
	for _, kind := range kinds {
		for _, epsilon := range s.Options.FleetEpsilons {
			var scores []density.Score
			if err := r.Get(fleetPiece(d, kind, epsilon), &scores); err != nil {
				return nil, err
			}
			all = append(all, scores...)
		}
	}
	return all, nil
}
