package mechanism

import (
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	bounds "github.com/geodither/geodither/mechanism/moment"
)

// toldOf returns what all records tell about each of their moments.
func toldOf(tb testing.TB, m *mobility.Model, o Options, records []Seen) (all []Told) {
	tb.Helper()
	s, teller := newSanitizer(tb, m, o), NewTeller(o)
	var state State
	var block ToldBlock
	each := func(told Told) {
		told.ratio, told.later = slices.Clone(told.ratio), slices.Clone(told.later)
		all = append(all, told)
	}
	for i, r := range records {
		if err := s.Observe(&state, r); err != nil {
			tb.Fatal(err)
		}
		teller.Note(&block, s, &state, r, i > 0, each)
	}
	teller.Finish(&block, each)
	slices.Reverse(all) // they close from the last one back
	return all
}

// priorAt returns what the model says of a step without any release, after the steps of records.
func priorAt(m *mobility.Model, o Options, records []Seen, t int) []float64 {
	predictor, d := mobility.NewPredictor(m), m.Initial
	for i := range t {
		var next mobility.Distribution
		gap := records[i+1].Step - records[i].Step
		if !o.LearnedGaps(m) || !predictor.PredictGap(&next, &d, records[i].Step, uint64(gap), 0) {
			predictor.Predict(&next, &d, records[i].Step, int(gap))
		}
		d = next
	}
	p := make([]float64, m.Grid.Cells())
	for i, c := range d.Cells {
		p[c] = d.P[i]
	}
	return p
}

// TestTellerIsExact compares with the sum over all paths of a small chain: over gaps, a change of
// the calendar's class and a law of gaps, at releases and between them.
func TestTellerIsExact(t *testing.T) {
	const friday = 60*24*2 - 4
	for name, o := range map[string]Options{
		"codebook": {Mechanism: law.Codebook, Epsilon: 1},
		"lattice":  {Mechanism: law.Lattice, Epsilon: 1, Delta: .1},
		"interval": {Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 2},
	} {
		m := tinyModel(t)
		records := seenOf(t, m, o, []int64{
			friday, friday + 1, friday + 2, friday + 3, friday + 7, friday + 8,
		})
		first, s := slices.Clone(priorAt(m, o, records, 0)), newSanitizer(t, m, o)
		if err := s.Observe(new(State), records[0]); err != nil {
			t.Fatal(err)
		}
		var all []grid.Cell
		for c := range first {
			all = append(all, grid.Cell(c))
		}
		for c, l := range s.Emission().Likelihoods(records[0].Release, all) {
			first[c] *= l
		}
		between := 0
		for i, got := range toldOf(t, m, o, records) {
			low, high := math.Inf(1), 0.0
			prior, posterior := priorAt(m, o, records, i), bruteForce(t, m, o, records, first, 0, i)
			for c, p := range posterior {
				if prior[c] > 0 {
					low, high = min(low, p/prior[c]), max(high, p/prior[c])
				}
				_, learned := got.Learned(0, grid.Cell(c))
				pair := math.Log(posterior[0] / prior[0] / (p / prior[c]))
				if !(math.Abs(learned-pair) < 1e-9) && !math.IsNaN(pair) {
					t.Errorf("%s: moment %d, cells 0 and %d: %g, and %g by all paths", name, i, c,
						learned, pair)
				}
			}
			if then, all := got.Learned(0, 1); i == len(records)-1 && then != all {
				t.Errorf("%s: at the last moment %g is learned then, and %g with later records",
					name, then, all)
			}
			want := math.Log(high / low)
			if math.Abs(got.LnRatio-want) > 1e-9 || got.Step != records[i].Step ||
				got.Released != (records[i].Kind == Released) || want < .01 {
				t.Errorf("%s: moment %d is %+v, and %g by all paths", name, i, got, want)
			}
			if !got.Released {
				between++
			}
		}
		if (between > 0) != (name == "interval") {
			t.Errorf("%s: %d moments between releases", name, between)
		}
	}
}

// TestTellerStaysFinite: between two islands that nobody leaves, all ε add up. What all records
// tell stays a number where the probability of the other island has none any more.
func TestTellerStaysFinite(t *testing.T) {
	m := weightedModel(t, 6, 1, 2, .34, func(column, _, dx, _ int) float64 {
		if column/3 != (column+dx)/3 {
			return 0
		}
		return 1
	})
	m.Initial = mobility.Uniform(m.Grid)
	o := Options{Mechanism: law.Codebook, Epsilon: 400}
	var steps []int64
	for i := range int64(60) {
		steps = append(steps, i)
	}
	records := seenOf(t, m, o, steps)
	all := toldOf(t, m, o, records)
	for i, told := range all {
		then, later := told.Learned(0, 5)
		if !(told.LnRatio > 690 && told.LnRatio < 1400) || math.IsInf(then, 0) ||
			math.IsNaN(then) || math.IsInf(later, 0) || math.IsNaN(later) {
			t.Errorf("moment %d tells %g; of two cells %g then, and %g with all", i, told.LnRatio,
				then, later)
		}
	}
	if len(all) != len(records) || len(all) != len(steps) {
		t.Fatalf("%d moments of %d records", len(all), len(records))
	}
}

// TestToldIsBounded holds what the records of long walks tell to the bound that package moment
// proves for the model, the interval and ε, and to the sum of all ε.
func TestToldIsBounded(t *testing.T) {
	m := denseModel(t, 6, 5)
	m.Initial = mobility.Uniform(m.Grid)
	var steps []int64
	for i := range int64(240) {
		steps = append(steps, i)
	}
	most, closest := 0.0, 0.0
	for _, interval := range []int{4, 12, 24} {
		forgetting, err := bounds.New(m, interval, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, epsilon := range []float64{.5, 1, 2, 4} {
			bound := forgetting.Most(epsilon)
			o := Options{Mechanism: law.Codebook, Epsilon: epsilon, ReleaseInterval: interval}
			for _, told := range toldOf(t, m, o, seenOf(t, m, o, steps)) {
				limit := bound.Between
				if told.Released {
					limit = bound.At
				}
				limit = min(limit, epsilon*math.Ceil(240/float64(interval)))
				if !(told.LnRatio >= 0) || told.LnRatio > limit+1e-9 {
					t.Fatalf("ε = %g every %d: %+v, bound %+v", epsilon, interval, told, bound)
				}
				most = max(most, told.LnRatio/epsilon)
				closest = max(closest, told.LnRatio/limit)
			}
		}
	}
	if most < 1.2 || closest < .4 {
		t.Errorf("all records tell %.2f times what one may, and %.2f of the bound", most, closest)
	}
}

// TestTellerForgetsOldMoments: the moments of a block that has no more room close early, once each
// and in order, with nearly what they have with all records.
func TestTellerForgetsOldMoments(t *testing.T) {
	m := denseModel(t, 5, 4)
	m.Initial = mobility.Uniform(m.Grid)
	var steps []int64
	for i := range int64(300) {
		steps = append(steps, i)
	}
	o := Options{Mechanism: law.Codebook, Epsilon: 1}
	records := seenOf(t, m, o, steps)
	want := toldOf(t, m, o, records)
	s, teller := newSanitizer(t, m, o), NewTeller(o)
	teller.most = 200 * 20
	var state State
	var block ToldBlock
	got := map[int64]float64{}
	each := func(told Told) {
		if _, twice := got[told.Step]; twice {
			t.Errorf("step %d closes twice", told.Step)
		}
		got[told.Step] = told.LnRatio
	}
	for i, r := range records {
		if err := s.Observe(&state, r); err != nil {
			t.Fatal(err)
		}
		teller.Note(&block, s, &state, r, i > 0, each)
		if len(block.moments) > 200 {
			t.Fatalf("%d moments are open", len(block.moments))
		}
	}
	teller.Finish(&block, each)
	exact := 0
	for _, told := range want {
		if got[told.Step] == told.LnRatio {
			exact++
		}
		if d := math.Abs(got[told.Step] - told.LnRatio); d > .01 {
			t.Errorf("step %d: %g, and %g with all", told.Step, got[told.Step], told.LnRatio)
		}
	}
	if len(got) != 300 || exact < 150 || exact == 300 {
		t.Errorf("%d moments, %d as with all records", len(got), exact)
	}
}
