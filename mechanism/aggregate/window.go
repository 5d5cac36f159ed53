package aggregate

import "github.com/geodither/geodither/mechanism/mobility"

// Window is what the vehicles of one window have published, by zones.
type Window struct {
	// StartMS and EndMS are when the window starts and ends, milliseconds since 1970.
	StartMS, EndMS int64
	// Released counts the vehicles with a release in the window, Lost those whose posterior is not
	// known.
	Released, Lost int
	// Flowing counts the vehicles that were in the window before, too.
	Flowing int

	zones     *Zones
	fleet     Fleet
	naive     []float64 // vehicles by their last release
	posterior []float64 // sum of posteriors
	squares   []float64 // of their squares
	flows     map[pair]*flow
}

// Vehicles returns the number of vehicles whose posterior is known.
func (w *Window) Vehicles() int { return len(w.fleet.Vehicles) }

// Fleet returns the vehicles' likelihoods under the mean of their priors. It belongs to the window.
func (w *Window) Fleet() *Fleet {
	f := w.fleet
	f.Prior = make([]float64, len(w.naive))
	if n := float64(w.Vehicles()); n > 0 {
		for z, sum := range w.fleet.Prior {
			f.Prior[z] = sum / n
		}
	}
	return &f
}

// NewWindow returns a window without vehicles.
func NewWindow(zones *Zones) *Window {
	n := zones.Count()
	return &Window{
		zones: zones,
		naive: make([]float64, n), posterior: make([]float64, n), squares: make([]float64, n),
		fleet: Fleet{Prior: make([]float64, n)}, flows: map[pair]*flow{},
	}
}

// AddRelease counts a vehicle's last release of the window, by its zone.
func (w *Window) AddRelease(zone int32) {
	w.naive[zone]++
	w.Released++
}

// AddVehicle counts a vehicle whose posterior is known. blind is where the model alone has it at
// the same step, and scratch is as for Zones.Gather.
//
// The vehicle's likelihood of a zone is the posterior over what the model alone says there: by
// Bayes' rule the probability of all its releases, given that it is there, whatever it did before
// and by the model, up to a factor. That takes every release in, each under its own public law with
// its own surrogates, and leaves the prior of the present open for the fleet to teach.
func (w *Window) AddVehicle(posterior *ByZone, blind *mobility.Distribution, scratch []float64) {
	total := 0.0
	for i, c := range blind.Cells {
		scratch[w.zones.Of(c)] += blind.P[i]
		total += blind.P[i]
	}
	n := len(posterior.Zones)
	vehicle := Likelihood{Zones: make([]int32, 0, n), Values: make([]float32, 0, n)}
	for i, z := range posterior.Zones {
		p := posterior.P[i]
		w.posterior[z] += p
		w.squares[z] += float64(p * p)
		if b := scratch[z] / total; b > 0 {
			vehicle.Zones = append(vehicle.Zones, z)
			vehicle.Values = append(vehicle.Values, float32(min(p/b, 1e30)))
		}
	}
	for z, b := range scratch {
		w.fleet.Prior[z] += b / total
		scratch[z] = 0
	}
	w.fleet.Vehicles = append(w.fleet.Vehicles, vehicle)
}
