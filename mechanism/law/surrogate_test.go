package law

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

func TestSurrogatesAgainstDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 1))
	var s Surrogates
	for i := range 1500 {
		width, height := 1+r.IntN(40), 1+r.IntN(40)
		if i%50 == 0 {
			// wide and flat: cells are searched one by one
			width, height = 150+r.IntN(100), 1+r.IntN(8)
		}
		g, err := grid.Plain(width, height, 1)
		if err != nil {
			t.Fatal(err)
		}
		set := testcase.Cells(r, g.Cells(), []float64{.005, .03, .2, .8}[r.IntN(4)])
		asked := testcase.Cells(r, g.Cells(), []float64{.02, .3, 1}[r.IntN(3)])
		s.Reset(g, set)
		got := s.All(nil, asked)
		for j, c := range asked {
			want := testcase.Surrogate(g, set, c)
			if got[j] != want {
				t.Fatalf("case %d, %d×%d, set %v: surrogate of %d: all at once %d, want %d", i,
					width, height, set, c, set[got[j]], set[want])
			}
			if alone := s.Nearest(c); int32(alone) != want {
				t.Fatalf("case %d, %d×%d, set %v: surrogate of %d: alone %d, want %d", i, width,
					height, set, c, set[alone], set[want])
			}
		}
	}
}

// TestSurrogatesFarAway asks for every cell of maps that are far wider than their sets: beyond the
// table of squares, and too wide for packed distances.
func TestSurrogatesFarAway(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(22, 1))
	for _, c := range []struct{ width, height, left, columns, stride int }{
		{500, 9, 240, 20, 1},
		{700, 5, 0, 60, 1},
		{700, 5, 640, 60, 1},
		{mostSide + 1, 3, mostSide / 2, 50, 997},
		{3, mostSide + 1, 0, 3, 997},
	} {
		g, err := grid.Plain(c.width, c.height, .01)
		if err != nil {
			t.Fatal(err)
		}
		var set, asked []grid.Cell
		for cell := range grid.Cell(g.Cells()) {
			x := g.Column(cell)
			if x >= c.left && x < c.left+c.columns && len(set) < 300 && r.IntN(3) == 0 {
				set = append(set, cell)
			}
			if int(cell)%c.stride == 0 {
				asked = append(asked, cell)
			}
		}
		var s Surrogates
		s.Reset(g, set)
		for i, got := range s.All(nil, asked) {
			if want := testcase.Surrogate(g, set, asked[i]); got != want {
				t.Fatalf("%d×%d: surrogate of %d: got %d, want %d", c.width, c.height, asked[i],
					set[got], set[want])
			}
		}
	}
}

// TestNoSweepNoTable asks for few cells of a very wide set: they are searched one by one, and
// nothing as long as the span is made.
func TestNoSweepNoTable(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(1_000_000, 3, .01)
	if err != nil {
		t.Fatal(err)
	}
	set := []grid.Cell{0, 999_999, 2_500_000}
	var s Surrogates
	s.Reset(g, set)
	if got := s.All(nil, []grid.Cell{10, 999_998, 1_500_000, 2_400_000}); !slices.Equal(got,
		[]int32{0, 1, 2, 2}) {
		t.Errorf("surrogates %v", got)
	}
	if cap(s.columns)+cap(s.heights) > 0 {
		t.Errorf("a table of %d columns was made for a search", cap(s.columns))
	}
}

func TestSurrogateTies(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(5, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	const middle = 12
	for _, c := range []struct{ set, want []grid.Cell }{
		{[]grid.Cell{7, 11, 13, 17}, []grid.Cell{7}},
		{[]grid.Cell{11, 13, 17}, []grid.Cell{11}},
		{[]grid.Cell{13, 17}, []grid.Cell{13}},
		{[]grid.Cell{6, 8, 16, 18}, []grid.Cell{6}},
		{[]grid.Cell{8, 16, 18}, []grid.Cell{8}},
		{[]grid.Cell{0, 2, 22}, []grid.Cell{2}},
		{[]grid.Cell{10, 22}, []grid.Cell{10}},
	} {
		var s Surrogates
		s.Reset(g, c.set)
		got := []grid.Cell{c.set[s.All(nil, []grid.Cell{middle})[0]]}
		if !slices.Equal(got, c.want) || c.set[s.Nearest(middle)] != c.want[0] {
			t.Errorf("set %v: got %v, want %v", c.set, got, c.want)
		}
	}
}

func TestSurrogatesNeedASet(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an empty set did not panic")
		}
	}()
	g, _ := grid.Plain(2, 2, 1)
	new(Surrogates).Reset(g, nil)
}
