package law

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

func newQuantizer(tb testing.TB, g *grid.Grid, epsilon float64) *Quantizer {
	tb.Helper()
	q, err := NewQuantizer(g, epsilon)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// codebookEpsilons are from one that releases nothing much to one beyond 64 bits.
var codebookEpsilons = []float64{1e-6, .001, .1, .5, 1, 2, 4, 6, 8, 12, 20, 44.3, 45, 700}

// blobs is a prior of Gaussian masses at the given places of a map, above 10⁻⁷ of the greatest.
func blobs(g *grid.Grid, sigma float64, centres ...convex.Vec) *mobility.Distribution {
	d := &mobility.Distribution{}
	for _, c := range testcase.AllCells(g) {
		p := 0.0
		for _, o := range centres {
			x, y := float64(g.Column(c))-o.X, float64(g.Row(c))-o.Y
			p += math.Exp(-(x*x + y*y) / (2 * sigma * sigma))
		}
		if p > 1e-7 {
			d.Cells, d.P = append(d.Cells, c), append(d.P, p)
		}
	}
	d.Normalize()
	return d
}

// expOfMinus returns e^-ε, up to a part in 2⁸⁰⁰, by a way of its own: the alternating series
// of e^-y for y = ε/2¹², squared twelve times.
func expOfMinus(epsilon float64) *big.Float {
	const precision, halvings = 1000, 12
	number := func() *big.Float { return new(big.Float).SetPrec(precision) }
	p, q, err := exactEpsilon(epsilon)
	if err != nil {
		panic(err)
	}
	y := number().Quo(number().SetUint64(p), number().SetUint64(q<<halvings))
	term, sum := number().SetInt64(1), number().SetInt64(1)
	for k := int64(1); k < 400; k++ {
		term.Mul(term, y)
		term.Quo(term, number().SetInt64(-k))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// TestOtherWeight: T is the least whole number that is not below 2⁶⁴·e^-ε.
func TestOtherWeight(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(101, 1))
	all := slices.Clone(codebookEpsilons)
	for range 100 {
		all = append(all, max(1e-6, math.Round(r.Float64()*50*1e6)/1e6))
	}
	for _, epsilon := range all {
		exact := expOfMinus(epsilon)
		exact.SetMantExp(exact, 64)
		weight := otherWeight(epsilon)
		least := new(big.Float).SetUint64(weight)
		below := new(big.Float).SetPrec(1000).Sub(least, big.NewFloat(1))
		if least.Cmp(exact) < 0 || below.Cmp(exact) >= 0 {
			t.Errorf("ε = %v: T = %d for %.3f", epsilon, weight, exact)
		}
	}
}

// drawAt returns the index that a quantizer answers for a vote where the draw below 2⁶⁴ +
// (m-1)·T comes to u.
func drawAt(tb testing.TB, q *Quantizer, own int, u *big.Int) int {
	tb.Helper()
	hi, lo := new(big.Int).Rsh(u, 64), new(big.Int).And(u, new(big.Int).SetUint64(math.MaxUint64))
	s := &script{words: []uint64{lo.Uint64(), hi.Uint64()}, then: &noSource{tb}}
	j := q.Sample(s, own)
	if len(s.words) > 0 {
		tb.Fatal("an answer took fewer than two words")
	}
	return j
}

// answerWeights measures how many draws lead to each answer for a vote: the answers at both ends of
// 2⁶⁴ draws, and of T draws for each other code point, between which answers do not change.
func answerWeights(tb testing.TB, q *Quantizer, own int) []*big.Int {
	tb.Helper()
	weights := make([]*big.Int, len(q.points))
	one, from := big.NewInt(1), new(big.Int)
	for k := range q.points {
		size := new(big.Int).SetUint64(q.other)
		if k == 0 {
			size.Lsh(one, 64)
		}
		if len(q.points) == 1 {
			return []*big.Int{size}
		}
		to := new(big.Int).Add(from, size)
		j := drawAt(tb, q, own, from)
		if last := drawAt(tb, q, own, new(big.Int).Sub(to, one)); last != j {
			tb.Fatalf("%d draws for a vote give %d and %d", size, j, last)
		}
		if weights[j] != nil {
			tb.Fatalf("answer %d has two parts of the draws", j)
		}
		weights[j], from = size, to
	}
	return weights
}

// codebookLaw is the weight of every answer for a cell: of what a Quantizer does, or of a fault.
type codebookLaw func(tb testing.TB, q *Quantizer, d *mobility.Distribution, x grid.Cell) []*big.Int

func trueLaw(tb testing.TB, q *Quantizer, _ *mobility.Distribution, x grid.Cell) []*big.Int {
	tb.Helper()
	return answerWeights(tb, q, q.Vote(x))
}

var lawFaults = map[string]codebookLaw{
	"T rounded down": func(tb testing.TB, q *Quantizer, _ *mobility.Distribution, x grid.Cell,
	) []*big.Int {
		tb.Helper()
		w := answerWeights(tb, q, q.Vote(x))
		for j := range w {
			if j != q.Vote(x) {
				w[j].Sub(w[j], big.NewInt(1))
			}
		}
		return w
	},
	"a vote counted by prior": func(tb testing.TB, q *Quantizer, d *mobility.Distribution,
		x grid.Cell,
	) []*big.Int {
		tb.Helper()
		w := answerWeights(tb, q, q.Vote(x))
		scale := big.NewInt(int64(d.At(x)*1e9) + 1)
		w[q.Vote(x)].Mul(w[q.Vote(x)], scale)
		return w
	},
	"others only where the prior has mass": func(tb testing.TB, q *Quantizer,
		d *mobility.Distribution, x grid.Cell,
	) []*big.Int {
		tb.Helper()
		w := answerWeights(tb, q, q.Vote(x))
		if d.At(x) == 0 {
			for j := range w {
				if j != q.Vote(x) {
					w[j].SetInt64(0)
				}
			}
		}
		return w
	},
	"the own answer twice": func(tb testing.TB, q *Quantizer, _ *mobility.Distribution,
		x grid.Cell,
	) []*big.Int {
		tb.Helper()
		w := answerWeights(tb, q, q.Vote(x))
		w[q.Vote(x)].Lsh(w[q.Vote(x)], 1)
		return w
	},
}

// checkCodebook is the definition of ε-differential privacy over all cells of a map and all
// answers: P(j|x1) ≤ e^ε·P(j|x2), in fractions without rounding.
func checkCodebook(
	tb testing.TB, q *Quantizer, d *mobility.Distribution, minus *big.Float, law codebookLaw,
) bool {
	tb.Helper()
	type facts struct { // all that a law here looks at
		vote int
		mass float64
	}
	seen := map[facts]bool{}
	var laws [][]*big.Rat
	for _, x := range testcase.AllCells(q.grid) {
		if f := (facts{q.Vote(x), d.At(x)}); !seen[f] {
			seen[f] = true
			laws = append(laws, probabilities(law(tb, q, d, x)))
		}
	}
	lower, _ := minus.Rat(nil) // 2⁻⁸⁰⁰ of itself too large at most: T is not so near
	for j := range q.points {
		least, most := laws[0][j], laws[0][j]
		for _, p := range laws {
			if p[j].Cmp(least) < 0 {
				least = p[j]
			}
			if p[j].Cmp(most) > 0 {
				most = p[j]
			}
		}
		if new(big.Rat).Mul(most, lower).Cmp(least) > 0 {
			return false
		}
	}
	return true
}

func probabilities(weights []*big.Int) []*big.Rat {
	total := new(big.Int)
	for _, w := range weights {
		total.Add(total, w)
	}
	p := make([]*big.Rat, len(weights))
	for j, w := range weights {
		p[j] = new(big.Rat).SetFrac(w, total)
	}
	return p
}

// TestCodebookIsPrivateExactly checks thousands of random priors without a tolerance, and that the
// check fails for every planted fault.
func TestCodebookIsPrivateExactly(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(102, 1))
	minus := map[float64]*big.Float{}
	for _, epsilon := range codebookEpsilons {
		minus[epsilon] = expOfMinus(epsilon)
	}
	noticed, several := map[string]int{}, 0
	for i := range 3000 {
		g := testcase.Grid(t, 1+r.IntN(8), 1+r.IntN(8), .1+r.Float64())
		epsilon := codebookEpsilons[i%len(codebookEpsilons)]
		q := newQuantizer(t, g, epsilon)
		d := testcase.Prior(r, g.Cells())
		q.Prepare(d.Cells, d.P)
		if !checkCodebook(t, q, d, minus[epsilon], trueLaw) {
			t.Fatalf("case %d: ε = %v on %d×%d cells is exceeded", i, epsilon, g.Width(),
				g.Height())
		}
		// One answer more than another is a factor of e^ε: two answers, or there is nothing to
		// see.
		if len(q.points) < 2 || epsilon > 40 || i > 400 {
			continue
		}
		several++
		for name, fault := range lawFaults {
			if !checkCodebook(t, q, d, minus[epsilon], fault) {
				noticed[name]++
			}
		}
	}
	for name := range lawFaults {
		if noticed[name] < several/4 {
			t.Errorf("%s: noticed in %d of %d cases", name, noticed[name], several)
		}
	}
	if noticed["T rounded down"] < several*9/10 || several < 200 {
		t.Errorf("a T rounded down is noticed in %d of %d cases", noticed["T rounded down"],
			several)
	}
}

// TestCodebookVotes compares votes with squared distances of any size, on maps up to the longest,
// and the votes of a list with those of its cells.
func TestCodebookVotes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(103, 1))
	for i := range 400 {
		width, height := 1+r.IntN(40), 1+r.IntN(40)
		switch i % 4 {
		case 1:
			width = 1 + r.IntN(MaxSide)
		case 2:
			height = 1 + r.IntN(MaxSide)
		case 3:
			width, height = MaxSide, 1+r.IntN(8000)
		}
		g := testcase.Grid(t, width, height, 1e-3)
		q := newQuantizer(t, g, codebookEpsilons[i%len(codebookEpsilons)])
		cells := make([]grid.Cell, 1+r.IntN(80))
		p := make([]float64, len(cells))
		for k := range cells {
			cells[k], p[k] = grid.Cell(r.IntN(g.Cells())), .01+r.Float64()
		}
		slices.Sort(cells)
		cells = slices.Compact(cells)
		q.Prepare(cells, p[:len(cells)])
		for k := range cells { // and other cells than the prior's
			cells[k] = grid.Cell(r.IntN(g.Cells()))
		}
		slices.Sort(cells)
		votes := q.Votes(nil, cells)
		for k, c := range cells {
			if want := nearestPoint(q, c); q.Vote(c) != want || int(votes[k]) != want {
				t.Fatalf("case %d: cell %d votes for %d and %d, nearest is %d", i, c, q.Vote(c),
					votes[k], want)
			}
		}
		j := int(votes[r.IntN(len(votes))])
		for k, l := range q.Likelihoods(nil, j, cells) {
			if own := l == 1; own != (int(votes[k]) == j) && q.Other() < 1<<63 {
				t.Fatalf("case %d: the likelihood of a vote for %d is %v after %d", i, votes[k], l,
					j)
			}
		}
	}
	// The middle of three cells is as far from both code points: the first one has it.
	g := testcase.Grid(t, 3, 1, 1)
	q := newQuantizer(t, g, 3)
	q.Prepare([]grid.Cell{0, 2}, []float64{.5, .5})
	if votes := q.Votes(nil, testcase.AllCells(g)); !slices.Equal(votes, []uint8{0, 0, 1}) {
		t.Errorf("votes %v of code points %v", votes, q.Points())
	}
}

func nearestPoint(q *Quantizer, c grid.Cell) int {
	square := func(a, b int64) *big.Int {
		d := big.NewInt(a - b)
		return d.Mul(d, d)
	}
	best, least := -1, new(big.Int)
	for j, p := range q.Points() {
		d := square(p.X, int64(q.grid.Column(c))*CodeSteps)
		d.Add(d, square(p.Y, int64(q.grid.Row(c))*CodeSteps))
		if best < 0 || d.Cmp(least) < 0 {
			best, least = j, d
		}
	}
	return best
}

// errorAfter returns the expected squared error of the posterior mean after a release, in squared
// cells, from the likelihoods alone, and the prior's variance.
func errorAfter(q *Quantizer, d *mobility.Distribution) (after, before float64) {
	total := 1 + float64(len(q.Points())-1)*float64(q.Other())*0x1p-64
	spread := func(likelihood []float64) (mass, variance float64) {
		var x, y, square float64
		for i, c := range d.Cells {
			w := d.P[i] * likelihood[i]
			cx, cy := float64(q.grid.Column(c)), float64(q.grid.Row(c))
			mass += w
			x += w * cx
			y += w * cy
			square += w * (cx*cx + cy*cy)
		}
		return mass, square/mass - (x*x+y*y)/mass/mass
	}
	ones := make([]float64, len(d.P))
	for i := range ones {
		ones[i] = 1
	}
	_, before = spread(ones)
	for j := range q.Points() {
		mass, variance := spread(q.Likelihoods(nil, j, d.Cells))
		after += mass / total * variance
	}
	return after, before
}

// TestCodebookGain: the predicted gain is what the posterior means gain, and about what the search
// has found on the patches.
func TestCodebookGain(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(104, 1))
	for i := range 400 {
		g := testcase.Grid(t, 2+r.IntN(20), 2+r.IntN(20), 1)
		epsilon := []float64{.5, 1, 2, 4, 6, 8}[i%6]
		q := newQuantizer(t, g, epsilon)
		d := testcase.Prior(r, g.Cells())
		q.Prepare(d.Cells, d.P)
		after, before := errorAfter(q, d)
		gain, found := before-after, q.searcher.now.gain(q.rest)
		if math.Abs(gain-q.gain()) > 1e-9*(1+before) || gain < .9*found-1e-9 {
			t.Errorf("case %d: predicted %g, found %g, gained %g of %g", i, q.gain(), found, gain,
				before)
		}
	}
}

// TestCodebookVariance compares the share of the variance that is left after one release with the
// best of many random starts of Lloyd's iteration on all cells, over every number of code points.
// It is within .1 % up to ε = 2, within 3.5 % at 6, and at 4 up to 3 % above it: on the prior with
// two modes only two divisions at once would improve it. Two prototypes of the mechanism came to
// .93, .75, .40 on a Gaussian prior and to .82, .51, .21 on one with two modes.
func TestCodebookVariance(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 80, 31, 1)
	for name, c := range map[string]struct {
		prior *mobility.Distribution
		left  map[float64]float64
	}{
		"gaussian": {
			blobs(g, 4, convex.Vec{X: 30, Y: 15}),
			map[float64]float64{1: .9287, 2: .7511, 4: .3966, 6: .1806},
		},
		"bimodal": {
			blobs(g, 3, convex.Vec{X: 30, Y: 15}, convex.Vec{X: 50, Y: 15}),
			map[float64]float64{1: .8190, 2: .5083, 4: .2122, 6: .0913},
		},
	} {
		for epsilon, want := range c.left {
			q := newQuantizer(t, g, epsilon)
			q.Prepare(c.prior.Cells, c.prior.P)
			after, before := errorAfter(q, c.prior)
			slack := map[float64]float64{1: .001, 2: .001, 4: .03, 6: .035}[epsilon]
			if left := after / before; math.Abs(left/want-1) > slack {
				t.Errorf("%s, ε = %v: %.5f of the variance is left, want %.4f (%d code points)",
					name, epsilon, left, want, len(q.Points()))
			}
		}
	}
}

// TestCodebookDegenerate: priors and ε at the edges.
func TestCodebookDegenerate(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 1000, 1000, .34)
	cells := func(all ...grid.Cell) []grid.Cell { return all }
	everywhere := testcase.AllCells(g)
	flat := slices.Repeat([]float64{1e-6}, len(everywhere))
	line := everywhere[500_000:501_000]
	tiny := slices.Repeat([]float64{1e-300}, len(everywhere))
	tiny[123_456] = 1
	// all but a millionth of the mass in one corner, and masses that are equal up to rounding
	corner := slices.Repeat([]float64{1e-12}, len(everywhere))
	near := slices.Repeat([]float64{1}, len(line))
	for i := range near {
		near[i] += float64(i%7) * 0x1p-52
	}
	var edge []grid.Cell
	for _, c := range everywhere {
		column, row := g.Column(c), g.Row(c)
		if column < 9 && row < 9 {
			corner[c] = 1. / 81
		}
		if column%999 == 0 || row%999 == 0 {
			edge = append(edge, c)
		}
	}
	for name, c := range map[string]struct {
		cells    []grid.Cell
		p        []float64
		epsilons []float64
		least    int // code points
		most     int
	}{
		"one cell":      {cells(77_777), []float64{1}, codebookEpsilons, 1, 1},
		"a corner":      {cells(999_999), []float64{.3}, codebookEpsilons, 1, 1},
		"two cells":     {cells(5, 999_000), []float64{.5, .5}, codebookEpsilons[1:], 2, 2},
		"neighbours":    {cells(5, 6), []float64{.999, .001}, []float64{1, 4, 8, 20}, 2, 2},
		"one and dust":  {everywhere, tiny, []float64{.001, 1, 20}, 1, maxPoints},
		"a line":        {line, flat[:1000], codebookEpsilons, 2, maxPoints},
		"the whole map": {everywhere, flat, []float64{.001, 1, 4, 20}, 2, maxPoints},
		"no scale":      {line, tiny[:1000], []float64{.001, 1, 20}, 2, maxPoints},
		"subnormal": {
			line, slices.Repeat([]float64{5e-324}, len(line)), []float64{.001, 1, 20}, 2, maxPoints,
		},
		"one region": {everywhere, corner, []float64{.001, 1, 4, 20}, 2, maxPoints},
		"the edge":   {edge, flat[:len(edge)], []float64{.001, 1, 4, 8, 20}, 2, maxPoints},
		"near-equal": {line, near, []float64{.001, 1, 4, 8, 20}, 2, maxPoints},
	} {
		for _, epsilon := range c.epsilons {
			q := newQuantizer(t, g, epsilon)
			q.Prepare(c.cells, c.p)
			if m := len(q.Points()); m < c.least || m > c.most {
				t.Errorf("%s, ε = %v: %d code points", name, epsilon, m)
			}
			gain := q.gain()
			if !(gain >= 0) || math.IsInf(gain, 1) || gain > 0 && len(q.Points()) == 1 {
				t.Errorf("%s, ε = %v: gain %g", name, epsilon, gain)
			}
			checkWork(t, fmt.Sprintf("%s, ε = %v", name, epsilon), q)
			checkWeights(t, fmt.Sprintf("%s, ε = %v", name, epsilon), q)
		}
	}
}

// checkWork holds the last Prepare to its bounds, which are counts and not times.
func checkWork(t *testing.T, name string, q *Quantizer) {
	t.Helper()
	most := 2*maxPatches + int(math.Sqrt(maxPatches)/bandWeight) + 2
	n := len(q.patches.x)
	if n > most {
		t.Errorf("%s: %d patches, at most %d", name, n, most)
	}
	if work := q.searcher.work; work > searchVotes*q.fine+(searchTurns+1)*n*maxPoints {
		t.Errorf("%s: the search computed %d distances", name, work)
	}
}

// checkWeights measures the weights of all answers to the first and the last vote: 2⁶⁴ for the
// vote and T for each other one, and their sum is the number of draws.
func checkWeights(t *testing.T, name string, q *Quantizer) {
	t.Helper()
	m := len(q.points)
	other := new(big.Int).SetUint64(q.Other())
	own := new(big.Int).Lsh(big.NewInt(1), 64)
	want := new(big.Int).Mul(other, big.NewInt(int64(m-1)))
	want.Add(want, own)
	for _, vote := range []int{0, m - 1} {
		sum := new(big.Int)
		for j, w := range answerWeights(t, q, vote) {
			if m > 1 && (j == vote && w.Cmp(own) != 0 || j != vote && w.Cmp(other) != 0) {
				t.Errorf("%s: answer %d to a vote for %d has weight %d", name, j, vote, w)
			}
			sum.Add(sum, w)
		}
		if sum.Cmp(want) != 0 {
			t.Errorf("%s: the weights are %d in all, want %d", name, sum, want)
		}
	}
}

// TestSingleCodePoint: a prior of one cell releases its centre, whatever the cell, without a word.
func TestSingleCodePoint(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 5, 5, .34)
	q := newQuantizer(t, g, 1)
	q.Prepare([]grid.Cell{7}, []float64{1})
	for _, x := range testcase.AllCells(g) {
		if j := q.Sample(&noSource{t}, q.Vote(x)); q.Place(j) != g.Centre(7) {
			t.Errorf("cell %d released %v", x, q.Place(j))
		}
	}
	if l := q.Likelihoods(nil, 0, []grid.Cell{3, 7}); l[0] != 1 || l[1] != 1 {
		t.Errorf("likelihoods %v", l)
	}
	if m := q.Metric(); m != (Metric{Within200M: 1, Within1KM: 1, Across: 1}) {
		t.Errorf("metric %+v", m)
	}
}

// TestCodebookPlaces: code points are different places on the map, in order, and are found again
// from degrees.
func TestCodebookPlaces(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(105, 1))
	for i := range 200 {
		g := testcase.Grid(t, 1+r.IntN(60), 1+r.IntN(60), .34)
		q := newQuantizer(t, g, codebookEpsilons[i%len(codebookEpsilons)])
		d := testcase.Prior(r, g.Cells())
		q.Prepare(d.Cells, d.P)
		for j, c := range q.Points() {
			if c.X < 0 || c.Y < 0 || c.X > int64(g.Width()-1)*CodeSteps ||
				c.Y > int64(g.Height()-1)*CodeSteps {
				t.Fatalf("code point %v is not on the map", c)
			}
			if j > 0 && q.Points()[j-1] == c {
				t.Fatalf("code point %v twice", c)
			}
			lat, lon := g.ToDegrees(q.Place(j))
			lat, lon = math.Round(lat*1e8)/1e8, math.Round(lon*1e8)/1e8
			if found := q.Nearest(g.ToMap(lat, lon)); found != j {
				t.Fatalf("code point %d of %v came back as %d", j, q.Points(), found)
			}
		}
	}
}

// TestCodebookRepeats: a codebook is a function of the prior alone, whatever was prepared before.
func TestCodebookRepeats(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(106, 1))
	g := testcase.Grid(t, 40, 40, .34)
	used := newQuantizer(t, g, 4)
	for range 100 {
		d := testcase.Prior(r, g.Cells())
		fresh := newQuantizer(t, g, 4)
		fresh.Prepare(d.Cells, d.P)
		used.Prepare(d.Cells, d.P)
		if !slices.Equal(fresh.Points(), used.Points()) || fresh.gain() != used.gain() {
			t.Fatalf("%v is %v after other priors", fresh.Points(), used.Points())
		}
	}
}

func TestNewQuantizerRefuses(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 5, 5, 1)
	for name, epsilon := range map[string]float64{
		"no ε": 0, "ε too large": 701, "ln 2 in full": math.Ln2, "not a number": math.NaN(),
	} {
		if _, err := NewQuantizer(g, epsilon); err == nil {
			t.Error(name)
		}
	}
	if _, err := NewQuantizer(testcase.Grid(t, MaxSide+1, 1, 1e-3), 1); err == nil {
		t.Error("a map that is too long")
	}
	if _, err := New(Options{Name: Codebook}); err == nil {
		t.Error("New made a codebook without a prior")
	}
}

// FuzzCodebook: any prior gives a codebook whose votes are those for the nearest code point, and
// whose gain is a number.
func FuzzCodebook(f *testing.F) {
	f.Add(uint8(5), uint8(5), uint64(1), uint8(3), uint8(0))
	f.Add(uint8(1), uint8(200), uint64(2), uint8(200), uint8(9))
	f.Add(uint8(90), uint8(90), uint64(3), uint8(255), uint8(12))
	f.Fuzz(func(t *testing.T, width, height uint8, seed uint64, share, choice uint8) {
		g := testcase.Grid(t, int(width)+1, int(height)+1, .34)
		r := rand.New(rand.NewPCG(seed, 1))
		cells := testcase.Cells(r, g.Cells(), float64(share)/255)
		p := make([]float64, len(cells))
		for i := range p {
			p[i] = math.Exp(-float64(choice) * 3 * r.Float64())
		}
		q := newQuantizer(t, g, codebookEpsilons[int(choice)%len(codebookEpsilons)])
		q.Prepare(cells, p)
		if m := len(q.Points()); m < 1 || m > maxPoints || !(q.gain() >= 0) {
			t.Fatalf("%d code points, gain %g", m, q.gain())
		}
		for _, c := range cells {
			if q.Vote(c) != nearestPoint(q, c) {
				t.Fatalf("cell %d votes for %d", c, q.Vote(c))
			}
		}
	})
}

// BenchmarkCodebook measures what a release costs by part. Priors of 180 and 800 cells are what
// steps of the models of roads and of dense streets have at ε = 1, and of 50 cells at ε = 4.
func BenchmarkCodebook(b *testing.B) {
	g := testcase.Grid(b, 64, 64, .34)
	middle := convex.Vec{X: 31.3, Y: 30.8}
	for _, c := range []struct {
		name    string
		epsilon float64
		sigma   float64
	}{
		{"180 cells, ε=1", 1, 1.33},
		{"800 cells, ε=1", 1, 2.8},
		{"180 cells, ε=4", 4, 1.33},
		{"50 cells, ε=4", 4, .7},
		{"800 cells, ε=8", 8, 2.8},
	} {
		d := blobs(g, c.sigma, middle)
		q := newQuantizer(b, g, c.epsilon)
		stage := func(name string, work func()) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					work()
				}
				b.ReportMetric(float64(len(d.Cells)), "cells")
				b.ReportMetric(float64(len(q.points)), "points")
			})
		}
		q.Prepare(d.Cells, d.P)
		stage("patches", func() { q.patches.gather(64, d.Cells, d.P, q.fine) })
		stage("grow", func() { q.searcher.grow(&q.patches, q.rest) })
		stage("grow and search", func() {
			q.searcher.grow(&q.patches, q.rest)
			q.searcher.improve(&q.patches, q.rest, searchVotes*q.fine)
		})
		stage("prepare", func() { q.Prepare(d.Cells, d.P) })
		stage("votes", func() { q.votes = q.Votes(q.votes, d.Cells) })
		src := noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil)
		stage("draw", func() { q.Sample(src, q.Vote(d.Cells[0])) })
		var likelihood []float64
		stage("likelihoods", func() { likelihood = q.Likelihoods(likelihood, 0, d.Cells) })
	}
}

// TestCodePlacesAreRounded takes the product of a code point's place from the place. Where a
// processor multiplies and adds in one rounding, as on arm64 or with GOAMD64=v3, a place that was
// not rounded would leave the product's rounding error, and Nearest would see another distance than
// on other processors.
func TestCodePlacesAreRounded(t *testing.T) {
	t.Parallel()
	side := 1.0 / 3
	q := newQuantizer(t, testcase.Grid(t, 40, 40, side), 1)
	shown := 0
	for i := range int64(40) {
		q.points = append(q.points[:0], convex.Lattice{X: i*CodeSteps + 7*i, Y: 11 * i})
		z := grid.Point{X: roundedPlace(q.points[0].X, side), Y: roundedPlace(q.points[0].Y, side)}
		if math.FMA(float64(2*q.points[0].X+CodeSteps)/(2*CodeSteps), side, -z.X) != 0 {
			shown++
		}
		if d := placeFrom(q, z); d != (grid.Point{}) {
			t.Errorf("code point %d: computed and subtracted at once: %v is left", i, d)
		}
	}
	if shown < 10 {
		t.Fatal("these numbers show no fusion")
	}
}

// placeFrom and roundedPlace are not inlined, so that the compiler does not compute with constants.
//
//go:noinline
func placeFrom(q *Quantizer, z grid.Point) grid.Point { return q.Place(0).Sub(z) }

//go:noinline
func roundedPlace(steps int64, side float64) float64 {
	return float64(float64(2*steps+CodeSteps) / (2 * CodeSteps) * side)
}

// gain returns by how much a release lowers the expected squared error of the mean under the
// prior that Prepare was given, km². Cost: that of Likelihoods for each code point.
func (q *Quantizer) gain() float64 {
	cells, p := q.prior.cells, q.prior.p
	if len(q.points) == 1 { // tells nothing
		return 0
	}
	var likelihood []float64
	sum := 0.0
	for j := range q.points {
		likelihood = q.Likelihoods(likelihood, j, cells)
		var evidence, x, y, total float64
		for i, c := range cells {
			mass := float64(p[i] * likelihood[i])
			evidence += mass
			x += float64(mass * (float64(q.grid.Column(c)) - q.patches.column))
			y += float64(mass * (float64(q.grid.Row(c)) - q.patches.row))
			total += p[i]
		}
		sum += (float64(x*x) + float64(y*y)) / evidence / total
	}
	side := q.grid.CellKM()
	others := float64(len(q.points)-1) * (float64(q.other) * 0x1p-64)
	return float64(sum / (1 + others) * float64(side*side))
}
