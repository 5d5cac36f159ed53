package study

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// digits is to how many significant digits figures are written: fewer than any bits that another
// machine's arithmetic could change.
const digits = 4

// Number writes a figure for a table of all numbers; empty where there is none.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// Short writes a figure for people, with three significant digits.
func Short(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	if a := math.Abs(v); a >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return "–"
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// String writes the value and its interval for people.
func (b Band) String() string {
	if math.IsNaN(b.Low) {
		return Short(b.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", Short(b.Value), Short(b.Low), Short(b.High))
}

// Fields are the value and its interval for a table of all numbers.
func (b Band) Fields() []string { return []string{Number(b.Value), Number(b.Low), Number(b.High)} }

// Seconds writes a time in seconds or whole minutes.
func Seconds(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%g min", d.Minutes())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// Plural writes a number of things, such as "1 user" or "3 users".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// LengthOf writes the side of a map's cells.
func LengthOf(g *grid.Grid) string {
	return fmt.Sprintf("%g km", math.Round(g.CellM())/1000)
}
