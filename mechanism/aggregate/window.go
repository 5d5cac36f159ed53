package aggregate

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/geodither/geodither/mechanism/mobility"
)

// Window is what the vehicles of one window have published, by zones. The order in which they are
// added does not matter, to the last bit.
type Window struct {
	// StartMS and EndMS are when the window starts and ends, milliseconds since 1970.
	StartMS, EndMS int64
	// Released counts the vehicles with a release in the window, Lost those whose posterior is not
	// known.
	Released, Lost int

	mu        sync.Mutex // users are added side by side
	zones     *Zones
	vehicles  []vehicle
	prior     []sum     // of where the model alone has the vehicles
	naive     []float64 // vehicles by their last release
	posterior []sum     // of posteriors
	squares   []sum     // of their squares
}

// vehicle is a vehicle's likelihood, with its user's name.
type vehicle struct {
	user string
	Likelihood
}

// Vehicles returns the number of vehicles whose posterior is known.
func (w *Window) Vehicles() int { return len(w.vehicles) }

// Fleet returns the different likelihoods of the vehicles, in the order of their users' names,
// under the mean of their priors. They belong to the window.
func (w *Window) Fleet() *Fleet {
	slices.SortStableFunc(w.vehicles, func(a, b vehicle) int { return cmp.Compare(a.user, b.user) })
	f := &Fleet{Prior: valuesOf(w.prior), Vehicles: make([]Likelihood, len(w.vehicles))}
	for v := range w.vehicles {
		f.Vehicles[v] = w.vehicles[v].Likelihood
	}
	f.group()
	if n := float64(w.Vehicles()); n > 0 {
		for z := range f.Prior {
			f.Prior[z] /= n
		}
	}
	return f
}

// group makes vehicles with the same likelihood one, in the order of their first ones. A fit then
// costs as much as there are different ones.
func (f *Fleet) group() {
	all := f.Vehicles
	f.Vehicles, f.Counts = nil, nil
	known := map[uint64][]int{} // by hash; different likelihoods may share one
	for _, l := range all {
		h, at := l.hash(), -1
		for _, i := range known[h] {
			if f.Vehicles[i].equal(&l) {
				at = i
			}
		}
		if at < 0 {
			at = len(f.Vehicles)
			known[h] = append(known[h], at)
			f.Vehicles, f.Counts = append(f.Vehicles, l), append(f.Counts, 0)
		}
		f.Counts[at]++
	}
}

// hash returns a number that equal likelihoods share: FNV-1a over zones and values.
func (l *Likelihood) hash() uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i, z := range l.Zones {
		h = (h ^ uint64(z)) * prime
		h = (h ^ uint64(math.Float32bits(l.Values[i]))) * prime
	}
	return h
}

func (l *Likelihood) equal(other *Likelihood) bool {
	return slices.Equal(l.Zones, other.Zones) && slices.Equal(l.Values, other.Values)
}

// NewWindow returns a window without vehicles.
func NewWindow(zones *Zones) *Window {
	w := &Window{}
	w.divide(zones)
	return w
}

// divide gives the zones to a window that has none.
func (w *Window) divide(zones *Zones) {
	n := zones.Count()
	w.zones, w.naive = zones, make([]float64, n)
	w.prior, w.posterior, w.squares = make([]sum, n), make([]sum, n), make([]sum, n)
}

// AddRelease counts a vehicle's last release of the window, by its zone.
func (w *Window) AddRelease(zone int32) {
	w.naive[zone]++
	w.Released++
}

// AddVehicle counts a user's vehicle whose posterior is known. blind is where the model alone has
// it at the same step, and scratch is as for Zones.Gather.
//
// The vehicle's likelihood of a zone is the posterior over what the model alone says there: by
// Bayes' rule the probability of all its releases, given that it is there, whatever it did before
// and by the model, up to a factor. That takes every release in, each under its own public law with
// its own surrogates, and leaves the prior of the present open for the fleet to teach. So neither
// may be rounded by chance: the posterior is not the one that the service keeps (exactFilter).
func (w *Window) AddVehicle(
	user string, posterior *ByZone, blind *mobility.Distribution, scratch []float64,
) {
	total := 0.0
	for i, c := range blind.Cells {
		scratch[w.zones.Of(c)] += blind.P[i]
		total += blind.P[i]
	}
	n := len(posterior.Zones)
	likelihood := Likelihood{Zones: make([]int32, 0, n), Values: make([]float32, 0, n)}
	for i, z := range posterior.Zones {
		p := posterior.P[i]
		w.posterior[z].add(p)
		w.squares[z].add(float64(p * p))
		if b := scratch[z] / total; b > 0 {
			likelihood.Zones = append(likelihood.Zones, z)
			likelihood.Values = append(likelihood.Values, float32(min(p/b, 1e30)))
		}
	}
	for z, b := range scratch {
		w.prior[z].add(b / total)
		scratch[z] = 0
	}
	w.vehicles = append(w.vehicles, vehicle{user, likelihood})
}
