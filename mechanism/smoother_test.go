package mechanism

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// smoothed is one moment, with a copy of its posterior.
type smoothed struct {
	Smoothed
	posterior mobility.Distribution
}

// smoother takes a user's records one after another.
type smoother struct {
	*Smoother
	s      *Sanitizer
	state  State
	block  Block
	all    []smoothed // in the order of their numbers
	number []int64    // of each record's moment
}

func newSmoother(tb testing.TB, m *mobility.Model, o Options, lag int64) *smoother {
	tb.Helper()
	return &smoother{Smoother: NewSmoother(o, lag), s: newSanitizer(tb, m, o)}
}

func (u *smoother) take(tb testing.TB, records ...Seen) {
	tb.Helper()
	for _, r := range records {
		number, err := u.Observe(&u.block, u.s, &u.state, r, u.each)
		if err != nil {
			tb.Fatal(err)
		}
		u.number = append(u.number, number)
	}
}

func (u *smoother) each(m Smoothed) {
	for int64(len(u.all)) <= m.Number {
		u.all = append(u.all, smoothed{})
	}
	one := &u.all[m.Number]
	one.posterior.CopyFrom(m.Posterior)
	one.Smoothed = m
}

// finish takes records and closes the block.
func (u *smoother) finish(tb testing.TB, records ...Seen) []smoothed {
	tb.Helper()
	u.take(tb, records...)
	u.Finish(&u.block, u.each)
	return u.all
}

// seenOf returns what a sanitizer publishes of reports at some steps.
func seenOf(tb testing.TB, m *mobility.Model, o Options, steps []int64) (records []Seen) {
	tb.Helper()
	s := newSanitizer(tb, m, o)
	path := walk(m, 5, 400)
	var state State
	for _, step := range steps {
		out := mustStep(tb, s, &state, Input{
			User: "u", Step: step, Cell: path[step%400], Release: true,
		})
		if out.Kind.Published() {
			records = append(records, Seen{Step: step, Kind: out.Kind, Release: out.Release})
		}
	}
	return records
}

// tinyModel has six cells, two classes and a law of gaps.
func tinyModel(tb testing.TB) *mobility.Model {
	tb.Helper()
	weights := func(seed int) *mobility.Model {
		return weightedModel(tb, 3, 2, 1, .34, func(column, row, dx, dy int) float64 {
			return 1 + float64((seed*column+5*row+3*dx+7*dy+20)%11)
		})
	}
	m := weights(2)
	m.Calendar = mobility.Calendar{Weekend: true}
	m.Matrices = append(m.Matrices, weights(3).Matrices[0])
	m.Initial = mobility.Uniform(m.Grid)
	m.Gaps = gapModel(tb).Gaps
	return m
}

// bruteForce returns the posterior of the step of record t given all of them, by a sum over all
// paths. They start with record first, in the distribution from.
func bruteForce(
	tb testing.TB, m *mobility.Model, o Options, records []Seen, from []float64, first, t int,
) []float64 {
	tb.Helper()
	cells := m.Grid.Cells()
	var all []grid.Cell
	for c := range grid.Cell(cells) {
		all = append(all, c)
	}
	s := newSanitizer(tb, m, o)
	predictor := mobility.NewPredictor(m)
	var state State
	likelihood := make([][]float64, len(records))     // by record and cell
	transition := make([][][]float64, len(records)-1) // by record and two cells
	for i, r := range records {
		if err := s.Observe(&state, r); err != nil {
			tb.Fatal(err)
		}
		likelihood[i] = slices.Repeat([]float64{1}, cells)
		if r.Kind == Released {
			copy(likelihood[i], s.Emission().Likelihoods(r.Release, all))
		}
		if i == len(records)-1 {
			break
		}
		gap := records[i+1].Step - r.Step
		for c := range grid.Cell(cells) {
			alone, row := mobility.Distribution{Cells: []grid.Cell{c}, P: []float64{1}},
				make([]float64, cells)
			var after mobility.Distribution
			if !o.LearnedGaps(m) ||
				!predictor.PredictGap(&after, &alone, r.Step, uint64(gap), 0) {
				predictor.Predict(&after, &alone, r.Step, int(gap))
			}
			for j, to := range after.Cells {
				row[to] = after.P[j]
			}
			transition[i] = append(transition[i], row)
		}
	}
	sum := make([]float64, cells)
	var walk func(i int, weight float64, here grid.Cell, at grid.Cell)
	walk = func(i int, weight float64, here, at grid.Cell) {
		if i == t {
			at = here
		}
		if i > first {
			weight *= likelihood[i][here]
		}
		if i == len(records)-1 {
			sum[at] += weight
			return
		}
		for next, p := range transition[i][here] {
			if p > 0 {
				walk(i+1, weight*p, grid.Cell(next), at)
			}
		}
	}
	for c, p := range from {
		walk(first, p, grid.Cell(c), 0)
	}
	total := 0.0
	for _, p := range sum {
		total += p
	}
	for c := range sum {
		sum[c] /= total
	}
	return sum
}

// TestSmootherIsExact compares with the sum over all paths of a small chain, over gaps and a change
// of the calendar's class, with repeated and predicted records. From the state before a step,
// whose masses are rounded to float32, the smoothed posterior is exact up to rounding.
func TestSmootherIsExact(t *testing.T) {
	t.Parallel()
	const friday = 60*24*2 - 4
	steps := []int64{friday, friday + 1, friday + 1, friday + 3, friday + 7, friday + 8}
	for name, o := range map[string]Options{
		"codebook": {Mechanism: law.Codebook, Epsilon: 1},
		"lattice":  {Mechanism: law.Lattice, Epsilon: 1, Delta: .1},
		"paper":    {Mechanism: law.PIM, Epsilon: 1, Inference: InferencePaper},
		"interval": {Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 2},
		"skip": {
			Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 2, Between: BetweenSkip,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Prune = -1
			tolerance := 1e-12
			if o.withDefaults().Hides() { // the filter rounds in every step of a gap
				tolerance = 1e-7
			}
			m := tinyModel(t)
			records := seenOf(t, m, o, steps)
			u := newSmoother(t, m, o, SmoothAll)
			var before [][]float64 // the state after each record
			for _, r := range records {
				u.take(t, r)
				d := make([]float64, m.Grid.Cells())
				for i, c := range u.state.Posterior.Cells {
					d[c] = u.state.Posterior.P[i]
				}
				before = append(before, d)
			}
			all, told := u.finish(t), 0.0
			for i := 1; i < len(records); i++ {
				got := &all[u.number[i]]
				if got.Step != records[i].Step || got.Until != records[len(records)-1].Step {
					t.Fatalf("record %d has moment %d: %+v", i, u.number[i], got.Smoothed)
				}
				if records[i].Step == records[i-1].Step {
					continue
				}
				want := bruteForce(t, m, o, records, before[i-1], i-1, i)
				for j, c := range got.posterior.Cells {
					if d := math.Abs(got.posterior.P[j] - want[c]); d > tolerance {
						t.Errorf("record %d, cell %d: %v, want %v", i, c, got.posterior.P[j],
							want[c])
					}
					told += math.Abs(want[c] - before[i][c])
				}
			}
			if told < .001 {
				t.Errorf("later records change the posteriors by %.3f only", told)
			}
		})
	}
}

// lagged are records with gaps, over some of which the filter starts again.
func lagged() (steps []int64) {
	for step := int64(3); step < 190; step++ {
		if step%40 > 33 || step%7 == 5 {
			continue
		}
		steps = append(steps, step)
		if step%5 == 0 {
			steps = append(steps, step)
		}
	}
	return append(steps, 300, 301, 302, 320)
}

// TestSmootherLag: each step is smoothed by the records up to the first release at or after step +
// lag, or up to the last one from which it is followed. What comes out is what these records alone
// give, bit for bit. So it does not depend on how far a block has waited.
func TestSmootherLag(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"codebook": {Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 6, MaxGap: 30},
		"lattice": {
			Mechanism: law.Lattice, Epsilon: 2, ReleaseInterval: 6, Delta: .1, MaxGap: 30,
		},
	} {
		for _, lag := range []int64{1, 6, 20, SmoothAll} {
			t.Run(fmt.Sprint(name, " ", lag), func(t *testing.T) {
				t.Parallel()
				checkLag(t, gapModel(t), o, lag)
				checkLag(t, roadModel(t), o, lag)
			})
		}
	}
}

func checkLag(t *testing.T, m *mobility.Model, o Options, lag int64) {
	t.Helper()
	records := seenOf(t, m, o, lagged())
	u := newSmoother(t, m, o, lag)
	var filter State
	for _, r := range records {
		u.take(t, r)
		if err := u.s.Observe(&filter, r); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(filter.AppendBinary(nil), u.state.AppendBinary(nil)) {
			t.Fatalf("step %d: the state is not the filter's", r.Step)
		}
		if open := u.block.records; lag > 0 && open > int(2*lag)+30 {
			t.Fatalf("step %d: %d records wait", r.Step, open)
		}
	}
	u.finish(t)
	for i, r := range records {
		end := i
		for end+1 < len(records) {
			gap := uint64(records[end+1].Step - records[end].Step)
			closes := lag > 0 && records[end].Kind == Released && records[end].Step >= r.Step+lag
			if closes || gap > o.LongestGap(m) {
				break
			}
			end++
		}
		for records[end].Kind != Released && end > i && records[end-1].Step == records[end].Step {
			end--
		}
		got := &u.all[u.number[i]]
		if got.Step != r.Step || got.Until != records[end].Step {
			t.Fatalf("lag %d, record %d of step %d: %+v, want the records up to %d", lag, i, r.Step,
				got.Smoothed, records[end].Step)
		}
		if i%7 > 0 {
			continue
		}
		alone := newSmoother(t, m, o, SmoothAll)
		want := &alone.finish(t, records[:end+1]...)[alone.number[i]]
		if got.Estimate != want.Estimate || got.RadiusKM != want.RadiusKM ||
			!slices.Equal(got.posterior.P, want.posterior.P) {
			t.Fatalf("lag %d, step %d: %+v, want %+v", lag, r.Step, got.Smoothed, want.Smoothed)
		}
	}
}

// TestSmootherBlock: a block of MaxBlock records, or of MaxWait with a finite lag, closes with what
// it has, in the middle of a step too, and the next one goes on from the filter's state.
func TestSmootherBlock(t *testing.T) {
	t.Parallel()
	testSmootherBlock(t, SmoothAll, MaxBlock)
	testSmootherBlock(t, 50, MaxWait)
}

func testSmootherBlock(t *testing.T, lag int64, most int) {
	t.Helper()
	m, o := roadModel(t), Options{Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 4}
	records := seenOf(t, m, o, []int64{3, 4, 5, 6, 7})
	u := newSmoother(t, m, o, lag)
	u.take(t, records[:2]...)
	again := records[1]
	again.Kind = Repeated
	for len(u.number) < most+5 {
		u.take(t, again)
	}
	if len(u.all) != 2 || u.all[0].Until != 4 || u.block.Open() != 2 || u.block.records != 5 {
		t.Fatalf("%d moments are closed, and %d records wait", len(u.all), u.block.records)
	}
	all := u.finish(t, records[2:]...)
	if len(all) != 6 || all[2].Step != 4 || all[2].Until != 7 {
		t.Fatalf("%d moments; the third is %+v", len(all), all[2].Smoothed)
	}
	if d := all[2].posterior.Total(); math.Abs(d-1) > 1e-12 {
		t.Errorf("the posterior of a step whose block has closed sums to %v", d)
	}
}

// TestSmootherGains: with what comes later, estimates are nearer to walkers who follow the model,
// and their radii hold 90 to 99 % of the places.
func TestSmootherGains(t *testing.T) {
	t.Parallel()
	m := denseModel(t, 20, 20)
	path := walk(m, 5, 400)
	for _, o := range []Options{
		{Mechanism: law.Codebook, Epsilon: 3, ReleaseInterval: 5},
		{Mechanism: law.Lattice, Epsilon: 3, ReleaseInterval: 5, Delta: .3},
	} {
		var steps []int64
		for step := range int64(400) {
			steps = append(steps, step)
		}
		u := newSmoother(t, m, o, 5)
		var filter, smooth, inside float64
		for _, r := range seenOf(t, m, o, steps) {
			u.take(t, r)
			filter += u.state.Estimate.Distance(m.Grid.Centre(path[r.Step]))
		}
		for _, one := range u.finish(t) {
			d := one.Estimate.Distance(m.Grid.Centre(path[one.Step]))
			smooth += d
			if d <= one.RadiusKM {
				inside++
			}
		}
		if smooth > .9*filter || inside < .9*400 || inside > .99*400 {
			t.Errorf("%s: %.3f km smoothed, %.3f by the filter; radii hold %.3f", o.Mechanism,
				smooth/400, filter/400, inside/400)
		}
	}
}

// TestSmootherBits holds smoothed estimates to the same bits on every architecture.
func TestSmootherBits(t *testing.T) {
	t.Parallel()
	hash := sha256.New()
	for _, o := range []Options{
		{Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 4},
		{Mechanism: law.Lattice, Epsilon: 2, ReleaseInterval: 4, Delta: .1},
	} {
		u := newSmoother(t, gapModel(t), o, 4)
		for _, one := range u.finish(t, seenOf(t, gapModel(t), o, lagged())...) {
			for _, x := range []float64{one.Estimate.X, one.Estimate.Y, one.RadiusKM} {
				hash.Write(appendFloat(nil, x))
			}
		}
	}
	if got := hex.EncodeToString(hash.Sum(nil)[:8]); got != "75d5325fccaa8a16" {
		t.Errorf("the smoothed estimates have the hash %s", got)
	}
}

// BenchmarkSmoother measures what smoothing adds to the filter, for each record: run both.
func BenchmarkSmoother(b *testing.B) {
	m := denseModel(b, 40, 40)
	o := Options{Mechanism: law.Codebook, Epsilon: 4, ReleaseInterval: 10}
	var steps []int64
	for step := range int64(400) {
		steps = append(steps, step)
	}
	records := seenOf(b, m, o, steps)
	for _, lag := range []int64{0, 10, 60, SmoothAll} {
		name := fmt.Sprint("lag=", lag)
		if lag == 0 {
			name = "filter"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			u := newSmoother(b, m, o, lag)
			for n := 0; b.Loop(); n++ {
				r := records[n%len(records)]
				if n%len(records) == 0 {
					u.Finish(&u.block, func(Smoothed) {})
					u.state.Started = false
				}
				var err error
				if lag == 0 {
					err = u.s.Observe(&u.state, r)
				} else {
					_, err = u.Observe(&u.block, u.s, &u.state, r, func(Smoothed) {})
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
