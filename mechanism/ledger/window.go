package ledger

import "math"

// StepEnd returns the moment at which a step ends, milliseconds since 1970, or the one nearest to
// it between -(2⁶³-2) and 2⁶³-1.
func StepEnd(step, stepMS int64) int64 {
	switch {
	case step >= math.MaxInt64/stepMS:
		return math.MaxInt64
	case step < -(math.MaxInt64 / stepMS):
		return math.MinInt64 + 1
	}
	return max((step+1)*stepMS, math.MinInt64+1)
}

// WindowStart returns the moment after which a step ends if it is one of so many steps up to a
// given one. Where times leave int64 the window is wider, and holds all releases at the edge.
func WindowStart(step, steps, stepMS int64) int64 {
	if step < math.MinInt64+steps {
		return math.MinInt64
	}
	start := StepEnd(step-steps, stepMS)
	if start == math.MinInt64+1 {
		return math.MinInt64
	}
	return min(start, math.MaxInt64-1)
}
