// Package ledger keeps what the releases of one user have cost, and when, so that budgets over any
// window can be kept.
//
// A step's number means nothing without the step's length, and a user's costs outlive a model. So
// the ledger keeps the ends of steps in milliseconds: nothing has to be converted when the model
// changes, and since a release counts until the end of its step has left the window, it is never
// counted for too short a time. Runs of equal steps make the ledger as compact as the numbers of
// steps would be.
//
// Where there are too many runs, costs are added up and count as of the latest of their moments. If
// the window is made longer, costs that had left it count as of the last of them. So the ledger may
// show more than was spent, for a while, and never less. A new or longer budget can therefore hold
// a user's releases back for up to one window.
package ledger

import "math"

// Ledger is what a user's releases have cost, and when: steps, numbers of releases and ε, which
// are public. It belongs to the user and not to a model. Its times are milliseconds since 1970: the
// time of a release is the end of its step, the latest moment that its report can have had.
//
// The releases of the past are kept as at most MaxRuns runs, newest last, and one sum of everything
// before them:
//
//	older ── run ── run ── … ── run
//
// A run is releases of equal cost at equal distances, exactly. Where there would be too many runs,
// a run can also be several costs that count as of its latest moment. Costs therefore never leave a
// window early, and at most a 31st of the window late (see shrink).
type Ledger struct {
	runs  []run
	older cost // all before the runs
	spent Billionths
}

// cost is an amount of ε up to a moment.
type cost struct {
	end    int64
	amount Billionths
}

// run is count releases of the cost each, at equal distances over span milliseconds up to end. With
// a count of 0 it is several releases of the cost each together, within span milliseconds up to
// end, and counts as of end.
type run struct {
	end   int64
	span  uint64
	count uint64
	each  Billionths
}

// MaxRuns is the largest number of runs of a ledger. It bounds the encoding to some 600 bytes for
// releases at odd times. A user who reports regularly has one run.
const MaxRuns = 64

// Spent returns the sum of ε of all releases.
func (l *Ledger) Spent() Billionths { return l.spent }

// SpentSince returns the sum of ε of the releases in steps that end after a moment, given in
// milliseconds since 1970. It is exact, or after many irregular releases too much, but never too
// little.
func (l *Ledger) SpentSince(ms int64) Billionths {
	sum := Billionths(0)
	for i := len(l.runs) - 1; i >= 0 && l.runs[i].end > ms; i-- {
		sum = sum.Plus(l.runs[i].since(ms))
	}
	if l.older.end > ms {
		sum = sum.Plus(l.older.amount)
	}
	return sum
}

// Last returns the end of the latest step with a release, and whether there is one.
func (l *Ledger) Last() (ms int64, ok bool) {
	if n := len(l.runs); n > 0 {
		return l.runs[n-1].end, true
	}
	return l.older.end, l.older.amount > 0
}

// since returns what the run's releases after a moment cost. The run ends after it.
func (r run) since(ms int64) Billionths {
	if r.count == 0 {
		return r.each
	}
	n := r.count
	if stride := r.stride(); stride > 0 {
		n = min(n, (uint64(r.end)-uint64(ms)-1)/stride+1)
	}
	return r.each.times(n)
}

// stride returns the distance of two releases of a run, 0 if they all have one moment.
func (r run) stride() uint64 {
	if r.count < 2 {
		return 0
	}
	return r.span / (r.count - 1)
}

func (r run) total() Billionths {
	if r.count == 0 {
		return r.each
	}
	return r.each.times(r.count)
}

// Charge adds the cost of a release in a step that ends at a moment. A moment before the latest one
// counts as the latest one. Runs that end at expired or before may be added up: no window that is
// in force looks there.
func (l *Ledger) Charge(end int64, amount Billionths, expired int64) {
	if last, ok := l.Last(); ok {
		end = max(end, last)
	}
	l.spent = l.spent.Plus(amount)
	if n := len(l.runs); n > 0 && l.runs[n-1].extend(end, amount) {
		return
	}
	if len(l.runs) == MaxRuns {
		l.shrink(expired)
	}
	l.runs = append(l.runs, run{end: end, count: 1, each: amount})
}

// extend takes a release into the run if the release continues it.
func (r *run) extend(end int64, amount Billionths) bool {
	step := uint64(end) - uint64(r.end)
	if r.count == 0 || r.each != amount || r.count > 1 && r.stride() != step ||
		r.span+step < r.span {
		return false
	}
	r.end, r.span, r.count = end, r.span+step, r.count+1
	return true
}

// shrink makes room for a run. Up to half of the runs, those that no window in force holds, are
// added to the sum of older ones. If there are none, the two neighbours that lie closest together
// become one run, all of which counts as of its end.
//
// The error: all runs but the first lie within a window of W, and hold 31 pairs side by side. So
// the closest pair spans W/31 at most, with the time between its runs, and so does the run that it
// becomes: no cost is counted more than W/31 longer than it is due.
func (l *Ledger) shrink(expired int64) {
	n := 0
	for n < MaxRuns/2 && l.runs[n].end <= expired {
		l.older = cost{l.runs[n].end, l.older.amount.Plus(l.runs[n].total())}
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
	l.runs[closest] = run{end: b.end, span: least, each: a.total().Plus(b.total())}
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
