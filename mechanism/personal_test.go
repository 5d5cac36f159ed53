package mechanism

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// commuter is a user who was seen to go round a path of the road model three times, and then to
// jump where no road leads.
func commuter(tb testing.TB, m *mobility.Model, seed uint64) *mobility.Personal {
	tb.Helper()
	n := map[[2]grid.Cell]float64{}
	path := walk(m, seed, 60)
	for i, c := range path {
		n[[2]grid.Cell{c, path[(i+1)%len(path)]}] += 3
	}
	counts := mobility.PersonalCounts{Weight: 5}
	for from := range grid.Cell(m.Grid.Cells()) {
		visits := 0.0
		for to := range grid.Cell(m.Grid.Cells()) {
			if n := n[[2]grid.Cell{from, to}]; n > 0 {
				counts.Transitions = append(counts.Transitions,
					mobility.Count{From: from, To: to, N: n})
				visits += n
			}
		}
		if visits > 0 {
			counts.Visits = append(counts.Visits, mobility.Count{From: from, To: from, N: visits})
		}
	}
	p, err := mobility.NewPersonal(m, counts)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// inFull returns the model with every row of the personal one in it.
func inFull(tb testing.TB, p *mobility.Personal) *mobility.Model {
	tb.Helper()
	popular, counts := p.Popular(), p.Counts()
	full := &mobility.Model{
		Grid: popular.Grid, Step: popular.Step,
		Matrices: []*mobility.Matrix{{RowStart: []int64{0}}},
	}
	p.Initial(&full.Initial)
	matrix := full.Matrices[0]
	for from := range grid.Cell(popular.Grid.Cells()) {
		own := map[grid.Cell]float64{}
		total := counts.Weight
		for _, c := range counts.Transitions {
			if c.From == from {
				own[c.To] = c.N
				total += c.N
			}
		}
		columns, values := popular.Matrices[0].Entries(from)
		for to := range grid.Cell(popular.Grid.Cells()) {
			v := own[to] / total
			if at, ok := slices.BinarySearch(columns, to); ok {
				v += values[at] * counts.Weight / total
			}
			if v > 0 {
				matrix.Columns, matrix.Values = append(matrix.Columns, to), append(matrix.Values, v)
			}
		}
		matrix.RowStart = append(matrix.RowStart, int64(len(matrix.Columns)))
	}
	if err := full.Validate(); err != nil {
		tb.Fatal(err)
	}
	return full
}

// TestPersonalSteps lets an observer with the full model follow the releases under the personal
// one: the two agree to the rounding of what is stored. The popular model alone does not.
func TestPersonalSteps(t *testing.T) {
	t.Parallel()
	road := roadModel(t)
	user := commuter(t, road, 1)
	o := Options{Epsilon: 1, Delta: .05, MaxGap: 10}
	s, full, popular := newSanitizer(t, road, o), newSanitizer(t, inFull(t, user), o),
		newSanitizer(t, road, o)
	var state, theirs, other State
	apart := 0.0
	step := int64(0)
	for i, cell := range walk(road, 1, 60) {
		step += int64(1 + i%3)
		if i == 30 {
			step += 100 // starts over
		}
		kind := Released
		in := Input{User: "u", Step: step, Cell: cell, Release: i%7 != 6, Personal: user}
		if !in.Release {
			kind = Predicted
		}
		out := mustStep(t, s, &state, in)
		for _, observer := range []struct {
			s     *Sanitizer
			state *State
		}{{full, &theirs}, {popular, &other}} {
			if err := observer.s.Observe(observer.state,
				Seen{Step: step, Kind: kind, Release: out.Release}); err != nil {
				t.Fatal(err)
			}
		}
		if d := distance(&state, &theirs); d > 1e-5 {
			t.Fatalf("step %d: the full model's posterior is %g away", step, d)
		}
		apart = max(apart, distance(&state, &other))
	}
	if apart < .1 {
		t.Errorf("the popular posterior is never further away than %g: a poor test", apart)
	}
	if got, err := ParseID(user.ID()); err != nil || state.Model != got {
		t.Errorf("the state's model is %v, want %v (%v)", state.Model, got, err)
	}
}

// TestPersonalStates: a state is of the model that it was made under, and no other steps it.
func TestPersonalStates(t *testing.T) {
	t.Parallel()
	road := roadModel(t)
	user, strange := commuter(t, road, 1), commuter(t, denseModel(t, 32, 32), 1)
	s := newSanitizer(t, road, Options{Epsilon: 1, Delta: .05})
	var state State
	in := Input{User: "u", Step: 1, Cell: 16*32 + 16, Release: true, Personal: user}
	mustStep(t, s, &state, in)
	before := state.AppendBinary(nil)
	for other, want := range map[*mobility.Personal]error{
		nil: ErrOtherModel, commuter(t, road, 2): ErrOtherModel, strange: ErrOtherPopular,
	} {
		in.Personal = other
		if _, err := s.Step(&state, in); !errors.Is(err, want) {
			t.Errorf("under another model: %v, want %v", err, want)
		}
	}
	if !bytes.Equal(state.AppendBinary(nil), before) {
		t.Error("an error changed the state")
	}
	if got := s.Migrate(&state); got != PosteriorKept {
		t.Errorf("to the popular model: %v", got)
	}
	in.Personal = nil
	if out := mustStep(t, s, &state, in); out.Kind != Repeated {
		t.Errorf("the step's release is lost under the popular model: %v", out.Kind)
	}
}

// TestPersonalStepsArePrivateExactly checks the definition of ε-differential privacy in whole
// numbers, over all pairs of the map's cells, for the sets that steps under a personal model
// choose.
func TestPersonalStepsArePrivateExactly(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(83, 1))
	road := roadModel(t)
	user := commuter(t, road, 1)
	s := newSanitizer(t, road, Options{Epsilon: 1, Delta: .05})
	var state State
	larger := 0
	for step, cell := range walk(road, 9, 40) {
		mustStep(t, s, &state, Input{
			User: "u", Step: int64(step), Cell: cell, Release: true,
			Personal: user,
		})
		set := &testcase.ExactSet{
			Grid: road.Grid, Cells: slices.Clone(s.emission.set.Cells), Epsilon: 1,
			Parts: law.DefaultSubdivision,
		}
		var hull law.SensitivityHull
		hull.OfCells(road.Grid, set.Cells)
		if worst, ok := checkExact(t, r, set, &hull); !ok {
			t.Fatalf("step %d: exponents differ by %v·ε", step, worst)
		}
		larger += min(1, len(set.Cells)/4)
	}
	if larger < 20 {
		t.Errorf("only %d sets of four cells or more", larger)
	}
}
