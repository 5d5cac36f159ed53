package aggregate

import "github.com/geodither/geodither/mechanism/mobility"

// Window is what the vehicles of one window have published, by zones.
type Window struct {
	// StartMS and EndMS are when the window begins and ends, milliseconds since 1970.
	StartMS, EndMS int64
	// Released counts the vehicles with a release in the window, Lost those whose posterior is not known.
	Released, Lost int
	// Flowing counts the vehicles that were in the window before, too.
	Flowing int

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

func (k *Collector) newWindow(index int64) *Window {
	length := k.options.WindowSteps * k.stepMS
	w := newWindow(k.zones.Count())
	w.StartMS, w.EndMS = index*length, (index+1)*length
	return w
}

func newWindow(zones int) *Window {
	return &Window{
		naive: make([]float64, zones), posterior: make([]float64, zones), squares: make([]float64, zones),
		fleet: Fleet{Prior: make([]float64, zones)}, flows: map[pair]*flow{},
	}
}

// add books a vehicle. Its likelihood of a zone is the posterior over what the model alone says there: by Bayes' rule the probability of all its releases
// given that it is there, whatever it did before and by the model, up to a factor. That takes every release in, each under its own
// public law with its own surrogates, and leaves the prior of the present open for the fleet to teach.
func (w *Window) add(zones *Zones, posterior *share, blind *mobility.Distribution, dense []float64) {
	total := 0.0
	for i, c := range blind.Cells {
		dense[zones.Of(c)] += blind.P[i]
		total += blind.P[i]
	}
	vehicle := Likelihood{Zones: make([]int32, 0, len(posterior.zones)), Values: make([]float32, 0, len(posterior.zones))}
	for i, z := range posterior.zones {
		p := posterior.p[i]
		w.posterior[z] += p
		w.squares[z] += float64(p * p)
		if b := dense[z] / total; b > 0 {
			vehicle.Zones = append(vehicle.Zones, z)
			vehicle.Values = append(vehicle.Values, float32(min(p/b, 1e30)))
		}
	}
	for z, b := range dense {
		w.fleet.Prior[z] += b / total
		dense[z] = 0
	}
	w.fleet.Vehicles = append(w.fleet.Vehicles, vehicle)
}
