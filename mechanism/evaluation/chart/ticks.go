package chart

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// logTicks is for an axis of decimal logarithms. It labels powers of ten, and on an axis of few of them also twice and five times each.
type logTicks struct{}

// fewDecades is up to how many powers of ten an axis has room for more labels.
const fewDecades = 2.2

// Ticks implements plot.Ticker.
func (logTicks) Ticks(from, to float64) (ticks []plot.Tick) {
	low, high, decades := math.Pow(10, from), math.Pow(10, to), to-from
	skip := max(1, int(math.Ceil(decades/6)))
	for power := math.Floor(from); power <= math.Ceil(to); power++ {
		for digit := 1; digit <= 9; digit++ {
			v := float64(digit) * math.Pow(10, power)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: math.Log10(v)}
			if digit == 1 && int(power)%skip == 0 || decades <= fewDecades && (digit == 2 || digit == 5) || decades < .7 {
				t.Label = number(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// linearTicks labels multiples of 1, 2 or 5 times a power of ten, and marks the quarters or fifths between them.
type linearTicks struct{}

// wantedLabels is about how many labels an axis has.
const wantedLabels = 5

// Ticks implements plot.Ticker.
func (linearTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	step, minor := linearStep(high - low)
	first, last := math.Ceil(low/step*float64(minor)-1e-9)+0, math.Floor(high/step*float64(minor)+1e-9)
	for i := first; i <= last; i++ {
		t := plot.Tick{Value: i * step / float64(minor)}
		if math.Mod(i, float64(minor)) == 0 {
			t.Label = number(t.Value)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// linearStep returns the distance of labels for a range, and into how many parts small marks divide it.
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
