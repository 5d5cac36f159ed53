package mechanism

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
)

// Ledger is what a user's releases have cost, and when: steps, numbers of releases and ε, which are public. It belongs to the user and not
// to a model, so its times are milliseconds since 1970: of a release the end of its step, the latest moment its report can have had.
//
// Costs are whole billionths of ε, so sums are exact. The releases of the past are kept as at most MaxRuns runs, newest last, and one
// sum of everything before them:
//
//	older ── run ── run ── … ── run
//
// A run is releases of equal cost at equal distances, exactly; or, where there would be too many runs, several costs as if all were of its
// latest moment. A cost therefore never leaves a window before its time, and after it by no more than a 31st of the window (see
// Ledger.shrink).
type Ledger struct {
	runs  []run
	older cost // all before the runs
	spent uint64
}

// cost is an amount of billionths of ε up to a moment.
type cost struct {
	end    int64
	amount uint64
}

// run is count releases of each billionths, at equal distances over span milliseconds up to end; or with a count of 0 releases of each billionths
// altogether, within span up to end and counted as of end.
type run struct {
	end   int64
	span  uint64
	count uint64
	each  uint64
}

// MaxRuns is the largest number of runs of a ledger, and bounds its encoding to some 600 bytes with releases at odd times, while a user who
// reports regularly has one run.
const MaxRuns = 64

// billionth is the number of billionths in 1.
const billionth = 1_000_000_000

// Spent returns the sum of ε of all releases.
func (l *Ledger) Spent() float64 { return float64(l.spent) / billionth }

// SpentSince returns the sum of ε of the releases of steps that end after a moment, milliseconds since 1970: exact or, after many irregular
// releases, above.
func (l *Ledger) SpentSince(ms int64) float64 { return float64(l.since(ms)) / billionth }

// Last returns the end of the latest step with a release, and whether there is one.
func (l *Ledger) Last() (ms int64, ok bool) {
	if n := len(l.runs); n > 0 {
		return l.runs[n-1].end, true
	}
	return l.older.end, l.older.amount > 0
}

// since is SpentSince in billionths.
func (l *Ledger) since(ms int64) uint64 {
	sum := uint64(0)
	for i := len(l.runs) - 1; i >= 0 && l.runs[i].end > ms; i-- {
		sum = saturating(sum, l.runs[i].since(ms))
	}
	if l.older.end > ms {
		sum = saturating(sum, l.older.amount)
	}
	return sum
}

// since returns what the run's releases after a moment cost. The run ends after it.
func (r run) since(ms int64) uint64 {
	if r.count == 0 {
		return r.each
	}
	n := r.count
	if stride := r.stride(); stride > 0 {
		n = min(n, (uint64(r.end)-uint64(ms)-1)/stride+1)
	}
	return times(n, r.each)
}

// stride returns the distance of two releases of a run, 0 if they all have one moment.
func (r run) stride() uint64 {
	if r.count < 2 {
		return 0
	}
	return r.span / (r.count - 1)
}

func (r run) total() uint64 {
	if r.count == 0 {
		return r.each
	}
	return times(r.count, r.each)
}

// Charge adds a release of amount billionths in a step that ends at a moment, not before the latest one: an earlier one counts as of that.
// Runs that end by expired may be added up: no window that is in force looks there.
func (l *Ledger) Charge(end int64, amount uint64, expired int64) {
	if last, ok := l.Last(); ok {
		end = max(end, last)
	}
	l.spent = saturating(l.spent, amount)
	if n := len(l.runs); n > 0 && l.runs[n-1].extend(end, amount) {
		return
	}
	if len(l.runs) == MaxRuns {
		l.shrink(expired)
	}
	l.runs = append(l.runs, run{end: end, count: 1, each: amount})
}

// extend takes a release into a run it goes on with.
func (r *run) extend(end int64, amount uint64) bool {
	step := uint64(end) - uint64(r.end)
	if r.count == 0 || r.each != amount || r.count > 1 && r.stride() != step || r.span+step < r.span {
		return false
	}
	r.end, r.span, r.count = end, r.span+step, r.count+1
	return true
}

// shrink makes room for a run. Up to half of the runs, those that no window in force holds, are added to the sum of older ones; if there are none the
// two neighbours that lie closest together become one, all of it as of its end.
//
// The error: all runs but the first lie within a window of W, and hold 31 pairs side by side. So the two that are closest span W/31 at most
// with the time between them, and so does the run that they become: no cost is counted more than W/31 longer than it is due.
func (l *Ledger) shrink(expired int64) {
	n := 0
	for n < MaxRuns/2 && l.runs[n].end <= expired {
		l.older = cost{l.runs[n].end, saturating(l.older.amount, l.runs[n].total())}
		n++
	}
	if n > 0 {
		l.runs = append(l.runs[:0], l.runs[n:]...)
		return
	}
	closest, least := 0, uint64(math.MaxUint64)
	for i := range len(l.runs) - 1 {
		if span := together(l.runs[i], l.runs[i+1]); span < least {
			closest, least = i, span
		}
	}
	a, b := l.runs[closest], l.runs[closest+1]
	l.runs[closest] = run{end: b.end, span: least, each: saturating(a.total(), b.total())}
	l.runs = append(l.runs[:closest+1], l.runs[closest+2:]...)
}

// together returns the time from the first release of a run to the last one of the next.
func together(a, b run) uint64 { return uint64(b.end) - uint64(a.end) + a.span }

// Reset empties the ledger and keeps its memory.
func (l *Ledger) Reset() { *l = Ledger{runs: l.runs[:0]} }

// CopyFrom makes l equal to from, in memory of its own.
func (l *Ledger) CopyFrom(from *Ledger) {
	runs := append(l.runs[:0], from.runs...)
	*l = *from
	l.runs = runs
}

// saturating returns a+b, or the largest number: a sum that large exceeds every limit, as it should.
func saturating(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}

// times is a·b in the same manner.
func times(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}

// stepEnd returns the moment at which a step ends, milliseconds since 1970, or the one nearest to it between -(2⁶³-2) and 2⁶³-1.
func stepEnd(step, stepMS int64) int64 {
	switch {
	case step >= math.MaxInt64/stepMS:
		return math.MaxInt64
	case step < -(math.MaxInt64 / stepMS):
		return math.MinInt64 + 1
	}
	return max((step+1)*stepMS, math.MinInt64+1)
}

// windowStart returns the moment after which the steps end that lie in the window of so many steps up to one. Where times leave int64 the
// window is wider, and holds all releases at the edge.
func windowStart(step, steps, stepMS int64) int64 {
	if step < math.MinInt64+steps {
		return math.MinInt64
	}
	start := stepEnd(step-steps, stepMS)
	if start == math.MinInt64+1 {
		return math.MinInt64
	}
	return min(start, math.MaxInt64-1)
}

// billionthsUp returns ε in whole billionths, rounded up from the decimal number that ε is written as: the shortest one that gives this
// float64. So ε = .1 costs 100,000,000 and not a little more, which is what the float64 nearest to .1 is.
func billionthsUp(epsilon float64) uint64 {
	whole, rest := billionths(epsilon)
	if rest && whole < math.MaxUint64 {
		whole++
	}
	return whole
}

// billionthsDown is the same for a limit, rounded down.
func billionthsDown(limit float64) uint64 {
	whole, _ := billionths(limit)
	return whole
}

// billionths returns the whole billionths of a number's shortest decimal text, and whether there is a rest. Not for numbers that are negative
// or not finite: they have none.
func billionths(x float64) (whole uint64, rest bool) {
	if !(x > 0) || math.IsInf(x, 1) {
		return 0, false
	}
	var buf [400]byte
	ones, decimals, _ := bytes.Cut(strconv.AppendFloat(buf[:0], x, 'f', -1, 64), []byte("."))
	digits := func(text []byte) {
		for _, d := range text {
			whole = saturating(times(whole, 10), uint64(d-'0'))
		}
	}
	const places = 9
	digits(ones)
	digits(decimals[:min(places, len(decimals))])
	for range places - len(decimals) {
		whole = times(whole, 10)
	}
	return whole, len(decimals) > places
}
