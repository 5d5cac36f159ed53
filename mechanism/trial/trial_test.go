package trial

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

const side = 6

// model is a map of side × side cells on which people stay with probability ½ or go one cell
// east, and round the map's edge.
func model(t *testing.T) *mobility.Model {
	t.Helper()
	g, err := grid.New(grid.Box{South: 53, West: -3, North: 53.0269, East: -2.9556}, 500)
	if err != nil {
		t.Fatal(err)
	}
	if g.Width() != side || g.Height() != side {
		t.Fatalf("%d × %d cells", g.Width(), g.Height())
	}
	matrix := &mobility.Matrix{RowStart: []int64{0}}
	initial := mobility.Distribution{}
	for c := range grid.Cell(g.Cells()) {
		next := c + 1
		if next%side == 0 {
			next -= side
		}
		matrix.Columns = append(matrix.Columns, min(c, next), max(c, next))
		matrix.Values = append(matrix.Values, .5, .5)
		matrix.RowStart = append(matrix.RowStart, int64(len(matrix.Columns)))
		initial.Cells, initial.P = append(initial.Cells, c), append(initial.P, 1/float64(g.Cells()))
	}
	m := &mobility.Model{
		Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{matrix}, Initial: initial,
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

func sanitizer(t *testing.T, m *mobility.Model) *mechanism.Sanitizer {
	t.Helper()
	s, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(1)),
		mechanism.Options{Epsilon: 2, Delta: .05})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// firstSteps returns the steps from 0.
func firstSteps(number int64) (steps []int64) {
	for step := range number {
		steps = append(steps, step)
	}
	return steps
}

// walked returns a simulated track.
func walked(m *mobility.Model, seed uint64, reports int) (steps []int64, cells []grid.Cell) {
	walker := NewWalker(m, rand.New(rand.NewPCG(seed, 0)))
	for step := range int64(reports) {
		steps, cells = append(steps, step), append(cells, walker.Cell)
		walker.Move(step)
	}
	return steps, cells
}

// TestRun: the outcomes are those of a sanitizer's steps, from the state of a new user each time,
// and the blind filter beside changes none of them and says what one without releases says.
func TestRun(t *testing.T) {
	m := model(t)
	alone, err := Alone(sanitizer(t, m), firstSteps(20))
	if err != nil {
		t.Fatal(err)
	}
	runners := map[string]*Runner{
		"alone":        {Sanitizer: sanitizer(t, m), Release: true},
		"beside":       {Sanitizer: sanitizer(t, m), Release: true, Beside: true},
		"beside known": {Sanitizer: sanitizer(t, m), Release: true, Beside: true, Alone: alone},
		"blind":        {Sanitizer: sanitizer(t, m)},
		"blind beside": {Sanitizer: sanitizer(t, m), Beside: true},
	}
	for name, runner := range runners {
		for _, user := range []string{"a", "b"} {
			steps, cells := walked(m, uint64(user[0]), 20)
			want, blind := sanitizer(t, m), sanitizer(t, m)
			var state, unseen mechanism.State
			var score Score
			err := runner.Run(Track{
				User: user, Reports: Centres(m.Grid, steps, cells),
			}, func(r *Result) error {
				in := mechanism.Input{
					User: user, Step: r.Step, Cell: cells[r.Number], Release: runner.Release,
					Prior: true,
				}
				out, err := want.Step(&state, in)
				if err != nil {
					return err
				}
				if !reflect.DeepEqual(out, r.Outcome) || r.Step != steps[r.Number] ||
					r.Place != m.Grid.Centre(cells[r.Number]) {
					t.Errorf("%s, report %d of %s: %+v at %+v, want %+v",
						name, r.Number, user, r.Outcome, r.Report, out)
				}
				in.Release = false
				nothing, err := blind.Step(&unseen, in)
				if err != nil {
					return err
				}
				best := new(mechanism.Estimator).Best(m.Grid, &unseen.Posterior)
				if runner.Beside && (r.Blind != best || r.Blind.Mean != nothing.Estimate) {
					t.Errorf("%s, report %d: blind %v, want %v", name, r.Number, r.Blind, best)
				}
				score.Add(r)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			releases, besides := 0, 0
			if runner.Release {
				releases = len(steps)
			}
			if runner.Beside {
				besides = len(steps)
			}
			if int(score.Releases()) != releases || score.Release.Len() != releases ||
				score.Estimate.Len() != len(steps) || score.Blind.Len() != besides {
				t.Errorf("%s: %d releases, and distances of %d releases, %d and %d estimates",
					name, score.Releases(), score.Release.Len(), score.Estimate.Len(),
					score.Blind.Len())
			}
		}
	}
}

// TestBlindIsTheBest: nobody who sees no release does better than the blind baseline, whatever the
// loss: people live in three cells of a row, and every tenth at its far end, which draws the mean
// away and not the median.
func TestBlindIsTheBest(t *testing.T) {
	m := model(t)
	for c := range m.Matrices[0].RowStart[1:] { // everybody stays
		m.Matrices[0].RowStart[c+1] = int64(c + 1)
	}
	m.Matrices[0].Columns, m.Matrices[0].Values = nil, nil
	for c := range grid.Cell(m.Grid.Cells()) {
		m.Matrices[0].Columns = append(m.Matrices[0].Columns, c)
		m.Matrices[0].Values = append(m.Matrices[0].Values, 1)
	}
	m.Initial = mobility.Distribution{Cells: []grid.Cell{0, 1, 2, 5}, P: []float64{.7, .1, .1, .1}}
	for _, place := range []string{mechanism.EstimateMean, mechanism.EstimateMode} {
		s, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(1)),
			mechanism.Options{Epsilon: 2, Delta: .05, Estimate: place})
		if err != nil {
			t.Fatal(err)
		}
		var score Score
		runner := Runner{Sanitizer: s, Beside: true}
		for seed := range uint64(400) {
			steps, cells := walked(m, seed, 3)
			err := runner.Run(Track{Reports: Centres(m.Grid, steps, cells)},
				func(r *Result) error { score.Add(r); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		byMean := place == mechanism.EstimateMean
		if one, other := score.Blind.Mean(), score.Estimate.Mean(); byMean && one > .8*other ||
			!byMean && one != other {
			t.Errorf("%s: a blind distance of %v m, and %v by the estimate", place, one, other)
		}
		if one, other := score.Blind.RMS(), score.Estimate.RMS(); byMean != (one == other) ||
			one > other {
			t.Errorf("%s: a blind rms of %v m, and %v by the estimate", place, one, other)
		}
	}
}

// TestRunEnds: an error of visit ends the run.
func TestRunEnds(t *testing.T) {
	m := model(t)
	steps, cells := walked(m, 1, 9)
	stop, seen := errors.New("stop"), 0
	err := (&Runner{Sanitizer: sanitizer(t, m)}).Run(Track{
		Reports: Centres(m.Grid, steps, cells),
	}, func(*Result) error {
		if seen++; seen == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || seen != 3 {
		t.Errorf("%v after %d results", err, seen)
	}
}

// TestWalker: a walker goes where the model lets it, half of the time it stays, and its places are
// those of its cell.
func TestWalker(t *testing.T) {
	m := model(t)
	walker := NewWalker(m, rand.New(rand.NewPCG(3, 4)))
	const steps = 4000
	stays := 0
	for step := range int64(steps) {
		before := walker.Cell
		if at := walker.Place(); m.Grid.CellAt(at) != before {
			t.Fatalf("%v is not in cell %d", at, before)
		}
		walker.Move(step)
		switch column, next := m.Grid.Column(before), m.Grid.Column(walker.Cell); {
		case walker.Cell == before:
			stays++
		case m.Grid.Row(before) != m.Grid.Row(walker.Cell) || (column+1)%side != next:
			t.Fatalf("from cell %d to %d", before, walker.Cell)
		}
	}
	if stays < steps/2-160 || stays > steps/2+160 { // five standard deviations
		t.Errorf("%d of %d steps stay", stays, steps)
	}
	if at := WalkerAt(m, rand.New(rand.NewPCG(3, 4)), 7); at.Cell != 7 {
		t.Errorf("a walker at 7 is in %d", at.Cell)
	}
}
