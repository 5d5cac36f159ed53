package follow

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// chain makes a dense matrix of rows.
func chain(rows [][]float64) *dense {
	a := newDense(len(rows), 1)
	for i, row := range rows {
		copy(a.row(i), row)
	}
	return a
}

// random draws a stochastic matrix; a part of its values are small.
func random(rng *rand.Rand, n int) [][]float64 {
	rows := make([][]float64, n)
	for i := range rows {
		sum := 0.0
		for range n {
			v := math.Exp(-6 * rng.Float64())
			rows[i] = append(rows[i], v)
			sum += v
		}
		for j := range rows[i] {
			rows[i][j] /= sum
		}
	}
	return rows
}

// model makes a model of the rows, on a line of cells.
func model(t *testing.T, rows [][]float64) *mobility.Model {
	t.Helper()
	g, err := grid.Plain(len(rows), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &mobility.Matrix{RowStart: []int64{0}}
	for _, row := range rows {
		for c, v := range row {
			if v > 0 {
				m.Columns, m.Values = append(m.Columns, grid.Cell(c)), append(m.Values, v)
			}
		}
		m.RowStart = append(m.RowStart, int64(len(m.Columns)))
	}
	x := &mobility.Model{
		Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}, Initial: mobility.Uniform(g),
	}
	if err := x.Validate(); err != nil {
		t.Fatal(err)
	}
	return x
}

func forgetting(t *testing.T, rows [][]float64, interval int) *Forgetting {
	t.Helper()
	f, err := NewForgetting(model(t, rows), interval, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// spanOf is φ of a kernel by all pairs of rows and all sets.
func spanOf(rows [][]float64, s float64) (most float64) {
	for set := range 1 << len(rows) {
		var value []float64
		for _, row := range rows {
			in := 0.0
			for c, v := range row {
				if set>>c&1 == 1 {
					in += v
				}
			}
			value = append(value, 1+math.Expm1(s)*in)
		}
		for _, a := range value {
			for _, b := range value {
				most = max(most, math.Log(a/b))
			}
		}
	}
	return most
}

// reversed is the kernel from a place to the place before, for a distribution at that time.
func reversed(rows [][]float64, start []float64) [][]float64 {
	back := make([][]float64, len(rows))
	for k := range rows {
		sum := 0.0
		for j := range rows {
			back[k] = append(back[k], start[j]*rows[j][k])
			sum += back[k][j]
		}
		for j := range rows {
			back[k][j] /= sum
		}
	}
	return back
}

// TestLaterIsExact compares φ by the profile with all sets. It may be too high by what chords and
// coarse make, and never too low.
func TestLaterIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		rows := random(rng, 2+rng.IntN(6))
		k := contract(chain(rows), workers{Pool: parallel.Pool{Workers: 2}})
		for _, s := range []float64{1e-6, .1, .5, 1, 2, 4, 8} {
			exact, got := spanOf(rows, s), k.Later(s)
			high := 1.04
			if s > 1 { // where few λ are
				high = 1.4
			}
			if got < exact || got > s || got > high*exact+1e-9 {
				t.Fatalf("φ(%g) of %v is %.12g, and %.12g by all sets", s, rows, got, exact)
			}
		}
	}
}

// TestStayingIsRemembered: a kernel that leaves everybody in place with probability w has at least
// the diameter that PROOFS.md says, whatever else it does, and the fixed point of ψ is near it. So
// under a law of gaps there is no useful bound.
func TestStayingIsRemembered(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	staying := func(w float64, rows [][]float64) *Contraction {
		for i, row := range rows {
			for j := range row {
				row[j] *= 1 - w
			}
			row[i] += w
		}
		return contract(chain(rows), workers{})
	}
	for range 100 {
		n, w := 2+rng.IntN(20), .1+.8*rng.Float64()
		least := 2 * math.Log(w*float64(n-1)/(1-w))
		if got := staying(w, random(rng, n)).diameter; got < least {
			t.Fatalf("%d cells, w = %g: the diameter is %g, at least %g", n, w, got, least)
		}
	}
	k := &Contraction{diameter: 2 * math.Log(599)}
	f := fixedPoint(func(s float64) float64 { return k.Earlier(1 + s) })
	if math.Abs(k.diameter-12.8) > .05 || math.Abs(f-10.9) > .05 {
		t.Errorf("Δ = %g and f = %g", k.diameter, f)
	}
}

// TestEarlierHoldsForEveryStart looks at reversed kernels of many starts. Its second half is a
// counterexample: what the reversed kernel of the stationary start lets through is no bound for
// other starts.
func TestEarlierHoldsForEveryStart(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	stationaryFails, closest := 0, 0.0
	for range 200 {
		rows := random(rng, 2+rng.IntN(3))
		k := contract(chain(rows), workers{})
		stationary := chain(rows).raised(4096, workers{}).row(0)
		for range 20 {
			start := make([]float64, len(rows))
			for i := range start {
				start[i] = math.Exp(-8 * rng.Float64())
			}
			s := 4 * rng.Float64()
			exact, got := spanOf(reversed(rows, start), s), k.Earlier(s)
			if got < exact || got > s {
				t.Fatalf("%v from %v: Earlier(%g) = %g, exactly %g", rows, start, s, got, exact)
			}
			closest = max(closest, exact/got)
			if spanOf(reversed(rows, stationary), s) < exact-1e-6 {
				stationaryFails++
			}
		}
	}
	if stationaryFails < 100 || closest < .98 {
		t.Errorf("the stationary start fails %d times, and the bound is reached to %g",
			stationaryFails, closest)
	}
}

// told returns the largest ln ratio that all ways to release tell about a moment, by all paths. A
// release is a set of cells whose likelihood is e^ε, of the others 1.
func told(
	rows [][]float64, start []float64, interval, releases, moment int, epsilon float64,
) (most float64) {
	n, last := len(rows), interval*(releases-1)
	sets := make([]int, releases)
	path := make([]int, last+1)
	for code := range 1 << (n * releases) {
		for i := range sets {
			sets[i] = code >> (n * i) & (1<<n - 1)
		}
		with, without := make([]float64, n), make([]float64, n)
		var walk func(t int, p, l float64)
		walk = func(t int, p, l float64) {
			if t > last {
				without[path[moment]] += p
				with[path[moment]] += p * l
				return
			}
			for c := range n {
				q, m := start[c], l
				if t > 0 {
					q = rows[path[t-1]][c]
				}
				if t%interval == 0 && sets[t/interval]>>c&1 == 1 {
					m *= math.Exp(epsilon)
				}
				if path[t] = c; q > 0 {
					walk(t+1, p*q, m)
				}
			}
		}
		walk(0, 1, 1)
		for a := range n {
			for b := range n {
				if without[a] > 0 && without[b] > 0 {
					most = max(most, math.Log(with[a]/without[a]*without[b]/with[b]))
				}
			}
		}
	}
	return most
}

// TestAllPaths holds the theorem to chains where all paths and all ways to release can be gone
// through: at a release and between two, from any start. Faults that a proof could have would show.
func TestAllPaths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	closest, faults := 0.0, map[string]int{}
	for range 12 {
		rows := random(rng, 2+rng.IntN(2))
		start := random(rng, len(rows))[0]
		const epsilon, interval, releases = 1.0, 2, 3
		f := forgetting(t, rows, interval)
		bound := f.Most(epsilon)
		at := told(rows, start, interval, releases, 2, epsilon)
		between := max(told(rows, start, interval, releases, 1, epsilon),
			told(rows, start, interval, releases, 3, epsilon))
		if at > bound.At || between > bound.Between {
			t.Fatalf("%v: told %g and %g, bound %v", rows, at, between, bound)
		}
		closest = max(closest, at/bound.At)
		k := f.Interval()
		for name, wrong := range map[string]float64{
			"without earlier releases": epsilon + k.Later(2*epsilon),
			"without later releases":   epsilon + k.Earlier(2*epsilon),
		} {
			if at > wrong {
				faults[name]++
			}
		}
	}
	if closest < .75 || len(faults) < 2 {
		t.Errorf("the bound is reached to %g, and faults show %v times", closest, faults)
	}
}

// TestBetweenReleases is a chain that forgets all in two steps, and yet tells more midway than at a
// release: the place is a pair of bits, of which the second becomes the first.
func TestBetweenReleases(t *testing.T) {
	bits := [][]float64{{.5, .5, 0, 0}, {0, 0, .5, .5}, {.5, .5, 0, 0}, {0, 0, .5, .5}}
	uniform := []float64{.25, .25, .25, .25}
	f := forgetting(t, bits, 2)
	at := told(bits, uniform, 2, 2, 0, 1)
	midway := told(bits, uniform, 2, 2, 1, 1)
	if math.Abs(at-1) > 1e-9 || math.Abs(midway-2) > 1e-9 {
		t.Errorf("told %g at a release and %g midway, want 1 and 2", at, midway)
	}
	if b := f.Most(1); b.At < at || b.At > 1+1e-5 || b.Between < midway || b.Between > 2+1e-5 {
		t.Errorf("the bounds are %v", b)
	}
}

// TestGroupsLeaveNothingOut compares the profile of a walk, most of whose pairs are left out, with
// all pairs.
func TestGroupsLeaveNothingOut(t *testing.T) {
	const n = 60
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, n)
		for _, to := range []int{max(i-1, 0), i, min(i+1, n-1)} {
			rows[i][to] += 1. / 3
		}
	}
	a := chain(rows).raised(700, workers{Pool: parallel.Pool{Workers: 2}})
	k := contract(a, workers{Pool: parallel.Pool{Workers: 2}})
	for i, lambda := range lambdas {
		exact := 0.0
		for p := range n {
			for q := range n {
				exact = max(exact, hockey(a.row(p), a.row(q), lambda))
			}
		}
		if k.profile[i] < exact || k.profile[i] > (1+2*coarse)*exact+1e-8 {
			t.Errorf("E(%g) is %g, and %g by all pairs", lambda, k.profile[i], exact)
		}
	}
	if f := forgetting(t, rows, 10).Most(1); !math.IsInf(f.At, 1) {
		t.Errorf("a walk of 60 cells forgets in 10 steps: %v", f)
	}
	many, _ := NewForgetting(model(t, rows), 700, nil)
	if b := many.Most(.5); !(b.At > .5) || !(b.Between >= b.At) || b.At > 40 {
		t.Errorf("bounds %v", b)
	}
}

// TestStops: the work ends with the first error, wherever that comes, and large maps are refused.
func TestStops(t *testing.T) {
	m := model(t, random(rand.New(rand.NewPCG(9, 1)), 40))
	var calls atomic.Int64
	if _, err := NewForgetting(m, 12, func() error { calls.Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	all, stop := calls.Load(), errors.New("stop")
	for _, after := range []int64{0, 1, all / 4, all / 2, all - 2} {
		calls.Store(0)
		_, err := NewForgetting(m, 12, func() error {
			if calls.Add(1) > after {
				return stop
			}
			return nil
		})
		// What was at work on another goroutine may end, and each later pass asks once a goroutine.
		if !errors.Is(err, stop) || all < 500 || calls.Load() > after+all/2 {
			t.Errorf("stopped after %d of %d: %v after %d", after, all, err, calls.Load())
		}
	}
	g, err := grid.Plain(MaxMomentCells+1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewForgetting(&mobility.Model{Grid: g}, 12, nil); err == nil ||
		!strings.Contains(err.Error(), "at most 2500 cells") {
		t.Errorf("a map of %d cells: %v", MaxMomentCells+1, err)
	}
}

// TestCalendar: a class that does not move takes half of every day, so only what the other class
// does counts, for as long as it surely lasts.
func TestCalendar(t *testing.T) {
	m := model(t, [][]float64{{1, 0}, {0, 1}})
	moving := model(t, [][]float64{{.9, .1}, {.1, .9}}).Matrices[0]
	m.Step = time.Hour
	m.Calendar = mobility.Calendar{Hours: []int{6, 18}}
	m.Matrices = append(m.Matrices, moving)
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	r := newRuns(m)
	for steps, want := range map[int]int{0: 0, 1: 0, 6: 2, 12: 5, 24: 11, 48: 11} {
		if got := r.least(steps); got != want {
			t.Errorf("among %d steps a run has %d at least, want %d", steps, got, want)
		}
	}
	f, err := NewForgetting(m, 24, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b := f.Most(1); !math.IsInf(b.At, 1) {
		t.Errorf("bound %v, though one class stands still", b)
	}
}

// TestTable prints the bounds of a model by interval and ε, which RESULTS.md has of two models.
func TestTable(t *testing.T) {
	path := os.Getenv("GEODITHER_MOMENT")
	if path == "" {
		t.Skip("GEODITHER_MOMENT names no model")
	}
	m, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, hours := range []int{12, 6, 3, 1} {
		interval := time.Duration(hours) * time.Hour
		f, err := NewForgetting(m, int(interval/m.Step), nil)
		if err != nil {
			t.Fatal(err)
		}
		k, before := f.Interval(), 0.0
		t.Logf("every %v: variation %.3f, diameter %.2f", interval, k.Variation(), k.diameter)
		for _, epsilon := range []float64{.5, 1, 2, 4} {
			told := f.Most(epsilon)
			t.Logf("  ε = %g: %.2f at a release, %.2f at any moment", epsilon, told.At,
				told.Between)
			if told.At < max(before, epsilon) || told.Between < told.At {
				t.Errorf("bounds %v after %g", told, before)
			}
			before = told.At
		}
	}
}
