package ledger

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
)

// Billionths is an amount of ε in whole billionths, so that sums are exact.
type Billionths uint64

// billionth is the number of billionths in 1.
const billionth = 1_000_000_000

// CostOf returns ε in whole billionths, rounded up from the decimal number that ε is written as:
// the shortest one that gives this float64. So ε = .1 costs 100,000,000 and not a little more,
// which is what the float64 nearest to .1 is. What is negative or not finite costs nothing: options
// refuse it.
func CostOf(epsilon float64) Billionths {
	whole, rest := billionths(epsilon)
	if rest && whole < math.MaxUint64 {
		whole++
	}
	return whole
}

// LimitOf returns a limit of ε in whole billionths, rounded down from the decimal number that it
// is written as.
func LimitOf(epsilon float64) Billionths {
	whole, _ := billionths(epsilon)
	return whole
}

// Epsilon returns the float64 nearest to the amount.
func (b Billionths) Epsilon() float64 { return float64(b) / billionth }

// Plus returns the sum, or the largest number: a sum that large exceeds every limit, as it should.
func (b Billionths) Plus(c Billionths) Billionths {
	if sum, carry := bits.Add64(uint64(b), uint64(c), 0); carry == 0 {
		return Billionths(sum)
	}
	return math.MaxUint64
}

// times returns n times the amount, or the largest number.
func (b Billionths) times(n uint64) Billionths {
	if high, low := bits.Mul64(uint64(b), n); high == 0 {
		return Billionths(low)
	}
	return math.MaxUint64
}

// billionths returns the whole billionths of a number's shortest decimal text, and whether there is
// a rest. Not for numbers that are negative or not finite: they have none.
func billionths(x float64) (whole Billionths, rest bool) {
	if !(x > 0) || math.IsInf(x, 1) {
		return 0, false
	}
	var buf [400]byte
	ones, decimals, _ := bytes.Cut(strconv.AppendFloat(buf[:0], x, 'f', -1, 64), []byte("."))
	digits := func(text []byte) {
		for _, d := range text {
			whole = whole.times(10).Plus(Billionths(d - '0'))
		}
	}
	const places = 9
	digits(ones)
	digits(decimals[:min(places, len(decimals))])
	for range places - len(decimals) {
		whole = whole.times(10)
	}
	return whole, len(decimals) > places
}
