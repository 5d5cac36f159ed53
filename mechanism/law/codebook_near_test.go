package law

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// voteOff returns the index of the code point that is nearest to a column and row on the map or off
// it, by squared distances.
func voteOff(q *Quantizer, column, row int) int {
	best, least := 0, int64(math.MaxInt64)
	for j, p := range q.points {
		d := p.Sub(convex.Lattice{X: int64(column) * CodeSteps, Y: int64(row) * CodeSteps})
		if square := convex.Dot(d, d); square < least {
			best, least = j, square
		}
	}
	return best
}

// tallies returns N_j of every cell and G, for shifts that the given rule lets count.
func tallies(q *Quantizer, counts func(x grid.Cell, column, row int) bool) ([][]uint64, []uint64) {
	n, g := q.noise, q.grid
	side := g.Width() + 2*n.reach
	votes := make([]int, side*(g.Height()+2*n.reach))
	for i := range votes {
		votes[i] = voteOff(q, i%side-n.reach, i/side-n.reach)
	}
	var all [][]uint64
	var totals []uint64
	for _, x := range testcase.AllCells(g) {
		tally, total := make([]uint64, len(q.points)), uint64(0)
		for dy := -n.reach; dy <= n.reach; dy++ {
			for dx := -n.reach; dx <= n.reach; dx++ {
				column, row := g.Column(x)+dx, g.Row(x)+dy
				if counts(x, column, row) {
					tally[votes[(row+n.reach)*side+column+n.reach]] += n.at(dx, dy)
					total += n.at(dx, dy)
				}
			}
		}
		all, totals = append(all, tally), append(totals, total)
	}
	return all, totals
}

func everyShift(grid.Cell, int, int) bool { return true }

// cellLaw is the weights of all answers for a cell, and their sum.
type cellLaw struct {
	weights []*big.Int
	total   *big.Int
}

// lawFrom returns the laws of tallies: T·G + (2⁶⁴ - T)·N_j.
func lawFrom(q *Quantizer, all [][]uint64, totals []uint64) []cellLaw {
	var laws []cellLaw
	d := new(big.Int).SetUint64(-q.other)
	for i, tally := range all {
		least, law := bigProduct(q.other, totals[i]), cellLaw{total: new(big.Int)}
		for _, n := range tally {
			w := new(big.Int).Mul(d, new(big.Int).SetUint64(n))
			law.weights = append(law.weights, w.Add(w, least))
			law.total.Add(law.total, w)
		}
		laws = append(laws, law)
	}
	return laws
}

// checkNear is the definition of both bounds, over all pairs of cells and all answers, in whole
// numbers: the near factor where the cells hold near places, 2⁶⁴/T anywhere.
func checkNear(q *Quantizer, laws []cellLaw) (near, anywhere bool) {
	factor := decimal(q.noise.near.Factor)
	other := new(big.Int).SetUint64(q.other)
	near, anywhere = true, true
	g, distance := q.grid, q.noise.near.DistanceKM/q.grid.CellKM()
	left, right := new(big.Int), new(big.Int)
	// exceeds says whether P(j|x1) > (num/den)·P(j|x2).
	exceeds := func(x1, x2 cellLaw, j int, num, den *big.Int) bool {
		left.Mul(left.Mul(x1.weights[j], x2.total), den)
		right.Mul(right.Mul(x2.weights[j], x1.total), num)
		return left.Cmp(right) > 0
	}
	two64 := new(big.Int).Lsh(big.NewInt(1), 64)
	for x, first := range laws {
		for y, second := range laws {
			a, b := grid.Cell(x), grid.Cell(y)
			beside := nearCells(g.Column(a)-g.Column(b), g.Row(a)-g.Row(b), distance)
			for j := range q.points {
				if beside && exceeds(first, second, j, factor.Num(), factor.Denom()) {
					near = false
				}
				if exceeds(first, second, j, two64, other) {
					anywhere = false
				}
			}
		}
	}
	return near, anywhere
}

// scatter puts code points anywhere, on the map's edge often.
func scatter(q *Quantizer, r *rand.Rand) {
	q.points = q.points[:0]
	at := func(side int) int64 {
		if r.IntN(3) == 0 {
			return int64(r.IntN(side)) * CodeSteps
		}
		return int64(r.IntN((side-1)*CodeSteps + 1))
	}
	for range 2 + r.IntN(6) {
		q.points = append(q.points, convex.Lattice{X: at(q.grid.Width()), Y: at(q.grid.Height())})
	}
	slices.SortFunc(q.points, func(a, b convex.Lattice) int {
		if a.Y != b.Y {
			return int(a.Y - b.Y)
		}
		return int(a.X - b.X)
	})
	q.points = slices.Compact(q.points)
}

// TestNearIsPrivateExactly: over 2,400 codebooks, placed for random priors or put anywhere, all
// cells of the map, those at its edge and those that touch at a corner too, and all answers. Laws
// that displace otherwise are noticed.
func TestNearIsPrivateExactly(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(122, 1))
	noticed, runs := map[string]int{}, 200
	if testing.Short() {
		runs = 20
	}
	for _, c := range nearSettings {
		g := testcase.Grid(t, 3+r.IntN(5), 2+r.IntN(5), c.side)
		q := nearQuantizer(t, g, c.epsilon, c.near)
		crossed := *q
		search := newNoiseSearch(c.near, []offset{{1, 0}}, q.other)
		for _, k := range kernels() {
			search.shape(k)
		}
		search.best.near = c.near
		crossed.noise = &search.best
		for i := range runs {
			d := testcase.Prior(r, g.Cells())
			if i%2 == 0 {
				scatter(q, r)
			} else {
				q.Prepare(d.Cells, d.P)
			}
			all, totals := tallies(q, everyShift)
			near, anywhere := checkNear(q, lawFrom(q, all, totals))
			if !near || !anywhere {
				t.Fatalf("%+v: near %v, anywhere %v for %v", c, near, anywhere, q.points)
			}
			if i >= 20 {
				continue
			}
			fault := func(name string, laws []cellLaw) {
				if near, anywhere := checkNear(q, laws); !near || !anywhere {
					noticed[name]++
				}
			}
			within, sums := tallies(q, func(_ grid.Cell, column, row int) bool {
				return column >= 0 && row >= 0 && column < g.Width() && row < g.Height()
			})
			fault("shifts that stay on the map", lawFrom(q, within, sums))
			still, _ := tallies(q, func(x grid.Cell, column, row int) bool {
				return d.At(x) > 0 || column == g.Column(x) && row == g.Row(x)
			})
			for x := range still {
				if d.At(grid.Cell(x)) > 0 {
					continue
				}
				for j := range still[x] {
					if still[x][j] > 0 {
						still[x][j] = totals[x]
					}
				}
			}
			fault("no shift where the prior has no mass", lawFrom(q, still, totals))
			odd := slices.Clone(all)
			odd[0] = slices.Clone(all[len(all)-1])
			fault("a corner that answers as the opposite one", lawFrom(q, odd, totals))
			crossed.points = q.points
			all, totals = tallies(&crossed, everyShift)
			fault("noise for four neighbours", lawFrom(q, all, totals))
		}
	}
	for _, name := range []string{
		"shifts that stay on the map", "no shift where the prior has no mass",
		"a corner that answers as the opposite one", "noise for four neighbours",
	} {
		if noticed[name] < 3 {
			t.Errorf("%s: noticed in %d cases", name, noticed[name])
		}
	}
}

// TestNearTallies compares what inference, figures and predicted gain are made from with the votes
// of all displacements, one by one: on maps of one row, for cells anywhere, and for code points on
// one line.
func TestNearTallies(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(123, 1))
	for i := range 240 {
		c := nearSettings[i%len(nearSettings)]
		g := testcase.Grid(t, 1+r.IntN(14), 1+r.IntN(14), c.side)
		if g.Cells() == 1 {
			continue
		}
		q := nearQuantizer(t, g, c.epsilon, c.near)
		d := testcase.Prior(r, g.Cells())
		q.Prepare(d.Cells, d.P)
		if i%3 == 0 && g.Width() > 1 && g.Height() > 1 {
			scatter(q, r)
		}
		if i%9 == 0 {
			for k := range q.points {
				q.points[k] = convex.Lattice{X: 5, Y: int64(k) * 7}
			}
		}
		all, _ := tallies(q, everyShift)
		cells := testcase.Cells(r, g.Cells(), .5)
		cells = append(cells, grid.Cell(g.Cells()-1))
		cells = slices.Compact(cells)
		for j := range q.points {
			likelihood := q.Likelihoods(nil, j, cells)
			for k, n := range q.tally(nil, j, cells) {
				if n != all[cells[k]][j] {
					t.Fatalf("case %d: %d of %d shifts, want %d", i, n, q.noise.total,
						all[cells[k]][j])
				}
				rest := float64(q.other) * 0x1p-64
				want := rest + (1-rest)*(float64(n)/float64(q.noise.total))
				if math.Abs(likelihood[k]/want-1) > 1e-14 || likelihood[k] > 1 {
					t.Fatalf("case %d: likelihood %g, want %g", i, likelihood[k], want)
				}
			}
		}
		checkNearFigures(t, q, d, all)
	}
}

// checkNearFigures compares near share, metric and gain with the law itself.
func checkNearFigures(t *testing.T, q *Quantizer, d *mobility.Distribution, all [][]uint64) {
	t.Helper()
	rest := q.rest * float64(q.noise.total)
	ln := func(x, y grid.Cell) float64 {
		most := 0.0
		for j := range q.points {
			most = max(most, math.Abs(math.Log(
				(rest+float64(all[x][j]))/(rest+float64(all[y][j])))))
		}
		return most
	}
	var n Neighbours
	n.Gather(q.grid, d.Cells, d.P)
	sum, weights := 0.0, 0.0
	for i, c := range n.Cells {
		weights += float64(n.Weight(i))
		sum += float64(n.Weight(i)) * ln(d.Cells[n.Of[i]], c)
	}
	got := q.NearShare(&n, d.Cells, d.P)
	if want := sum / max(weights, 1) / q.epsilon; math.Abs(got-want) > 1e-12 {
		t.Fatalf("near share %g, want %g", got, want)
	}
	if m := q.Metric(); len(q.points) > 1 {
		for x := range all {
			for y := range all {
				a, b := grid.Cell(x), grid.Cell(y)
				columns, rows := q.grid.Column(a)-q.grid.Column(b), q.grid.Row(a)-q.grid.Row(b)
				for km, factor := range map[float64]float64{
					.2: m.Within200M, 1: m.Within1KM, q.noise.near.DistanceKM: q.noise.near.Factor,
				} {
					if nearCells(columns, rows, km/q.grid.CellKM()) &&
						ln(a, b) > math.Log(factor)+1e-9 {
						t.Fatalf("cells %d and %d are told apart by e^%g, the metric of %g km "+
							"says %g", a, b, ln(a, b), km, factor)
					}
				}
			}
		}
	}
	after, before := nearErrorAfter(q, d)
	if gain := q.gainCells(); math.Abs(gain-(before-after)) > 1e-9*(1+before) {
		t.Fatalf("predicted gain %g, gained %g of %g", gain, before-after, before)
	}
}

// gainCells is Gain in squared cells.
func (q *Quantizer) gainCells() float64 { return q.Gain() / q.grid.CellKM() / q.grid.CellKM() }

// nearErrorAfter is errorAfter with a near factor: likelihoods are up to 2⁶⁴/(2⁶⁴ +
// (m-1)·T).
func nearErrorAfter(q *Quantizer, d *mobility.Distribution) (after, before float64) {
	without := *q
	without.noise = nil
	_, before = errorAfter(&without, d)
	after, _ = errorAfter(q, d)
	return after, before
}

// shiftWord returns a word for which noise.Below of n returns u.
func shiftWord(u, n uint64) uint64 {
	w, rest := bits.Div64(u, 0, n)
	if rest > 0 {
		w++
	}
	return w + 1
}

// TestNearDraw: for the first and the last number of each shift, the answer to a draw that gives
// the own code point is the vote of the displaced cell, on the map or off it.
func TestNearDraw(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(124, 1))
	for _, c := range nearSettings {
		g := testcase.Grid(t, 9, 7, c.side)
		q := nearQuantizer(t, g, c.epsilon, c.near)
		scatter(q, r)
		n, from := q.noise, uint64(0)
		for dy := -n.reach; dy <= n.reach; dy++ {
			for dx := -n.reach; dx <= n.reach; dx++ {
				to := from + n.at(dx, dy)
				if from == to {
					continue
				}
				x := grid.Cell(r.IntN(g.Cells()))
				want := voteOff(q, g.Column(x)+dx, g.Row(x)+dy)
				for _, u := range []uint64{from, to - 1} {
					src := &script{
						words: []uint64{shiftWord(u, n.total), 0, 0}, then: &noSource{t},
					}
					if j := q.Draw(src, q.Part(x)); j != want || len(src.words) > 0 {
						t.Fatalf("%+v: shift (%d, %d) of cell %d answers %d, want %d", c, dx, dy, x,
							j, want)
					}
				}
				from = to
			}
		}
		if from != n.total {
			t.Errorf("%+v: %d numbers of %d", c, from, n.total)
		}
		q.points = q.points[:1]
		if j := q.Draw(&noSource{t}, 3); j != 0 {
			t.Errorf("one code point answers %d", j)
		}
	}
}

// nearFaults are samplers of another law than that of a near factor.
var nearFaults = map[string]codebookSampler{
	"no displacement": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		return q.Sample(src, q.Vote(x))
	},
	"displaced twice": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		d := q.noise
		i, _ := slices.BinarySearch(d.upTo, noise.Below(src, d.total)+1)
		n := 2*d.reach + 1
		column := min(max(q.grid.Column(x)+i%n-d.reach, 0), q.grid.Width()-1)
		row := min(max(q.grid.Row(x)+i/n-d.reach, 0), q.grid.Height()-1)
		return q.Draw(src, row*q.grid.Width()+column)
	},
	"all shifts the same": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		n := uint64(2*q.noise.reach + 1)
		column := q.grid.Column(x) + int(noise.Below(src, n)) - q.noise.reach
		row := q.grid.Row(x) + int(noise.Below(src, n)) - q.noise.reach
		return q.Sample(src, voteOff(q, column, row))
	},
	"the next cell": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		return q.Draw(src, int(x+1)%q.grid.Cells())
	},
	"always the displaced vote": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		for {
			if j := q.Draw(src, int(x)); noise.Below(src, 10) > 0 || j == q.Vote(x) {
				return j
			}
		}
	},
}

// nearFit is codebookFit with a near factor, and probabilities from tallies.
func nearFit(q *Quantizer, all [][]uint64, cells []grid.Cell, draw codebookSampler, seed string,
) float64 {
	const n = 60_000
	src := noise.NewKeyed(noise.KeyFromSeed(125)).Stream([]byte(seed))
	statistic, rest := 0.0, q.rest*float64(q.noise.total)
	for _, x := range cells {
		counts := make([]float64, len(q.points))
		for range n {
			counts[draw(q, src, x)]++
		}
		for j, count := range counts {
			expected := n * (rest + float64(all[x][j])) /
				(rest*float64(len(q.points)) + float64(q.noise.total))
			statistic += (count - expected) * (count - expected) / expected
		}
	}
	return statistic / oracle.ChiSquareLimit(float64(len(cells)*(len(q.points)-1)))
}

// TestNearLaw compares draws with the law by χ², for cells in the middle and in corners of the
// map. Every planted fault is noticed.
func TestNearLaw(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 30, 30, .34)
	d := blobs(g, 2, convex.Vec{X: 10, Y: 12}, convex.Vec{X: 17, Y: 20})
	for _, c := range []nearSetting{
		{4, .34, Near{.34, 3}}, {2, .34, Near{.34, 2}}, {1, .34, Near{.34, 1.5}},
	} {
		q := nearQuantizer(t, g, c.epsilon, c.near)
		q.Prepare(d.Cells, d.P)
		all, _ := tallies(q, everyShift)
		border := grid.Cell(371)
		for q.Vote(border) == q.Vote(border+1) && q.Vote(border) == q.Vote(border+30) {
			border += 31
		}
		cells := []grid.Cell{0, border, border + 31, 899}
		right := func(q *Quantizer, src noise.Source, x grid.Cell) int {
			return q.Draw(src, q.Part(x))
		}
		if statistic := nearFit(q, all, cells, right, "law"); statistic > 1 {
			t.Errorf("%+v: the law is rejected, %.2f of the limit", c, statistic)
		}
		for name, fault := range nearFaults {
			if statistic := nearFit(q, all, cells, fault, name); statistic <= 1 && c.epsilon > 1 {
				t.Errorf("%+v, %s: not noticed, %.2f of the limit", c, name, statistic)
			}
		}
		if statistic := wordFit(q, border, right); statistic > 1 {
			t.Errorf("%+v: answers and words are not independent, %.2f", c, statistic)
		}
		streams := noise.NewKeyed(noise.KeyFromSeed(126))
		for i := range 200 {
			want := -1
			for _, x := range cells {
				src := &countedSource{Source: streams.Stream([]byte(strconv.Itoa(i)))}
				q.Draw(src, q.Part(x))
				if want < 0 {
					want = src.words
				}
				if src.words != want || want%2 == 0 {
					t.Fatalf("cell %d took %d words, another %d", x, src.words, want)
				}
			}
		}
	}
}

// TestNearRepeats: a codebook is a function of the prior alone, and after a few calls nothing of a
// release allocates.
func TestNearRepeats(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(128, 1))
	g := testcase.Grid(t, 25, 25, .34)
	used := nearQuantizer(t, g, 4, Near{.34, 3})
	for range 40 {
		d := testcase.Prior(r, g.Cells())
		fresh := nearQuantizer(t, g, 4, Near{.34, 3})
		fresh.Prepare(d.Cells, d.P)
		used.Prepare(d.Cells, d.P)
		if !slices.Equal(fresh.points, used.points) || fresh.Gain() != used.Gain() {
			t.Fatalf("%v is %v after other priors", fresh.points, used.points)
		}
	}
}

// TestNearOfMasses: priors at the edges of float64, and on the longest maps.
func TestNearOfMasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		width, height int
		cells         []grid.Cell
		p             []float64
	}{
		"one cell":    {1, 1, []grid.Cell{0}, []float64{1}},
		"subnormal":   {20, 20, []grid.Cell{3, 40, 300}, []float64{5e-324, 5e-324, 5e-324}},
		"huge":        {20, 20, []grid.Cell{3, 40, 300}, []float64{1e300, 1e300, 1}},
		"dust":        {20, 20, []grid.Cell{3, 40, 300}, []float64{1, 1e-300, 1e-300}},
		"a long row":  {MaxSide, 1, []grid.Cell{0, 200_000, MaxSide - 1}, []float64{.3, .3, .4}},
		"a tall map":  {1, MaxSide, []grid.Cell{0, 200_000, MaxSide - 1}, []float64{.3, .3, .4}},
		"two corners": {30, 30, []grid.Cell{0, 899}, []float64{.5, .5}},
	} {
		g := testcase.Grid(t, c.width, c.height, 1e-3)
		q := nearQuantizer(t, g, 4, Near{1e-3, 2})
		q.Prepare(c.cells, c.p)
		if m := len(q.points); m < 1 || m > maxPoints {
			t.Errorf("%s: %d code points", name, m)
		}
		for j := range q.points {
			for k, n := range q.tally(nil, j, c.cells) {
				want := uint64(0)
				for dy := -q.Reach(); dy <= q.Reach(); dy++ {
					for dx := -q.Reach(); dx <= q.Reach(); dx++ {
						if voteOff(q, g.Column(c.cells[k])+dx, g.Row(c.cells[k])+dy) == j {
							want += q.ShiftWeight(dx, dy)
						}
					}
				}
				if n != want {
					t.Errorf("%s: cell %d has %d shifts to %d, want %d", name, c.cells[k], n, j,
						want)
				}
			}
		}
	}
}

// goldenNear is one release with a near factor in numbers that another implementation can compare
// with. The code points and the votes of undisplaced cells are those without one.
type goldenNear struct {
	goldenCodebook

	DistanceKM float64 `json:"near_distance_km"`
	Factor     float64 `json:"near_factor"`
	Version    int     `json:"near_version"`
	// Reach is by how many columns and rows a vote is displaced at most. Weights are of the shifts,
	// by row from the south-west, and Total is their sum G.
	Reach   int      `json:"reach"`
	Weights []uint64 `json:"weights"`
	Total   uint64   `json:"total"`
	// Tallies has for every cell of the map and each code point j the weight N_j of the shifts with
	// which the cell votes for j. The weight of answer j is T·G + (2⁶⁴ - T)·N_j.
	Tallies [][]uint64 `json:"tallies"`
}

// TestNearGolden compares noise, tallies and posteriors with testdata/near.json bit for bit: they
// belong to one NearVersion and one CodebookVersion.
func TestNearGolden(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "near.json")
	var cases []goldenNear
	for _, c := range []nearSetting{
		{4, .34, Near{.34, 2}},
		{2, .17, Near{.34, 1.5}},
		{1, .34, Near{.34, 1.2}},
		{6, .34, Near{.34, 10}},
	} {
		g := testcase.Grid(t, 9, 7, c.side)
		q := nearQuantizer(t, g, c.epsilon, c.near)
		d := blobs(g, .8, convex.Vec{X: 2.2, Y: 1.1}, convex.Vec{X: 6, Y: 5})
		for i, p := range d.P { // the last bits of math.Exp are not those of every architecture
			d.P[i] = math.Round(p*0x1p40) * 0x1p-40
		}
		golden := goldenNear{
			goldenCodebook: goldenFrom(q, fmt.Sprintf("ε=%v, factor %v", c.epsilon, c.near.Factor),
				g, c.epsilon, d),
			DistanceKM: c.near.DistanceKM, Factor: c.near.Factor, Version: NearVersion,
			Reach: q.Reach(), Weights: q.noise.weights, Total: q.noise.total,
		}
		golden.Tallies, _ = tallies(q, everyShift)
		cases = append(cases, golden)
	}
	text := []byte("[\n")
	for i, c := range cases {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = append(text, line...)
	}
	text = append(text, "\n]\n"...)
	if *updateGolden {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Errorf("%s has other numbers: undo the change, or raise NearVersion (for other code "+
			"points CodebookVersion) and run with -update", file)
	}
}

// BenchmarkNear measures by part what a release with a near factor costs.
func BenchmarkNear(b *testing.B) {
	g := testcase.Grid(b, 64, 64, .34)
	for _, c := range []struct {
		name    string
		epsilon float64
		sigma   float64
		near    Near
	}{
		{"800 cells, ε=4, factor 2", 4, 2.8, Near{.34, 2}},
		{"180 cells, ε=4, factor 3", 4, 1.33, Near{.34, 3}},
		{"800 cells, ε=1, factor 1.2", 1, 2.8, Near{.34, 1.2}},
	} {
		d := blobs(g, c.sigma, convex.Vec{X: 31.3, Y: 30.8})
		q, err := NewNearQuantizer(g, c.epsilon, c.near)
		if err != nil {
			b.Fatal(err)
		}
		stage := func(name string, work func()) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					work()
				}
				b.ReportMetric(float64(len(d.Cells)), "cells")
				b.ReportMetric(float64(q.Reach()), "reach")
				b.ReportMetric(float64(len(q.points)), "points")
			})
		}
		stage("prepare", func() { q.Prepare(d.Cells, d.P) })
		src := noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil)
		stage("draw", func() { q.Draw(src, q.Part(d.Cells[0])) })
		var likelihood []float64
		stage("likelihoods", func() { likelihood = q.Likelihoods(likelihood, 0, d.Cells) })
		var neighbours Neighbours
		stage("near share", func() { q.NearShare(&neighbours, d.Cells, d.P) })
	}
}
