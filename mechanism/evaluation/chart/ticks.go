package chart

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"

	"github.com/geodither/geodither/mechanism/grid"
)

// logTicks is for an axis of decimal logarithms. It labels powers of ten and, on an axis with
// few of them, some digits between, so that there are several labels.
type logTicks struct {
	// zero puts the label 0 on the axis's lower end. There is no mark in the gap between it and
	// floor, the logarithm of the least value.
	zero  bool
	floor float64
	// at, if not empty, are the only values that are labelled and marked.
	at []float64
}

// fewDigits is the number of powers of ten below which an axis may have fewer than two whole digits
// to label. It then gets round numbers, like a linear axis.
const fewDigits = .5

// digitsOf returns the digits that are labelled on an axis of so many powers of ten.
func digitsOf(decades float64) string {
	switch {
	case decades < .7:
		return "123456789"
	case decades < 1.1:
		return "123457"
	case decades <= 2.2:
		return "125"
	case decades <= 3.5:
		return "13"
	}
	return "1"
}

// Ticks implements plot.Ticker.
func (l logTicks) Ticks(from, to float64) (ticks []plot.Tick) {
	if l.zero {
		ticks = append(ticks, plot.Tick{Value: from, Label: "0"})
		from = max(from, l.floor)
	}
	low, high, decades := math.Pow(10, from), math.Pow(10, to), to-from
	if len(l.at) > 0 {
		for _, v := range l.at {
			ticks = append(ticks, plot.Tick{Value: math.Log10(v), Label: number(v)})
		}
		return ticks
	}
	if decades < fewDigits {
		for _, t := range (linearTicks{}).Ticks(low, high) {
			ticks = append(ticks, plot.Tick{Value: math.Log10(t.Value), Label: t.Label})
		}
		return ticks
	}
	skip, labelled := max(1, int(math.Ceil(decades/6))), digitsOf(decades)
	for power := math.Floor(from); power <= math.Ceil(to); power++ {
		for digit := 1; digit <= 9; digit++ {
			v := float64(digit) * math.Pow(10, power)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: math.Log10(v)}
			if int(power)%skip == 0 && strings.Contains(labelled, strconv.Itoa(digit)) {
				t.Label = number(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// linearTicks labels multiples of 1, 2 or 5 times a power of ten, and marks the quarters or fifths
// between them.
type linearTicks struct{}

// wantedLabels is roughly the number of labels on an axis.
const wantedLabels = 5

// Ticks implements plot.Ticker.
func (linearTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	step, minor := linearStep(high - low)
	first, last := math.Ceil(low/step*float64(minor)-1e-9)+0,
		math.Floor(high/step*float64(minor)+1e-9)
	for i := first; i <= last; i++ {
		t := plot.Tick{Value: i * step / float64(minor)}
		if math.Mod(i, float64(minor)) == 0 {
			t.Label = number(t.Value)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// degreeTicks labels round degrees on an axis of a map in kilometres. Degrees grow evenly on it.
type degreeTicks struct{ start, perKM float64 }

// degreesOf returns the ticks of a grid's longitudes and latitudes.
func degreesOf(g *grid.Grid) (longitude, latitude degreeTicks) {
	south, west := g.ToDegrees(grid.Point{})
	km := g.CellKM() / 2 // no grid crosses the antimeridian, but its last cells may reach over it
	north, east := g.ToDegrees(grid.Point{X: km, Y: km})
	return degreeTicks{west, (east - west) / km}, degreeTicks{south, (north - south) / km}
}

// Ticks implements plot.Ticker.
func (d degreeTicks) Ticks(low, high float64) []plot.Tick {
	ticks := linearTicks{}.Ticks(d.start+float64(low*d.perKM), d.start+float64(high*d.perKM))
	for i, t := range ticks {
		ticks[i].Value = (t.Value - d.start) / d.perKM
	}
	return ticks
}

// linearStep returns the distance of labels for a range, and the number of parts into which small
// marks divide it.
func linearStep(length float64) (step float64, minor int) {
	rough := length / wantedLabels
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	switch share := rough / power; {
	case share < 1.5:
		return power, 5
	case share < 3.5:
		return 2 * power, 4
	case share < 7.5:
		return 5 * power, 5
	}
	return 10 * power, 5
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
