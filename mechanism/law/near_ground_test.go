package law

import (
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// codebooksEnv is how many codebooks TestNearOnTheGround tries in place of 200: 1,000 take 8 s.
const codebooksEnv = "GEODITHER_CODEBOOKS"

// groundMaps are maps with a ground. Each has cells for which the distance on the ground, taken for
// one on the map, leaves out pairs of cells; those of the second map also for the distance times 1
// + distortion.
var groundMaps = []struct {
	name  string
	box   grid.Box
	cellM float64
}{
	{"the sample's box", grid.Box{South: 53.40, West: -2.99, North: 53.47, East: -2.89}, 340},
	{"47° to 55° N", grid.Box{South: 47, West: 9, North: 55, East: 10}, 185.8},
	{"the equator", grid.Box{South: -1.2, West: 36, North: .8, East: 37}, 170},
	{"60° to 70° N", grid.Box{South: 60, West: 20, North: 70, East: 21}, 340},
}

const groundKM = .34

// TestNearOnTheGround: pairs of places 338 to 340 m apart on the ground, on the map and up to one
// cell beyond it, are told apart by the factor at most, for every answer and in whole numbers.
// Noise for that distance on the map breaks it on every map, and noise for the distance times 1 +
// distortion on the second one.
func TestNearOnTheGround(t *testing.T) {
	t.Parallel()
	codebooks := 200
	if text := os.Getenv(codebooksEnv); text != "" {
		var err error
		if codebooks, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	laws := []struct{ epsilon, factor float64 }{{4, 2}, {2, 1.5}, {1, 1.2}, {6, 3}}
	for i, m := range groundMaps {
		g, err := grid.New(m.box, m.cellM)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(129, uint64(i)))
		var right, onMap, times []*Quantizer
		for _, c := range laws {
			near := Near{DistanceKM: groundKM, Factor: c.factor}
			q := nearQuantizer(t, g, c.epsilon, near)
			right = append(right, q)
			onMap = append(onMap, q.madeFor(groundKM))
			times = append(times, q.madeFor(groundKM*(1+g.Distortion())))
		}
		checked, noticed, noticedTimes := 0, 0, 0
		for n := range codebooks / len(groundMaps) {
			p := newGroundPairs(t, g, r)
			k := n % len(laws)
			q := right[k]
			p.codebook(q, r, n)
			checked += len(p.cells)
			if !p.hold(q) {
				t.Fatalf("%s, %+v: two places %g m apart on the ground are told apart by more, "+
					"with %v", m.name, laws[k], groundKM*1000, q.points)
			}
			onMap[k].points, times[k].points = q.points, q.points
			if !p.hold(onMap[k]) {
				noticed++
			}
			if !p.hold(times[k]) {
				noticedTimes++
			}
		}
		if checked < 10*codebooks {
			t.Errorf("%s: only %d pairs of cells", m.name, checked)
		}
		if noticed == 0 || i == 1 && noticedTimes == 0 {
			t.Errorf("%s: noise for %g m on the map was noticed for %d codebooks, for %.1f m %d",
				m.name, groundKM*1000, noticed, 1000*groundKM*(1+g.Distortion()), noticedTimes)
		}
	}
}

// madeFor returns q with noise for a distance on the map.
func (q *Quantizer) madeFor(mapKM float64) *Quantizer {
	other := &Quantizer{grid: q.grid, epsilon: q.epsilon, other: q.other, rest: q.rest}
	offsets, _ := offsetsWithin(mapKM, q.grid.CellKM(), MaxReach)
	search := newNoiseSearch(q.noise.near, offsets, q.other)
	for _, k := range kernels() {
		search.shape(k)
	}
	search.best.near = q.noise.near
	search.best.sum()
	other.noise = &search.best
	return other
}

// groundPairs are pairs of cells that hold places 338 to 340 m apart on the ground, of a region of
// the map.
type groundPairs struct {
	grid *grid.Grid
	// column and row are the region's first, and side how many it has of both.
	column, row, side int
	pairs             [][2]grid.Cell
	cells             []grid.Cell // of the pairs, ascending
}

// newGroundPairs draws a region, often at the northern or southern edge where the map is distorted
// most, and places in it and beside it: half of the first ones anywhere, half close to a side of a
// cell, with the second one across it.
func newGroundPairs(t *testing.T, g *grid.Grid, r *rand.Rand) *groundPairs {
	t.Helper()
	const side = 16
	p := &groundPairs{grid: g, side: min(side, g.Width(), g.Height())}
	p.column = r.IntN(g.Width() - p.side + 1)
	p.row = []int{0, g.Height() - p.side, r.IntN(g.Height() - p.side + 1)}[r.IntN(3)]
	km := g.CellKM()
	seen := map[[2]grid.Cell]bool{}
	for range 600 {
		at := grid.Point{
			X: (float64(p.column-1) + r.Float64()*float64(p.side+2)) * km,
			Y: (float64(p.row-1) + r.Float64()*float64(p.side+2)) * km,
		}
		angle := 2 * math.Pi * r.Float64()
		if r.IntN(2) == 0 {
			at.X = math.Round(at.X/km)*km - 1e-7
			angle = 1e-3 * r.Float64()
		}
		if r.IntN(8) == 0 { // as far north as a fix may lie, or just below
			at.Y = (float64(p.row+p.side+1) - .1*r.Float64()) * km
		}
		if r.IntN(4) == 0 {
			at.Y, angle = math.Round(at.Y/km)*km-1e-7, math.Pi/2-1e-3*r.Float64()
		}
		lat1, lon1 := g.ToDegrees(at)
		want := .338 + .002*r.Float64()
		if r.IntN(2) == 0 {
			want = groundKM - 1e-9
		}
		step := grid.Point{X: math.Cos(angle), Y: math.Sin(angle)}.Scale(want)
		lat2, lon2, away := lat1, lon1, 0.0
		for range 6 {
			lat2, lon2 = g.ToDegrees(at.Add(step))
			away = oracle.Distance(lat1, lon1, lat2, lon2)
			step = step.Scale(want / away)
		}
		if away < .338 || away > groundKM || max(g.Beyond(lat1, lon1), g.Beyond(lat2, lon2)) > km {
			continue
		}
		pair := [2]grid.Cell{g.Locate(lat1, lon1), g.Locate(lat2, lon2)}
		if pair[0] != pair[1] && !seen[pair] {
			seen[pair] = true
			p.pairs = append(p.pairs, pair)
			p.cells = append(p.cells, pair[:]...)
		}
	}
	slices.Sort(p.cells)
	p.cells = slices.Compact(p.cells)
	return p
}

// codebook places code points for a random prior of the region, or anywhere in it.
func (p *groundPairs) codebook(q *Quantizer, r *rand.Rand, n int) {
	if n%2 == 0 {
		d := testcase.Prior(r, p.side*p.side)
		for i, c := range d.Cells {
			d.Cells[i] = grid.Cell((p.row+int(c)/p.side)*p.grid.Width() + p.column + int(c)%p.side)
		}
		q.Prepare(d.Cells, d.P)
		return
	}
	q.points = q.points[:0]
	steps := func(first int) int64 {
		return int64(first)*CodeSteps + int64(r.IntN((p.side-1)*CodeSteps+1))
	}
	for range 2 + r.IntN(6) {
		q.points = append(q.points, convex.Lattice{X: steps(p.column), Y: steps(p.row)})
	}
	slices.SortFunc(q.points, func(a, b convex.Lattice) int {
		if a.Y != b.Y {
			return int(a.Y - b.Y)
		}
		return int(a.X - b.X)
	})
	q.points = slices.Compact(q.points)
}

// hold says whether the factor bounds all pairs, in both directions, and all answers.
func (p *groundPairs) hold(q *Quantizer) bool {
	factor, d := decimal(q.noise.near.Factor), new(big.Int).SetUint64(-q.other)
	least := bigProduct(q.other, q.noise.total)
	left, right := new(big.Int), new(big.Int)
	for j := range q.points {
		tally := q.tally(nil, j, p.cells)
		weight := func(w *big.Int, c grid.Cell) *big.Int {
			i, _ := slices.BinarySearch(p.cells, c)
			w.Mul(w.SetUint64(tally[i]), d)
			return w.Add(w, least)
		}
		for _, pair := range p.pairs {
			for k := range 2 {
				weight(left, pair[k])
				weight(right, pair[1-k])
				left.Mul(left, factor.Denom())
				if left.Cmp(right.Mul(right, factor.Num())) > 0 {
					return false
				}
			}
		}
	}
	return true
}
