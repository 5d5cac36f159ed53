package report

import (
	"math"
	"strconv"
	"strings"
)

// Axis is one axis of a panel.
type Axis struct {
	// Label says what is measured, with its unit: "distance, km".
	Label string
	// Log makes the axis logarithmic. Values of 0 or less are then drawn at its lower end, which is
	// labelled 0 and lies below all other values, with a gap.
	Log bool
	// At are the values that have a label on a logarithmic axis, such as the measured ones. Without
	// any, as many round values as there is room for have one.
	At []float64
	// Zero makes a linear axis begin at 0 if no value is below 0.
	Zero bool
	// Min and Max are the ends of the axis; both 0 means the ends of the values.
	Min, Max float64
}

// axis is an Axis with its ends, which are decimal logarithms on a logarithmic one.
type axis struct {
	Axis
	low, high float64
	zeros     bool    // some values are 0 or less, on a logarithmic axis
	floor     float64 // the end of the gap above 0
}

const (
	// bandReach bounds how far a band may extend a logarithmic axis below all values, so that the
	// band does not squeeze them.
	bandReach = 10
	// air is the part of an axis beyond its values, and zeroGap that between 0 and the least value
	// above it.
	air, zeroGap = .03, .1
)

// newAxis returns an axis for some values and the lower ends of their bands, with some air beyond
// them.
func newAxis(a Axis, values, lows []float64, air float64) *axis {
	s := &axis{Axis: a, low: math.Inf(1), high: math.Inf(-1)}
	s.add(values, math.Inf(-1))
	least := math.Inf(-1)
	if a.Log && s.low < s.high {
		least = s.low / bandReach
	}
	s.add(lows, least)
	set := a.Min != 0 || a.Max != 0
	switch {
	case set:
		s.low, s.high = a.Min, a.Max
	case s.low > s.high: // no value, or only zeros, which have no logarithm
		s.low, s.high, s.Log, s.Zero = 0, 1, false, true
	}
	if s.Log {
		s.logarithmic()
	} else {
		s.linear()
	}
	if free := air * (s.high - s.low); !set {
		s.high += free
		if s.Log && !s.zeros || !s.Log && s.low != 0 {
			s.low -= free
		}
	}
	return s
}

func (s *axis) add(values []float64, least float64) {
	for _, v := range values {
		switch {
		case !finite(v):
		case s.Log && v <= 0:
			s.zeros = true
		default:
			s.low, s.high = min(s.low, max(v, least)), max(s.high, v)
		}
	}
}

func (s *axis) logarithmic() {
	if s.low == s.high {
		s.low, s.high = s.low/2, s.high*2
	}
	s.low, s.high = math.Log10(s.low), math.Log10(s.high)
	s.floor = s.low
	if s.zeros = s.zeros && s.Min == 0; s.zeros {
		s.low -= (s.high - s.low) * zeroGap / (1 - zeroGap)
	}
}

func (s *axis) linear() {
	if s.Zero {
		s.low = min(s.low, 0)
	}
	switch {
	case s.low == s.high && s.Zero && s.low == 0:
		s.high = 1 // only zeros: an axis that goes below 0 would suggest negative values
	case s.low == s.high:
		s.low, s.high = s.low-.5, s.high+.5
	}
}

// share returns where a value is on the axis, from 0 to 1.
func (s *axis) share(v float64) float64 {
	if s.Log {
		if !(v > 0) {
			return 0
		}
		v = math.Log10(v)
		if s.zeros {
			v = max(v, s.low)
		}
	}
	return (v - s.low) / (s.high - s.low)
}

// tick is a label at its share of an axis.
type tick struct {
	share float64
	label string
}

// ticks are the labels of an axis.
func (s *axis) ticks() (ticks []tick) {
	values := s.At
	switch {
	case !s.Log:
		values = rounds(s.low, s.high)
	case len(values) == 0:
		values = s.digits()
	}
	if s.Log && s.zeros {
		ticks = append(ticks, tick{0, "0"})
	}
	for _, v := range values {
		if share := s.share(v); share > -1e-9 && share < 1+1e-9 {
			ticks = append(ticks, tick{share, number(v)})
		}
	}
	return ticks
}

// apart are the ticks on an axis of a length whose labels, each of some size, do not touch the one
// before.
func (s *axis) apart(length float64, size func(label string) float64) (ticks []tick) {
	free := -length
	for _, t := range s.ticks() {
		if at, half := t.share*length, size(t.label)/2; at-half >= free {
			ticks, free = append(ticks, t), at+half
		}
	}
	return ticks
}

// upright is the room that a label takes on a vertical axis.
func upright(string) float64 { return tickSize }

// digits are the labelled values of a logarithmic axis: powers of ten, and where there are few of
// them some digits between.
func (s *axis) digits() (values []float64) {
	from, decades := max(s.low, s.floor), s.high-max(s.low, s.floor)
	digits := "1"
	switch {
	case decades < .7:
		return rounds(math.Pow(10, from), math.Pow(10, s.high))
	case decades < 1.1:
		digits = "123457"
	case decades <= 2.2:
		digits = "125"
	case decades <= 3.5:
		digits = "13"
	}
	skip := max(1, int(math.Ceil(decades/6)))
	for power := math.Floor(from); power <= s.high; power++ {
		for digit := 1.; digit <= 9; digit++ {
			v := digit * math.Pow(10, power)
			if int(power)%skip == 0 && strings.Contains(digits, number(digit)) &&
				v > math.Pow(10, from)*(1-1e-9) {
				values = append(values, v)
			}
		}
	}
	return values
}

// wantedLabels is roughly the number of labels on an axis.
const wantedLabels = 5

// rounds returns multiples of 1, 2 or 5 times a power of ten.
func rounds(low, high float64) (values []float64) {
	rough := (high - low) / wantedLabels
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{2, 2.5, 2} { // 2, 5 and 10
		if rough >= 1.5*step {
			step *= factor
		}
	}
	for i := math.Ceil(low/step - 1e-9); i*step <= high+1e-9*step; i++ {
		values = append(values, i*step+0) // no -0
	}
	return values
}

// number writes a tick's value in few digits.
func number(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e6) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	// Ticks are multiples of short numbers: twelve digits drop what the multiplication left.
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	return strconv.FormatFloat(short, 'f', -1, 64)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
