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

// TestShortIsAMassBeside: the result is one of the two short masses next to the mass, the mass
// itself if it is short, and 0 or the least one below that.
func TestShortIsAMassBeside(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	const least = 0x1.2p-11
	for i := range 100_000 {
		p := math.Exp(-20 * random.Float64())
		got := Short(p, grid.Cell(i%5000), least)
		low, unit := shortFloor(p), math.Ldexp(1, math.Ilogb(p)-ShortBits)
		high := low + unit
		if low == p {
			high = p
		}
		if p < least {
			low, high = 0, least
		}
		if got != low && got != high {
			t.Fatalf("%g became %g, not %g or %g", p, got, low, high)
		}
		if again := Short(got, grid.Cell(i), least); again != got {
			t.Fatalf("%g is short and became %g", got, again)
		}
	}
	for _, p := range []float64{0, 1, least, 0.5625} {
		if got := Short(p, 7, least); got != p {
			t.Errorf("%g became %g", p, got)
		}
	}
}

// TestShortIsRightOnAverage: over many cells the mean of what a mass is rounded to is that mass,
// for masses anywhere between two short ones, and below the least. Each mean of n is within 5/√n of
// the distance of the two, which chance exceeds less than once in a million masses (Hoeffding: the
// probability is below 2e⁻⁵⁰).
func TestShortIsRightOnAverage(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	const n, least = 10_000, 0x1p-11
	for range 200 {
		p := math.Exp(-12 * random.Float64())
		sum := 0.0
		for c := range n {
			sum += Short(p, grid.Cell(c), least)
		}
		unit := max(least, p/8)
		if got := sum / n; math.Abs(got-p) > 5*unit/math.Sqrt(n) {
			t.Errorf("%g became %g on average", p, got)
		}
	}
}

// TestShortBits pins the rounding: other bits are another sanitizer, see mechanism.StateVersion.
func TestShortBits(t *testing.T) {
	for _, c := range []struct {
		p    float64
		cell grid.Cell
		want float64
	}{
		{.1, 0, 0x1.8p-4},
		{.1, 1, 0x1.ap-4},
		{.1, 2, 0x1.ap-4},
		{1. / 3, 0, 0x1.4p-2},
		{1. / 3, 700, 0x1.6p-2},
		{.9999, 3, 1},
		{1e-4, 0, 0},
		{1e-4, 5, 0},
		{4e-4, 2, 0},
		{4e-4, 3, 0x1p-11},
	} {
		if got := Short(c.p, c.cell, 0x1p-11); got != c.want {
			t.Errorf("{%v, %d, %x},", c.p, c.cell, got)
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
