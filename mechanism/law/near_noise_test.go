package law

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// nearSetting is what a near factor is asked for beside.
type nearSetting struct {
	epsilon, side float64
	near          Near
}

var nearSettings = []nearSetting{
	{4, .34, Near{.34, 2}},
	{4, .34, Near{.34, 3}},
	{4, .34, Near{.01, 5}},
	{2, .34, Near{.34, 1.5}},
	{2, .17, Near{.34, 2}},
	{1, .34, Near{.34, 1.2}},
	{1, 1, Near{2.3, 1.75}},
	{.1, .5, Near{.5, 1.05}},
	{8, .34, Near{.34, 10.125}},
	{12, 1, Near{1, 50}},
	{.5, .1, Near{.25, 1.25}},
	{20, .34, Near{.34, 100}},
}

func nearQuantizer(tb testing.TB, g *grid.Grid, epsilon float64, near Near) *Quantizer {
	tb.Helper()
	q, err := NewNearQuantizer(g, epsilon, near)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// holdsExactly checks the guarantee of a noise for every offset, in every direction, between cells
// that hold places at most so far apart, in fractions, by the definition. It also returns the
// greatest share of what is allowed.
func holdsExactly(q *Quantizer, n *nearNoise, near Near, side float64) (ok bool, most float64) {
	other := new(big.Rat).SetFrac(new(big.Int).SetUint64(q.other), new(big.Int).Lsh(
		big.NewInt(1), 64))
	factor, _ := new(big.Rat).SetString(decimal(near.Factor).RatString())
	right := new(big.Rat).Mul(new(big.Rat).Sub(factor, big.NewRat(1, 1)), other)
	right.Mul(right, new(big.Rat).SetInt(new(big.Int).SetUint64(n.total)))
	spread := new(big.Rat).Sub(big.NewRat(1, 1), other)
	far := int(near.DistanceKM/side) + 3
	for v := -far; v <= far; v++ {
		for w := -far; w <= far; w++ {
			if v == 0 && w == 0 || !nearCells(v, w, near.DistanceKM/side) {
				continue
			}
			sum := new(big.Rat)
			for y := -n.reach; y <= n.reach; y++ {
				for x := -n.reach; x <= n.reach; x++ {
					moved := new(big.Rat).SetInt(new(big.Int).SetUint64(n.at(x-v, y-w)))
					d := new(big.Rat).SetInt(new(big.Int).SetUint64(n.at(x, y)))
					if d.Sub(d, moved.Mul(moved, factor)); d.Sign() > 0 {
						sum.Add(sum, d)
					}
				}
			}
			sum.Mul(sum, spread)
			if sum.Cmp(right) > 0 {
				return false, most
			}
			share, _ := sum.Quo(sum, right).Float64()
			most = max(most, share)
		}
	}
	return true, most
}

// nearCells says whether two cells so many columns and rows apart hold places whose distance is at
// most that, in sides: half-open squares, whose infimum is not reached.
func nearCells(columns, rows int, distance float64) bool {
	gap := func(n int) float64 { return float64(max(n, -n, 1) - 1) }
	d := math.Hypot(gap(columns), gap(rows))
	return d == 0 || d < distance*(1-1e-12)
}

// TestNearNoise: the noise keeps its guarantee, uses up nearly all of what is allowed, and reaches
// no further than it says. The same with less scale, or for neighbours in a row and a column only,
// breaks it.
func TestNearNoise(t *testing.T) {
	t.Parallel()
	for _, c := range nearSettings {
		q := nearQuantizer(t, testcase.Grid(t, 5, 5, c.side), c.epsilon, c.near)
		n := q.noise
		ok, most := holdsExactly(q, n, c.near, c.side)
		if !ok || most < .9 && c.near.Factor <= 3 { // else a ring of cells more is much

			t.Errorf("%+v: %v, %.4f of what is allowed", c, ok, most)
		}
		sum := uint64(0)
		for y := -n.reach - 2; y <= n.reach+2; y++ {
			for x := -n.reach - 2; x <= n.reach+2; x++ {
				w := q.ShiftWeight(x, y)
				if sum += w; w != q.ShiftWeight(-y, x) || w != q.ShiftWeight(-x, y) {
					t.Errorf("%+v: a shift weighs %d and turned something else", c, w)
				}
			}
		}
		if sum != n.total || sum > nearTotal || q.Reach() != n.reach || n.reach > MaxReach {
			t.Errorf("%+v: weights of %d in all, of %d, within %d", c, sum, n.total, n.reach)
		}
		narrow := &nearNoise{reach: n.reach, weights: slices.Clone(n.weights), total: n.total}
		middle := len(narrow.weights) / 2
		narrow.weights[middle] += n.total / 10
		narrow.total += n.total / 10
		if ok, _ := holdsExactly(q, narrow, c.near, c.side); ok {
			t.Errorf("%+v: noise with more weight in the middle is not noticed", c)
		}
		crossed := newNoiseSearch(c.near, []offset{{1, 0}}, q.other)
		for _, k := range kernels() {
			crossed.shape(k)
		}
		if ok, _ := holdsExactly(q, &crossed.best, c.near, c.side); ok {
			t.Errorf("%+v: noise for four neighbours is not noticed", c)
		}
	}
}

// TestNearOffsets: two cells count as near if they hold places at most so far apart. Random places
// of such a distance never lie in others, and of each pair that counts some do.
func TestNearOffsets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(121, 1))
	for _, c := range []struct{ km, side float64 }{
		{.34, .34}, {.68, .34}, {.69, .34}, {.2, .34}, {1, .34}, {1.02, .34}, {.3, .1}, {2, 1},
	} {
		all, ok := offsetsWithin(c.km, c.side, MaxReach)
		if !ok {
			t.Fatal(c)
		}
		seen := map[offset]bool{}
		place := func(v float64) int { return int(math.Floor(v / c.side)) }
		for range 200_000 {
			x, y, angle := c.side*r.Float64(), c.side*r.Float64(), 2*math.Pi*r.Float64()
			d := c.km * (1 - 1e-9)
			a, b := place(x+d*math.Cos(angle)), place(y+d*math.Sin(angle))
			seen[offset{max(a, -a, b, -b), min(max(a, -a), max(b, -b))}] = true
		}
		delete(seen, offset{})
		for v := range seen {
			if !slices.Contains(all, v) {
				t.Errorf("%v: places within the distance lie %v apart", c, v)
			}
		}
		for _, v := range all {
			if !nearCells(v.x, v.y, c.km/c.side) {
				t.Errorf("%v: %v counts as near", c, v)
			}
		}
		number := 0
		for _, v := range all {
			number += copies(v.x, v.y) / 2
		}
		g := testcase.Grid(t, 9, 9, c.side)
		near := Near{DistanceKM: c.km}
		if either := near.Offsets(g); near.OnMap(g) == c.km && len(either) != number {
			t.Errorf("%v: %d offsets of %d", c, len(either), number)
		}
	}
	if all, _ := offsetsWithin(.34, .34, 9); !slices.Equal(all, []offset{{1, 0}, {1, 1}}) {
		t.Errorf("a cell's side: %v", all)
	}
	if _, ok := offsetsWithin(5, .1, MaxReach); ok {
		t.Error("50 cells within 32")
	}
}

func TestNearRefuses(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 9, 9, .34)
	for name, c := range map[string]struct {
		epsilon float64
		near    Near
	}{
		"no distance":            {4, Near{Factor: 2}},
		"a negative distance":    {4, Near{-.34, 2}},
		"a distance without end": {4, Near{math.Inf(1), 2}},
		"no number":              {4, Near{math.NaN(), 2}},
		"no factor":              {4, Near{DistanceKM: .34}},
		"a factor of 1":          {4, Near{.34, 1}},
		"a factor below 0":       {4, Near{.34, -2}},
		"a factor of no number":  {4, Near{.34, math.NaN()}},
		"too large a factor":     {8, Near{.34, 101}},
		"too many decimals":      {4, Near{.34, 1.0625}},
		"a factor of e^ε":        {1, Near{.34, 2.719}},
		"too far":                {4, Near{20, 2}},
		"too strong":             {20, Near{.34, 1.1}},
	} {
		if _, err := NewNearQuantizer(g, c.epsilon, c.near); err == nil {
			t.Error(name)
		}
	}
	onGround, err := grid.New(groundMaps[0].box, groundMaps[0].cellM)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewNearQuantizer(onGround, 4, Near{10_000, 2}); err == nil {
		t.Error("places so far apart that a way between them can touch a pole")
	}
	if _, err := NewNearQuantizer(g, 1, Near{.34, 2.718}); err != nil {
		t.Error(err)
	}
	if _, err := NewNearQuantizer(g, 0, Near{.34, 2}); err == nil {
		t.Error("no ε")
	}
	q, err := NewNearQuantizer(g, 1, Near{})
	if err != nil || q.noise != nil || q.Reach() != 0 || q.ShiftWeight(0, 0) != 1 ||
		q.ShiftWeight(1, 0) != 0 {
		t.Errorf("without a near factor: %v, %v", q, err)
	}
}
