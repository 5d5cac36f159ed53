package mobility

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// TestShortOfIsMassesBeside: each result is one of the two short masses next to the mass, the mass
// itself if it is short, and 0, the least one or twice that below it. Whatever run of cells one
// takes, those below the least keep their mass to within twice the least.
func TestShortOfIsMassesBeside(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	const least = 0x1.2p-11
	var got, again Distribution
	for range 300 {
		var cells []grid.Cell
		var weights []float64
		for i := range 1 + random.IntN(1000) {
			cells = append(cells, grid.Cell(3*i))
			weights = append(weights, math.Exp(-20*random.Float64()))
		}
		weights[0] = []float64{0, 1, least, 0.5625, weights[0]}[random.IntN(5)]
		ShortOf(&got, cells, weights, 1, least, 5)
		drift, lowest, highest := 0.0, 0.0, 0.0
		for i, c := range cells {
			p, q := weights[i], got.At(c)
			low, unit := shortFloor(p), math.Ldexp(1, math.Ilogb(p)-ShortBits)
			high := low + unit
			if p < least {
				low, high, drift = 0, least, drift+q-p
			} else if low == p {
				high = p
			}
			if q != low && q != high && (p >= least || q != 2*least) {
				t.Fatalf("%g became %g, not %g or %g", p, q, low, high)
			}
			lowest, highest = min(lowest, drift), max(highest, drift)
		}
		if highest-lowest > 2*least*(1+1e-9) {
			t.Errorf("runs of %d cells are off by %g, the least mass is %g", len(cells),
				highest-lowest, least)
		}
		ShortOf(&again, got.Cells, got.P, 1, least, 6)
		if !slices.Equal(again.Cells, got.Cells) || !slices.Equal(again.P, got.P) {
			t.Fatal("short masses became others")
		}
	}
}

// TestShortOfIsRightOnAverage: over many places of the same masses the mean of what one of them is
// rounded to is that mass, for masses anywhere between two short ones, and below the least. Each
// mean of n is within 5/√n of the distance of the two, or of twice the least and 0, which chance
// exceeds less than once in a million masses (Hoeffding: the probability is below 2e⁻⁵⁰).
func TestShortOfIsRightOnAverage(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	const n, least, many = 10_000, 0x1p-11, 200
	weights, cells := make([]float64, many), make([]grid.Cell, many)
	for i := range weights {
		weights[i] = math.Exp(-12 * random.Float64())
	}
	sums := make([]float64, many)
	var got Distribution
	for place := range n {
		for i := range cells {
			cells[i] = grid.Cell(place + i)
		}
		ShortOf(&got, cells, weights, 1, least, 0)
		for i, c := range got.Cells {
			sums[int(c)-place] += got.P[i]
		}
	}
	for i, p := range weights {
		unit := max(2*least, p/8)
		if got := sums[i] / n; math.Abs(got-p) > 5*unit/math.Sqrt(n) {
			t.Errorf("%g became %g on average", p, got)
		}
	}
}

// TestShortOfIsEvenOnAMap: of a flat distribution on a map whose rows hold a whole number of strata
// what is kept is spread over all columns. Column and row of those that are kept are even, so their
// means have the standard deviation side/√(12·n), and stay within six of them. Another first mass,
// another total and another step choose other cells.
func TestShortOfIsEvenOnAMap(t *testing.T) {
	const side, least = 512, 0x1p-10
	cells, weights := make([]grid.Cell, side*side), make([]float64, side*side)
	for i := range cells {
		cells[i], weights[i] = grid.Cell(i), 1
	}
	var seen [4]Distribution
	for i := range seen {
		total, step := float64(len(weights)), int64(0)
		switch i {
		case 1:
			weights[0] *= 1 + 0x1p-40
		case 2:
			total *= 1 + 0x1p-40
		case 3:
			step = 1
		}
		ShortOf(&seen[i], cells, weights, 1/total, least, step)
		column, row, n := 0.0, 0.0, float64(seen[i].Len())
		for _, c := range seen[i].Cells {
			column += float64(c%side) / n
			row += float64(c/side) / n
		}
		most := 6 * side / math.Sqrt(12*n)
		if math.Abs(seen[i].Total()-1) > 2*least || math.Abs(column-side/2) > most ||
			math.Abs(row-side/2) > most {
			t.Errorf("%v cells are left, with %g in all, about %g, %g", n, seen[i].Total(), column,
				row)
		}
		if i > 0 && slices.Equal(seen[i].Cells, seen[0].Cells) {
			t.Errorf("distribution %d keeps the cells of another", i)
		}
	}
}

// TestShortOfBits pins the rounding: other bits are another sanitizer, see mechanism.StateVersion.
func TestShortOfBits(t *testing.T) {
	cells := []grid.Cell{0, 1, 2, 3, 5, 40, 41, 42, 700}
	weights := []float64{.1, .1, 1e-4, 1. / 3, .9999, 1e-4, 4e-4, 3e-4, 4e-4}
	for first, want := range map[grid.Cell][]float64{
		0:   {0x1.ap-4, 0x1.ap-4, 0, 0x1.6p-2, 1, 0, 0x1p-11, 0x1p-11, 0},
		700: {0x1.8p-4, 0x1.ap-4, 0, 0x1.6p-2, 1, 0, 0x1p-11, 0, 0x1p-10},
	} {
		at := make([]grid.Cell, len(cells))
		for i, c := range cells {
			at[i] = c + first
		}
		var got Distribution
		ShortOf(&got, at, weights, 1, 0x1p-11, 9)
		rounded := make([]float64, len(at))
		for i, c := range at {
			rounded[i] = got.At(c)
		}
		if !slices.Equal(rounded, want) {
			t.Errorf("from %d on: %x", first, rounded)
		}
	}
}

// shortDistribution is a random one of short masses, whose cells lie in runs.
func shortDistribution(random *rand.Rand, n int) *Distribution {
	d, c := new(Distribution), grid.Cell(0)
	for range n {
		if random.IntN(4) == 0 {
			c += grid.Cell(random.IntN(300))
		}
		d.Cells = append(d.Cells, c)
		d.P = append(d.P, shortFloor(math.Exp(-float64(random.IntN(44))*random.Float64())))
		c++
	}
	return d
}

func TestShortEncodingIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 1))
	var back Distribution
	for _, n := range []int{1, 2, 3, 7, 100, 3000} {
		for range 50 {
			d := shortDistribution(random, n)
			data, ok := d.AppendShort([]byte("before"))
			if !ok || !bytes.HasPrefix(data, []byte("before")) {
				t.Fatalf("%t, %.6q", ok, data)
			}
			if err := back.DecodeShort(data[6:]); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(back.Cells, d.Cells) || !slices.Equal(back.P, d.P) {
				t.Fatalf("%d cells did not come back as they were", n)
			}
		}
	}
	flat := disc(plainGrid(t, 80, 80), 3000, 1) // where one mass takes a code of 500 zeros
	for i := range flat.P {
		flat.P[i] = .5
	}
	flat.P[1700] = ShortLeast
	for _, extreme := range []Distribution{
		*flat,
		{Cells: []grid.Cell{grid.MaxCells - 1}, P: []float64{ShortLeast}},
		{Cells: []grid.Cell{0, grid.MaxCells - 1}, P: []float64{ShortLeast, 1}},
		{Cells: []grid.Cell{0, 1, 2, 3}, P: []float64{1, ShortLeast, 1, ShortLeast}},
	} {
		data, ok := extreme.AppendShort(nil)
		if err := back.DecodeShort(data); !ok || err != nil ||
			!slices.Equal(back.Cells, extreme.Cells) || !slices.Equal(back.P, extreme.P) {
			t.Errorf("%v became %v: %v", extreme, back, err)
		}
	}
}

// TestShortFormat pins the bytes, which stored states have.
func TestShortFormat(t *testing.T) {
	d := Distribution{
		Cells: []grid.Cell{0, 3, 4, 700}, P: []float64{.5, .25, .234375, 0x1p-11},
	}
	got, ok := d.AppendShort([]byte{9})
	want := []byte{
		9,    // before
		4, 4, // four cells, four lowest bits
		0xd2, 0x00, // 1 1, 010 010, 9 zeros of 695
		0x56, // its bits 1 010110
		0xff, // 111, 1; of the masses 1 111
		0xfe, 0x20, 0x1d,
	}
	if !ok || !bytes.Equal(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

func TestShortRefusesOtherMasses(t *testing.T) {
	for _, p := range []float64{.1, 0, -1, ShortLeast / 2, 1.125, math.NaN(), math.Inf(1)} {
		d := Distribution{Cells: []grid.Cell{1, 2}, P: []float64{.5, p}}
		if data, ok := d.AppendShort([]byte("x")); ok || string(data) != "x" {
			t.Errorf("%g was taken: %t, %q", p, ok, data)
		}
	}
}

func TestDecodeShortRefuses(t *testing.T) {
	good, _ := shortDistribution(rand.New(rand.NewPCG(6, 1)), 40).AppendShort(nil)
	for n := range good {
		if err := new(Distribution).DecodeShort(good[:n]); !errors.Is(err, ErrDistribution) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	last := good[len(good)-1]
	for name, data := range map[string][]byte{
		"no cell":             change(0, 0),
		"more cells":          change(0, 41),
		"fewer cells":         change(0, 39),
		"endless count":       bytes.Repeat([]byte{0xff}, 11),
		"a count beyond data": {0xff, 0xff, 0x7f, 1, 0xff},
		"no parameter":        {4},
		"parameter 0":         change(1, 0),
		"parameter 7":         change(1, 7),
		"a byte more":         append(bytes.Clone(good), 0),
		"bits behind the end": change(len(good)-1, last|1),
		"a cell too large":    {1, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff},
		"zeros alone":         {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a mass above 1":      {1, 1, 0xd0},
	} {
		d := Distribution{Cells: []grid.Cell{1}, P: []float64{1}}
		if err := d.DecodeShort(data); !errors.Is(err, ErrDistribution) || d.Len() != 0 {
			t.Errorf("%s: error %v, %d cells left", name, err, d.Len())
		}
	}
}

func FuzzDecodeShort(f *testing.F) {
	random := rand.New(rand.NewPCG(8, 1))
	for _, n := range []int{1, 5, 60} {
		data, _ := shortDistribution(random, n).AppendShort(nil)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again Distribution
		if err := d.DecodeShort(data); err != nil {
			return
		}
		if d.Len() > 4*len(data) {
			t.Fatalf("%d cells of %d bytes", d.Len(), len(data))
		}
		before := grid.Cell(-1)
		for i, c := range d.Cells {
			if _, ok := shortCode(d.P[i]); c <= before || !ok {
				t.Fatalf("entry %d is not in order", i)
			}
			before = c
		}
		encoded, ok := d.AppendShort(nil)
		if !ok || len(encoded) > len(data) {
			t.Fatalf("%d bytes were read as what takes %d", len(data), len(encoded))
		}
		if err := again.DecodeShort(encoded); err != nil || !slices.Equal(again.Cells, d.Cells) ||
			!slices.Equal(again.P, d.P) {
			t.Fatalf("the encoding of what was decoded differs: %v", err)
		}
	})
}

// shortFloor returns the largest short mass that is at most p, and ShortLeast below that.
func shortFloor(p float64) float64 {
	p = min(max(p, ShortLeast), 1)
	return math.Float64frombits(math.Float64bits(p) >> shortShift << shortShift)
}
