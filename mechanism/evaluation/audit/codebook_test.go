package audit

import (
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// The closed-form attack on a codebook: of two cells that vote otherwise, an answer for the vote of
// one speaks for it by a factor of e^ε exactly. The observer guesses at these two answers.

// codebookAlpha is the rate at which a bound exceeds the true ε by chance.
const codebookAlpha = 5e-4

// guesser counts right and wrong guesses at which of two cells a release is of.
type guesser struct {
	votes        [2]int
	hits, misses int64
}

func (g *guesser) guess(place, answer int) {
	switch answer {
	case g.votes[place]:
		g.hits++
	case g.votes[1-place]:
		g.misses++
	}
}

func (g *guesser) bound() float64 { return EpsilonLowerBound(g.hits, g.misses, codebookAlpha) }

// border returns two neighbouring cells that vote otherwise: what a codebook protects least.
func border(tb testing.TB, q *law.Quantizer, g *grid.Grid) [2]grid.Cell {
	tb.Helper()
	for c := range grid.Cell(g.Cells() - 1) {
		if g.Row(c) == g.Row(c+1) && q.Vote(c) != q.Vote(c+1) {
			return [2]grid.Cell{c, c + 1}
		}
	}
	tb.Fatal("all cells vote alike")
	return [2]grid.Cell{}
}

// sure is a model of a map whose users start in a blob of cells.
func sure(tb testing.TB) *mobility.Model {
	tb.Helper()
	g, err := grid.Plain(16, 16, .34)
	if err != nil {
		tb.Fatal(err)
	}
	m := &mobility.Matrix{RowStart: []int64{0}}
	for c := range grid.Cell(g.Cells()) {
		m.Columns, m.Values = append(m.Columns, c), append(m.Values, 1)
		m.RowStart = append(m.RowStart, int64(c)+1)
	}
	model := &mobility.Model{Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}}
	for _, c := range []grid.Cell{35, 36, 37, 51, 52, 68, 100, 101, 117, 134, 150, 151, 200} {
		model.Initial.Cells = append(model.Initial.Cells, c)
		model.Initial.P = append(model.Initial.P, 1+float64(c%5))
	}
	model.Initial.Normalize()
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// TestCodebookAttack: from a million releases of two neighbouring cells the attack reaches .97 of ε
// at ε = 1, and does not exceed ε. A codebook of a larger ε is noticed.
func TestCodebookAttack(t *testing.T) {
	t.Parallel()
	model := sure(t)
	for _, c := range []struct {
		epsilon, drawn, least float64
	}{{1, 1, .97}, {2, 2, .97}, {4, 4, .97}, {1, 1.05, 1}, {2, 2.1, 1}} {
		q, err := law.NewQuantizer(model.Grid, c.drawn)
		if err != nil {
			t.Fatal(err)
		}
		q.Prepare(model.Initial.Cells, model.Initial.P)
		cells := border(t, q, model.Grid)
		g := guesser{votes: [2]int{q.Vote(cells[0]), q.Vote(cells[1])}}
		src := noise.NewKeyed(noise.KeyFromSeed(121)).Stream(nil)
		for range DefaultDraws {
			place := int(src.Uint64() >> 63)
			g.guess(place, q.Sample(src, q.Vote(cells[place])))
		}
		bound := g.bound()
		t.Logf("ε = %v, drawn with %v: a bound of %.4f", c.epsilon, c.drawn, bound)
		if bound < c.least*c.epsilon ||
			(bound > c.epsilon) != (c.drawn > c.epsilon) {
			t.Errorf("ε = %v, drawn with %v: a bound of %.4f", c.epsilon, c.drawn, bound)
		}
	}
}

// TestCodebookStepAttack is the attack through whole steps of many users under one key: what is
// published follows the law of ε, and ε × 1.2 is noticed.
func TestCodebookStepAttack(t *testing.T) {
	t.Parallel()
	const users = 30_000
	model := sure(t)
	attack := func(epsilon float64) float64 {
		s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(122)),
			mechanism.Options{Mechanism: law.Codebook, Epsilon: epsilon})
		if err != nil {
			t.Fatal(err)
		}
		q, err := law.NewQuantizer(model.Grid, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		q.Prepare(model.Initial.Cells, model.Initial.P)
		cells := border(t, q, model.Grid)
		g := guesser{votes: [2]int{q.Vote(cells[0]), q.Vote(cells[1])}}
		coins := noise.NewKeyed(noise.KeyFromSeed(123)).Stream(nil)
		for user := range users {
			place := int(coins.Uint64() >> 63)
			var state mechanism.State
			out, err := s.Step(&state, mechanism.Input{
				User: string(rune(user + 1)), Step: int64(user), Cell: cells[place], Release: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			g.guess(place, q.Nearest(out.Release))
		}
		return g.bound()
	}
	if bound := attack(1); bound < .9 || bound > 1 {
		t.Errorf("ε = 1: a bound of %.4f", bound)
	}
	if bound := attack(1.2); bound <= 1 {
		t.Errorf("ε = 1.2 passes for 1: a bound of %.4f", bound)
	}
}
