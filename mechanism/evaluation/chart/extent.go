package chart

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// extent is the range of values that are drawn.
type extent struct {
	log      bool
	min, max float64
	any      bool
	zeros    bool // on a logarithmic axis: values that have no place there
}

// low remembers that some of the values have no place on a logarithmic axis.
func (e *extent) low(values []float64) {
	for _, v := range values {
		e.zeros = e.zeros || e.log && v <= 0
	}
}

// bandReach is how far below all values a band may extend a logarithmic axis: the rest of it would
// squeeze them.
const bandReach = 10

// band adds the lower ends of the bands, after all values.
func (e *extent) band(bands [][]float64) {
	floor := math.Inf(-1)
	if e.log && e.any {
		floor = e.min / bandReach
	}
	for _, values := range bands {
		e.low(values)
		for _, v := range values {
			if v > 0 || !e.log && !math.IsNaN(v) {
				e.add([]float64{max(v, floor)})
			}
		}
	}
}

// join widens the extent to another one.
func (e *extent) join(other extent) {
	e.log, e.zeros = e.log || other.log, e.zeros || other.zeros
	if other.any {
		e.add([]float64{other.min, other.max})
	}
}

func (e *extent) add(values []float64) {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || e.log && v <= 0 {
			continue
		}
		if !e.any {
			e.min, e.max, e.any = v, v, true
		}
		e.min, e.max = min(e.min, v), max(e.max, v)
	}
}

// room is the part of an axis that is left free beyond its values.
const room = .03

// air keeps lines off the ends of an axis that nobody has set.
func (e *extent) air(axis *plot.Axis, a Axis) {
	if a.Min != 0 || a.Max != 0 {
		return
	}
	free := room * (axis.Max - axis.Min)
	axis.Max += free
	if ticks, log := axis.Tick.Marker.(logTicks); log && !ticks.zero || !log && axis.Min != 0 {
		axis.Min -= free
	}
}

// zeroGap is the part of a logarithmic axis between 0 and the least value above it.
const zeroGap = .1

// apply gives an axis its label, its ends and its scale.
func (e *extent) apply(axis *plot.Axis, a Axis) {
	axis.Label.Text = a.Label
	low, high := e.min, e.max
	switch {
	case !e.any && e.zeros:
		low, high = 0, 1 // nothing but zeros: no logarithm has a place for them
	case !e.any:
		low, high = 1, 10
	}
	if a.Min != 0 || a.Max != 0 {
		low, high = a.Min, a.Max
	}
	if a.Log && low > 0 {
		if low == high {
			low, high = low/2, high*2
		}
		// The plot's own axis is linear in the decimal logarithm: its logarithmic scale misplaces
		// the label.
		low, high = math.Log10(low), math.Log10(high)
		ticks := logTicks{zero: e.zeros && a.Min == 0, floor: low, at: a.At}
		if ticks.zero {
			low -= (high - low) * zeroGap / (1 - zeroGap)
		}
		axis.Tick.Marker = ticks
	} else {
		if a.Zero {
			low = min(low, 0)
		}
		switch {
		case low == high && a.Zero && low == 0:
			high = 1 // nothing but zeros: an axis below them would ask what is negative
		case low == high:
			low, high = low-.5, high+.5
		}
		axis.Tick.Marker = linearTicks{}
	}
	axis.Min, axis.Max = low, high
}

// held returns the place of a value on an axis; a logarithmic one holds what it has no place for at
// its lower end.
func held(a plot.Axis, to func(float64) vg.Length) func(float64) vg.Length {
	if _, log := a.Tick.Marker.(logTicks); !log {
		return to
	}
	return func(v float64) vg.Length {
		if !(v > 0) {
			return to(a.Min)
		}
		return to(max(math.Log10(v), a.Min))
	}
}
