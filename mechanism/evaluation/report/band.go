package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Band is a value with the interval that its caller says: most have a 95 % confidence interval. Low
// and High are NaN where there is none.
type Band struct{ Value, Low, High float64 }

// Exact returns a value without an interval.
func Exact(v float64) Band { return Band{v, math.NaN(), math.NaN()} }

// Root returns the band of the root of a mean square. Squares of distances have long tails: the
// interval is symmetric for the logarithm (the delta method), and so never reaches 0.
func (b Band) Root() Band {
	root := Exact(math.Sqrt(b.Value))
	if half := (b.High - b.Value) / b.Value; !math.IsNaN(half) {
		root.Low, root.High = root.Value*math.Exp(-half/2), root.Value*math.Exp(half/2)
	}
	return root
}

// String writes the value and its interval for people; nothing where there is no value.
func (b Band) String() string {
	switch {
	case math.IsNaN(b.Value):
		return ""
	case math.IsNaN(b.Low):
		return Short(b.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", Short(b.Value), Short(b.Low), Short(b.High))
}

// digits is how many significant digits a file of all numbers has: fewer than any bits that another
// machine's arithmetic could change.
const digits = 4

// Number writes a number for a file of all numbers: with four significant digits, whole numbers
// below a million in full, and with a decimal point, so that no reader takes a column that starts
// with zeros for integers; empty where there is none.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ""
	case v == math.Trunc(v) && math.Abs(v) < 1e6:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	text := strconv.FormatFloat(v, 'g', digits, 64)
	if mantissa, exponent, found := strings.Cut(text, "e"); !strings.Contains(mantissa, ".") {
		text = mantissa + ".0"
		if found {
			text += "e" + exponent
		}
	}
	return text
}

// Short writes a number for people, with three significant digits.
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
