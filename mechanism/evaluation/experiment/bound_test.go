package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// random returns n places in a unit square, with masses of a few orders of magnitude.
func random(r *rand.Rand, n int) (places []grid.Point, mass []float64) {
	for range n {
		places = append(places, grid.Point{X: r.Float64(), Y: r.Float64()})
		mass = append(mass, math.Exp(3*r.NormFloat64()))
	}
	return places, mass
}

func mustBound(t *testing.T, places []grid.Point, mass []float64, epsilon float64) leastError {
	t.Helper()
	r, err := leastSquaredError(places, mass, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustHold checks what leastSquaredError promises of every result.
func mustHold(t *testing.T, r leastError, epsilon float64) {
	t.Helper()
	if !(r.Bound >= 0 && r.Reached <= r.Variance) {
		t.Errorf("bound %v, reached %v, variance %v", r.Bound, r.Reached, r.Variance)
	}
	gain := r.Variance - r.Reached
	gap, most := r.Reached-r.Bound, min(1.1*gainShare*gain, 1.1*errorShare*r.Reached)
	if gap < -1e-10*r.Variance || gap > max(most, 2*leastGap*r.Variance) {
		t.Errorf("reached %v, bound %v: gap %v, want 0 to %v", r.Reached, r.Bound, gap, most)
	}
	sum := make([]float64, len(r.Mechanism[0]))
	for _, row := range r.Mechanism {
		low, high := row[0], row[0]
		for i, v := range row {
			sum[i] += v
			low, high = min(low, v), max(high, v)
		}
		if !(low >= 0 && high <= low*math.Exp(epsilon)*(1+1e-9)) {
			t.Errorf("an output has likelihoods %v to %v at ε = %v", low, high, epsilon)
		}
	}
	for i, v := range sum {
		if math.Abs(v-1) > 1e-9 {
			t.Errorf("the outputs at place %d have probability %v in total", i, v)
		}
	}
}

// mustEnclose checks a result against the error that is known to be the least.
func mustEnclose(t *testing.T, r leastError, want float64) {
	t.Helper()
	if !(r.Bound <= want*(1+1e-6) && r.Reached >= want*(1-1e-6)) {
		t.Errorf("bound %v, reached %v, want %v between them", r.Bound, r.Reached, want)
	}
}

// response is randomized response over the blocks of a partition; block[i] < m is that of place i.
func response(block []int, m int, epsilon float64) [][]float64 {
	low := 1 / (float64(m-1) + math.Exp(epsilon))
	rows := make([][]float64, m)
	for k := range rows {
		rows[k] = make([]float64, len(block))
		for i, b := range block {
			rows[k][i] = low
			if b == k {
				rows[k][i] *= math.Exp(epsilon)
			}
		}
	}
	return rows
}

// Of two places every ε-DP mechanism is randomized response with something forgotten.
func TestTwoPlaces(t *testing.T) {
	places := []grid.Point{{X: 1, Y: 2}, {X: 4, Y: 6}} // 5 apart
	for _, epsilon := range []float64{1e-3, .1, 1, 4, 10, 20} {
		r := mustBound(t, places, []float64{1, 1}, epsilon)
		mustHold(t, r, epsilon)
		tanh := math.Tanh(epsilon / 2)
		mustEnclose(t, r, 25./4*(1-tanh*tanh))
	}
	for _, share := range []float64{.001, .2, .9} {
		mass := []float64{share, 1 - share}
		r := mustBound(t, places, mass, 1)
		mustHold(t, r, 1)
		mustEnclose(t, r, expectedError(places, mass, response([]int{0, 1}, 2, 1)))
	}
}

// The corners of a regular polygon have a closed form. By symmetry all prices are equal, so the
// gain is the largest |m(q)|²; of the sets of k corners, k neighbours have the largest moment; and
// the rotations of such a set make up a mechanism.
func TestPolygons(t *testing.T) {
	for n := 3; n <= 12; n++ {
		var places []grid.Point
		mass := make([]float64, n)
		for i := range n {
			y, x := math.Sincos(2 * math.Pi * float64(i) / float64(n))
			places = append(places, grid.Point{X: x, Y: y})
			mass[i] = 7
		}
		for _, epsilon := range []float64{.1, 1, 3, 6} {
			best := 0.
			for k := 1; k < n; k++ {
				share, e := float64(k)/float64(n), math.Expm1(epsilon)
				moment := math.Sin(math.Pi*share) / math.Sin(math.Pi/float64(n)) / float64(n)
				m := e * moment / (1 + e*share)
				best = max(best, m*m)
			}
			r := mustBound(t, places, mass, epsilon)
			mustHold(t, r, epsilon)
			mustEnclose(t, r, 1-best)
		}
	}
}

// The walk along the circles finds the largest excess of all 2ⁿ sets, at prices of every kind.
func TestSweepFindsAll(t *testing.T) {
	src := rand.New(rand.NewPCG(1, 2))
	positive := 0
	for trial := range 300 {
		places, mass := random(src, 2+trial%9)
		p := newNormalPrior(places, mass, math.Exp(2*src.NormFloat64()/2))
		price := make([]float64, len(p.at))
		for i, x := range p.at {
			price[i] = normSquared(x)*src.Float64() + .2*src.NormFloat64()
		}
		mean, want := p.mean(price), math.Inf(-1)
		for s := range 1 << len(p.at) {
			var sum tally
			for i := range p.at {
				if s>>i&1 == 1 {
					sum.add(p, price, i, 1)
				}
			}
			want = max(want, sum.excess(p, mean))
		}
		_, got := p.sweep(price)
		if (got > 1e-12) != (want > 1e-12) {
			t.Errorf("trial %d: the walk finds an excess of %v, all sets have %v", trial, got, want)
		}
		if want <= 0 {
			continue
		}
		positive++
		if got = p.certify(price, got, 1e-9); got < want-1e-12 || got > want+1e-8 {
			t.Errorf("trial %d: certified excess %v, all sets have %v", trial, got, want)
		}
	}
	if positive < 50 || positive > 290 {
		t.Errorf("%d of 300 trials have an excess: the prices test one side only", positive)
	}
}

// No mechanism that is ε-DP by construction is better than the bound, and the mechanism that is
// found is better than all of them.
func TestNoMechanismIsBetter(t *testing.T) {
	src := rand.New(rand.NewPCG(3, 4))
	for trial := range 24 {
		n := 3 + trial
		places, mass := random(src, n)
		epsilon := []float64{.2, 1, 2, 4, 7}[trial%5]
		r := mustBound(t, places, mass, epsilon)
		mustHold(t, r, epsilon)
		try := func(what string, mechanism [][]float64) {
			t.Helper()
			e := expectedError(places, mass, mechanism)
			if e < r.Bound || e < r.Reached-.011*r.Reached {
				t.Errorf("%d places, ε = %v: %s has error %v, bound %v, reached %v",
					n, epsilon, what, e, r.Bound, r.Reached)
			}
		}
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		try("randomized response", response(all, n, epsilon))
		for range 50 {
			m := 2 + src.IntN(n-1)
			codes := src.Perm(n)[:m]
			block := make([]int, n)
			for i, x := range places {
				for k, c := range codes {
					if x.Distance(places[c]) < x.Distance(places[codes[block[i]]]) {
						block[i] = k
					}
				}
			}
			try("a codebook", response(block, m, epsilon))
			// Every place is in as many of the sets as any other: k neighbours in a random circle.
			order, k := src.Perm(n), 1+src.IntN(n-1)
			rows := make([][]float64, n)
			for a := range rows {
				rows[a] = make([]float64, n)
				for i := range n {
					rows[a][order[(a+i)%n]] = 1 / (float64(k)*math.Exp(epsilon) + float64(n-k))
					if i < k {
						rows[a][order[(a+i)%n]] *= math.Exp(epsilon)
					}
				}
			}
			try("a staircase", rows)
		}
	}
}

func TestBoundAtExtremes(t *testing.T) {
	src := rand.New(rand.NewPCG(5, 6))
	for _, epsilon := range []float64{1e-3, .02, 8, 20} {
		places, mass := random(src, 25)
		mustHold(t, mustBound(t, places, mass, epsilon), epsilon)
	}
	line := make([]grid.Point, 20)
	even := make([]float64, len(line))
	for i := range line {
		line[i], even[i] = grid.Point{X: float64(i), Y: 2 * float64(i)}, 1
	}
	mustHold(t, mustBound(t, line, even, 2), 2)
	even[4], even[5] = 1e-9, 1e9
	mustHold(t, mustBound(t, line, even, 2), 2)
}

// The bound knows neither the unit nor the origin nor the scale of the masses.
func TestBoundInvariance(t *testing.T) {
	places, mass := random(rand.New(rand.NewPCG(7, 8)), 12)
	want := mustBound(t, places, mass, 1.5)
	var moved []grid.Point
	var scaled []float64
	for i, x := range places {
		moved = append(moved, grid.Point{X: 5000 - 3*x.Y, Y: -700 + 3*x.X})
		scaled = append(scaled, 4*mass[i])
	}
	got := mustBound(t, moved, scaled, 1.5)
	mustHold(t, got, 1.5)
	if r := got.Bound / 9 / want.Bound; math.Abs(r-1) > 2e-3 {
		t.Errorf("bound %v, moved and scaled %v", want.Bound, got.Bound/9)
	}
	if r := got.Variance / 9 / want.Variance; math.Abs(r-1) > 1e-6 {
		t.Errorf("variance %v, moved and scaled %v", want.Variance, got.Variance/9)
	}
}

func TestOnePlace(t *testing.T) {
	r := mustBound(t, []grid.Point{{X: 3, Y: 4}}, []float64{3}, 1)
	mustHold(t, r, 1)
	if r.Variance != 0 || r.Bound != 0 || r.Reached != 0 {
		t.Errorf("%+v, want no error", r)
	}
}
