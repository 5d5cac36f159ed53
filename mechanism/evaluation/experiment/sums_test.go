package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// TestRatio: two clusters by hand. Sums 2 of 4 and 6 of 4: the ratio is 1, the residuals -2 and 2,
// so the variance is 2·8/8² and the interval 1 ± t·.5 with t = tan(.475π) of one degree of
// freedom, cut off at 0.
func TestRatio(t *testing.T) {
	b := Ratio([]float64{2, 6}, []float64{4, 4})
	if half := .5 * math.Tan(.475*math.Pi); !near(b.Value, 1) || b.Low != 0 ||
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
		if !near(b.Value, share) || !math.IsNaN(b.Low) || !math.IsNaN(b.High) ||
			b.String() != report.Short(b.Value) {
			t.Errorf("eight equal users have the band %+v, %q", b, b.String())
		}
		if root := b.Root(); !math.IsNaN(root.Low) || !math.IsNaN(root.High) {
			t.Errorf("and the root %+v", root)
		}
	}
	if b := Ratio(nil, nil); !math.IsNaN(b.Value) {
		t.Errorf("nothing has the value %g", b.Value)
	}
	root := report.Band{Value: 4, Low: 3, High: 5}.Root()
	if !near(root.Value, 2) || !near(root.Low, 2*math.Exp(-.125)) ||
		!near(root.High, 2*math.Exp(.125)) {
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

// TestWindows: sums add up window by window, and a cluster without any timestamp in some windows is
// not among their clusters.
func TestWindows(t *testing.T) {
	w := Windows{
		{{1, []float64{2, 3}}, {2, []float64{4, 5}}, {1, []float64{8, 1}}},
		{{1, []float64{10, 20}}},
	}
	if all := w.All(); len(all) != 2 || all[0].N != 4 || all[0].Of[0] != 14 || all[0].Of[1] != 9 ||
		all.N() != 5 {
		t.Errorf("all are %+v", all)
	}
	if late := w.Between(1, 3); len(late) != 1 || late[0].N != 3 || late[0].Of[1] != 6 {
		t.Errorf("from the second window on there is %+v", late)
	}
	mean := w.All().Mean(func(s Sums) float64 { return s.Of[0] })
	if !near(mean.Value, 24./5) || w.Len() != 3 {
		t.Errorf("mean %+v of %d windows", mean, w.Len())
	}
}
