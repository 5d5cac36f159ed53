package moment

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// MaxCells is the largest map for which bounds are computed. They take four matrices of so many
// rows and columns, 200 MB, and minutes of time.
const MaxCells = 2500

// parts is into how many parts the time between two releases is divided. A moment within a part
// counts as at its end nearer to a release, on both sides.
const parts = 4

// Forgetting is how a model forgets between two releases that lie an interval apart or more.
type Forgetting struct {
	// after[j] bounds all that can happen in j/parts of the interval; after[0] is nothing.
	after [parts + 1]*Contraction
}

// hardly is a total variation of rows from which on a kernel counts as one that forgets nothing.
const hardly = .99

// New computes how a model forgets in so many steps. It fails if the map has more than MaxCells
// cells, and ends with the error of stop once that has one; nil: nothing stops it. stop is called
// from several goroutines. Cost: 20·n³ to 100·n³ operations for n cells and each class of the
// calendar, on all processors: a second for 280 cells.
func New(m *mobility.Model, interval int, stop func() error) (*Forgetting, error) {
	if n := m.Grid.Cells(); n > MaxCells {
		return nil, fmt.Errorf("a bound for one moment takes a map of at most %d cells, and this "+
			"one has %d: train with larger cells to have one", MaxCells, n)
	}
	runs := newRuns(m)
	steps := [parts + 1]int{}
	for j := range steps {
		steps[j] = runs.least(interval * j / parts)
	}
	pool := workers{parallel.Pool{Workers: runtime.GOMAXPROCS(0)}, stop}
	f := &Forgetting{}
	for class := range m.Matrices {
		a := rows(m, class)
		exponents := steps[:]
		if whole := powers(a, exponents[parts:], pool)[0]; whole.Variation() >= hardly {
			exponents = make([]int, parts+1) // parts of it tell no more
		}
		for j, k := range powers(a, exponents, pool) {
			if f.after[j] == nil {
				f.after[j] = k
			} else {
				f.after[j] = worst(f.after[j], k)
			}
		}
	}
	return f, pool.stopped()
}

// powers returns the contractions of powers of a matrix, which ascend.
func powers(a *dense, exponents []int, pool workers) []*Contraction {
	list := make([]*Contraction, len(exponents))
	raised := map[int]*dense{} // by the difference of two exponents
	var at *dense
	for j, k := range exponents {
		before := 0
		if at != nil {
			before = at.power
		}
		switch k {
		case 0:
			list[j] = none()
			continue
		case before:
			list[j] = list[j-1]
			continue
		}
		step := raised[k-before]
		if step == nil {
			step = a.raised(k-before, pool)
			raised[k-before] = step
		}
		if at == nil {
			at = step
		} else {
			at = at.times(step, pool)
		}
		list[j] = contract(at, pool)
	}
	return list
}

// none is the contraction of the kernel that leaves everybody where they are: there is none.
func none() *Contraction {
	return &Contraction{
		profile: slices.Repeat([]float64{1}, len(lambdas)), diameter: math.Inf(1),
	}
}

// runs knows the classes of the steps of a week.
type runs struct{ classes []int }

func newRuns(m *mobility.Model) *runs {
	r := &runs{}
	if len(m.Matrices) > 1 {
		const week = 7 * 24 * 3600 * 1000
		for step := range 2 * week / m.Step.Milliseconds() {
			r.classes = append(r.classes, m.ClassAt(step))
		}
	}
	return r
}

// least returns how many steps in a row have one class, at least, among any so many steps. What
// happens in the other steps can only make a kernel forget more. A week need not be whole steps, so
// that a run may be one step shorter than in the first week.
func (r *runs) least(steps int) int {
	if len(r.classes) == 0 || steps == 0 {
		return steps
	}
	week := len(r.classes) / 2
	steps = min(steps, week)
	least := steps
	for start := range week {
		longest, run := 0, 0
		for i := start; i < start+steps; i++ {
			if i > start && r.classes[i] != r.classes[i-1] {
				run = 0
			}
			run++
			longest = max(longest, run)
		}
		least = min(least, longest)
	}
	return max(least-1, 0)
}

// Interval returns the contraction of a whole interval.
func (f *Forgetting) Interval() *Contraction { return f.after[parts] }

// Told bounds what all records tell about one moment: the ln of the largest ratio between two cells
// of P(cell | all records) / P(cell). Infinite: nothing but Σε bounds it.
type Told struct {
	At      float64 // a moment of a release
	Between float64 // any moment
}

// Most returns what any number of releases of ε tell, of which no two are closer than the interval.
func (f *Forgetting) Most(epsilon float64) Told {
	k := f.Interval()
	if k.Variation() == 1 {
		return Told{At: math.Inf(1), Between: math.Inf(1)}
	}
	later := fixedPoint(func(s float64) float64 { return k.Later(epsilon + s) })
	earlier := fixedPoint(func(s float64) float64 { return k.Earlier(epsilon + s) })
	t := Told{At: up(earlier + epsilon + later)}
	t.Between = t.At
	for j := range parts {
		// A moment after j parts and before j+1: what is left is parts-j-1 whole ones.
		told := f.after[j].Earlier(earlier+epsilon) + f.after[parts-1-j].Later(epsilon+later)
		t.Between = max(t.Between, up(told))
	}
	return t
}

const (
	// manyTurns are the turns after which a fixed point counts as infinite.
	manyTurns = 4096
	// largeSpan is a ln ratio that promises nothing.
	largeSpan = 300
)

// fixedPoint returns a number s, as small as may be, with 0 ≤ s and f(s) ≤ s for a function that
// does not decrease. So 0, f(0), f(f(0)) … all stay below it. It returns infinity if it finds none.
func fixedPoint(f func(float64) float64) float64 {
	s := 0.0
	for range manyTurns {
		next := f(s)
		if next <= s {
			return s
		}
		if next > largeSpan {
			break
		}
		s = float64(next*(1+0x1p-20)) + 0x1p-20 // a little more, so that it ends
	}
	return math.Inf(1)
}
