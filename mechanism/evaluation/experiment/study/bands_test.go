package study

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study/studytest"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/trial"
)

// TestTally computes the metrics of three timestamps by hand.
func TestTally(t *testing.T) {
	g := studytest.Grid(t) // cells of .5 km
	at := func(column, row int) grid.Point {
		return grid.Point{X: (float64(column) + .5) * .5, Y: (float64(row) + .5) * .5}
	}
	var tally Tally
	for _, c := range []struct {
		cell              grid.Cell
		set               int
		drift             bool
		release, estimate grid.Point
	}{
		{0, 4, false, at(6, 8), at(0, 0)},                    // 3 and 4 km away: 5 km; and 0
		{studytest.Side + 1, 2, true, at(1, 1), at(1, 3)},    // 0; 1 km
		{studytest.Side*2 + 2, 3, false, at(8, 2), at(2, 6)}, // 3 km; 2 km
	} {
		tally.AddResult(&trial.Result{
			Report: trial.Report{Cell: c.cell, Place: g.Centre(c.cell)},
			Outcome: mechanism.Outcome{
				SetSize: c.set, Drift: c.drift, Release: c.release, Estimate: c.estimate,
			},
		})
	}
	all := []Tally{tally}
	for name, c := range map[string]struct{ got, want float64 }{
		"|ΔX|":              {SetBand(all).Value, 3},
		"drift ratio":       {DriftBand(all).Value, 1. / 3},
		"release rms":       {ReleaseBand(all).Value, math.Sqrt(34. / 3)},
		"estimate rms":      {EstimateBand(all).Value, math.Sqrt(5. / 3)},
		"release, summed":   {tally.Release, 8},
		"estimates, summed": {tally.Estimate, 3},
	} {
		if !studytest.Near(c.got, c.want) {
			t.Errorf("%s: %g, want %g", name, c.got, c.want)
		}
	}
}

// TestRatio: two clusters by hand. Sums 2 of 4 and 6 of 4: the ratio is 1, the residuals -2 and 2,
// so the variance is 2·8/8² and the interval 1 ± t·.5 with t = tan(.475π) of one degree of
// freedom, cut off at 0.
func TestRatio(t *testing.T) {
	b := Ratio([]float64{2, 6}, []float64{4, 4})
	if half := .5 * math.Tan(.475*math.Pi); !studytest.Near(b.Value, 1) || b.Low != 0 ||
		math.Abs(b.High-1-half) > 1e-6 {
		t.Errorf("band %+v, want 1, 0, %g", b, 1+half)
	}
	if b := Ratio([]float64{3}, []float64{4}); b.Value != .75 || !math.IsNaN(b.Low) ||
		!math.IsNaN(b.High) {
		t.Errorf("one cluster has the band %+v", b)
	}
	// Where nobody differs, be it at 0, nothing says how others would.
	for _, share := range []float64{0, .1, 1. / 3} {
		over, by := make([]float64, 8), []float64{1, 7, 9, 11, 13, 49, 60, 3}
		for i := range over {
			over[i] = share * by[i]
		}
		b := Ratio(over, by)
		if !studytest.Near(b.Value, share) || !math.IsNaN(b.Low) || !math.IsNaN(b.High) ||
			b.String() != Short(b.Value) || b.Fields()[1] != "" {
			t.Errorf("eight equal users have the band %+v, %q, %q", b, b.String(), b.Fields())
		}
		if root := b.Root(); !math.IsNaN(root.Low) || !math.IsNaN(root.High) {
			t.Errorf("and the root %+v", root)
		}
	}
	if b := Ratio(nil, nil); !math.IsNaN(b.Value) {
		t.Errorf("nothing has the value %g", b.Value)
	}
	root := Band{4, 3, 5}.Root()
	if !studytest.Near(root.Value, 2) || !studytest.Near(root.Low, 2*math.Exp(-.125)) ||
		!studytest.Near(root.High, 2*math.Exp(.125)) {
		t.Errorf("the root's band is %+v", root)
	}
}

// TestRatioCovers draws clusters of correlated values many times: the interval must hold the true
// mean about as often as it says. It holds it at a rate of .95, and of 2,000 trials between 1,853
// and 1,944 do but once in 10⁵ suites (binomial, ±4.4 σ). An interval that took values for
// independent would hold it far less often, which the test also asks for.
func TestRatioCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const trials, clusters, size = 2000, 30, 20
	held, naive := 0, 0
	for range trials {
		over, by := make([]float64, clusters), make([]float64, clusters)
		var values, ones []float64
		for c := range clusters {
			shift := rng.NormFloat64()
			for range size {
				v := 10 + shift + rng.NormFloat64()
				over[c] += v
				by[c]++
				values, ones = append(values, v), append(ones, 1)
			}
		}
		if b := Ratio(over, by); b.Low <= 10 && b.High >= 10 {
			held++
		}
		if b := Ratio(values, ones); b.Low <= 10 && b.High >= 10 {
			naive++
		}
	}
	if held < 1853 || held > 1944 {
		t.Errorf("%d of %d intervals hold the mean, want 1853 to 1944", held, trials)
	}
	if naive > 1400 {
		t.Errorf("%d intervals that ignore clusters hold the mean: the test cannot tell", naive)
	}
}
