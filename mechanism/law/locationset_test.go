package law

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestSetIsSmallest looks at every subset: none smaller reaches 1-δ, and of those as small none
// holds more.
func TestSetIsSmallest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(32, 1))
	var s LocationSet
	for range 300 {
		d := testcase.Prior(r, 10)
		delta := []float64{.01, .1, .3, .6}[r.IntN(4)]
		s.Choose(d, delta)
		for subset := range 1 << len(d.P) {
			size, sum := bits.OnesCount(uint(subset)), 0.0
			for i, p := range d.P {
				if subset>>i&1 == 1 {
					sum += p
				}
			}
			if size < len(s.Cells) && sum >= 1-delta-setTolerance/2 {
				t.Fatalf("%d cells hold %g, but the set for δ = %g has %d", size, sum, delta,
					len(s.Cells))
			}
			if held := testcase.Mass(d, s.Cells); size == len(s.Cells) && sum > held+setTolerance {
				t.Fatalf("another set of %d cells holds %g, more than %g", size, sum, held)
			}
		}
	}
}

// TestOrder sorts by probability, greatest first, and equal ones by index.
func TestOrder(t *testing.T) {
	t.Parallel()
	members := []candidate{{.1, 2}, {.3, 4}, {.1, 0}, {.5, 9}, {.3, 1}}
	slices.SortFunc(members, byProbability)
	if want := []candidate{{.5, 9}, {.3, 1}, {.3, 4}, {.1, 0}, {.1, 2}}; !slices.Equal(members,
		want) {
		t.Errorf("got %v, want %v", members, want)
	}
}

// TestTolerance puts sums a little below 1-δ: as far as rounding goes they count as 1-δ, a
// thousand times further they do not.
func TestTolerance(t *testing.T) {
	t.Parallel()
	var s LocationSet
	for short, want := range map[float64]int{
		0: 1, 1e-13: 1, 9e-13: 1, 2e-12: 2, 1e-11: 2, 5e-10: 2,
		1e-9: 2,
	} {
		s.Choose(&mobility.Distribution{
			Cells: []grid.Cell{1, 2, 3},
			P:     []float64{.75 - short, .125 + short, .125},
		}, .25)
		if len(s.Cells) != want {
			t.Errorf("%g below 1-δ: a set of %d cells, want %d", short, len(s.Cells), want)
		}
	}
}

func TestRoundedSums(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p     []float64
		delta float64
		want  []grid.Cell
	}{
		// .4+.3+.2 = .8999… in binary
		{[]float64{.3, .4, .05, .2, .03, .02}, .1, []grid.Cell{0, 1, 3}},
		{[]float64{.3, .4, .05, .2, .03, .02}, .05, []grid.Cell{0, 1, 2, 3}},
		{
			[]float64{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1},
			.1,
			[]grid.Cell{0, 1, 2, 3, 4, 5, 6, 7, 8},
		},
		{[]float64{.25, .25, .25, .25}, .5, []grid.Cell{0, 1}},
		{[]float64{1}, .5, []grid.Cell{0}},
		{[]float64{1 - 1e-15, 1e-15}, 0, []grid.Cell{0, 1}},
		{[]float64{1 - 1e-15, 1e-15}, 1e-9, []grid.Cell{0}},
	} {
		d := &mobility.Distribution{P: c.p}
		for i := range c.p {
			d.Cells = append(d.Cells, grid.Cell(i))
		}
		var s LocationSet
		if s.Choose(d, c.delta); !slices.Equal(s.Cells, c.want) {
			t.Errorf("%v, δ = %g: got %v, want %v", c.p, c.delta, s.Cells, c.want)
		}
	}
}

// TestLooseTotal gives priors whose sum rounding has taken below what the set must reach:
// everything is in it.
func TestLooseTotal(t *testing.T) {
	t.Parallel()
	d := &mobility.Distribution{Cells: []grid.Cell{0, 1, 2}, P: []float64{.5, .25, .2}}
	var s LocationSet
	if s.Choose(d, .01); len(s.Cells) != 3 {
		t.Errorf("got %v, want every cell", s.Cells)
	}
}

func TestSetNeedsAPrior(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an empty prior did not panic")
		}
	}()
	new(LocationSet).Choose(&mobility.Distribution{}, .1)
}

// TestSize: Size is that of the set, up to a part of the cells that are as likely as the last one.
func TestSize(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(32, 5))
	var s LocationSet
	off := 0
	for range 500 {
		d := testcase.Prior(r, 1+r.IntN(400))
		delta := []float64{0, .01, .1, .5}[r.IntN(4)]
		size := s.Size(d, delta)
		s.Choose(d, delta)
		last := 2.
		for _, c := range s.Cells {
			last = min(last, d.At(c))
		}
		alike := 0
		for _, p := range d.P {
			if p > last/1.25 && p < last*1.25 {
				alike++
			}
		}
		if diff := max(size-len(s.Cells), len(s.Cells)-size); diff > alike/8+1 {
			t.Errorf("δ = %v: %d cells, the set has %d, and %d are about as likely as its last one",
				delta, size, len(s.Cells), alike)
		} else if diff > 0 {
			off++
		}
	}
	if off > 250 {
		t.Errorf("%d of 500 sizes are off", off)
	}
}
