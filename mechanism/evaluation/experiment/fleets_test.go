package experiment

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
)

func scoreOf(t *testing.T, scores []FleetScore, vehicles int, estimator string) FleetScore {
	t.Helper()
	for _, s := range scores {
		if s.Vehicles == vehicles && s.Estimator == estimator {
			return s
		}
	}
	t.Fatalf("no score with %d vehicles for %s", vehicles, estimator)
	return FleetScore{}
}

// TestFleets: a fleet that the model does not predict is found by its releases, the better the more
// vehicles there are, and far better than by the model alone or by a histogram of releases.
func TestFleets(t *testing.T) {
	t.Parallel()
	last := int64(0)
	o := Fleets{
		Kind: Gathered, Model: testcase.Town(t),
		Release:  mechanism.Options{Delta: .05, Epsilon: 4},
		Vehicles: []int{20, 200, 600}, Steps: 4, Block: 1, Seed: 3, GatheredKM: .1,
		Progress: func(done int64) error {
			if done < last || done > 600 {
				t.Errorf("progress %d after %d", done, last)
			}
			last = done
			return nil
		},
	}
	scores, err := o.Measure()
	if err != nil || last != 600 {
		t.Fatal(err, last)
	}
	last = 0
	if again, err := o.Measure(); err != nil || !reflect.DeepEqual(scores, again) {
		t.Errorf("again there are other scores, or %v", err)
	}
	f, p := scoreOf(t, scores, 600, "fitted"), scoreOf(t, scores, 600, "posterior")
	b, n := scoreOf(t, scores, 600, "blind"), scoreOf(t, scores, 600, "naive")
	if f.Variation > .8*b.Variation || p.Variation > .8*b.Variation ||
		f.Variation > scoreOf(t, scores, 20, "fitted").Variation || f.Variation > .8*n.Variation {
		t.Errorf("gathered: naive %.3f, blind %.3f, posterior %.3f, fitted %.3f",
			n.Variation, b.Variation, p.Variation, f.Variation)
	}
	for _, s := range scores {
		sum := 0.
		for _, v := range s.Variations {
			sum += v
		}
		if len(s.Variations) != s.Fleets || math.Abs(sum/float64(s.Fleets)-s.Variation) > 1e-12 ||
			s.Variation < 0 || s.Variation > 1 || s.TopFound < 0 || s.TopFound > 1 ||
			math.Abs(s.Rank) > 1 {
			t.Errorf("%+v", s)
		}
	}
	stop := errors.New("stop")
	o.Progress = func(int64) error { return stop }
	if _, err := o.Measure(); !errors.Is(err, stop) {
		t.Errorf("the callback's error is lost: %v", err)
	}
}

// TestFleetModels: each trace is released under its own model, and judged by what that model alone
// says of it. Under models that have each half of the fleet on a side of the town of its own, the
// model alone knows where they are.
func TestFleetModels(t *testing.T) {
	t.Parallel()
	west, east := testcase.Town(t), testcase.Town(t)
	for own, want := range map[bool]float64{true: 0, false: .5} {
		o := Fleets{
			Kind: OfTraces, Model: west, Release: mechanism.Options{Delta: .05, Epsilon: 1},
			Vehicles: []int{40}, Steps: 1, Block: 2, Seed: 5,
		}
		for i, m := range []*mobility.Model{west, east} {
			m.Initial = mobility.Distribution{Cells: []grid.Cell{grid.Cell(7 * i)}, P: []float64{1}}
			if !own {
				m = west
			}
			for range 20 {
				o.Traces = append(o.Traces, Path{[]grid.Cell{grid.Cell(7 * i)}, m})
			}
		}
		scores, err := o.Measure()
		if err != nil {
			t.Fatal(err)
		}
		if v := scoreOf(t, scores, 40, "blind").Variation; v != want {
			t.Errorf("own models %v: an error of %g, want %g", own, v, want)
		}
	}
}

func TestStretches(t *testing.T) {
	t.Parallel()
	track := mobility.Track{}
	for i := range int64(36) { // a step is missing after the 25th
		track.Steps = append(track.Steps, i+i/25)
		track.Cells = append(track.Cells, grid.Cell(i))
	}
	got := stretches(track, 7)
	if len(got) != 3 || got[1].cells[0] != 10 || got[2].cells[0] != 25 || got[0].fold != 7 {
		t.Errorf("%v", got)
	}
}

// TestMeasures holds the measures against cases by hand.
func TestMeasures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b      []float64
		rank, top float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}, 1, 1},
		{[]float64{4, 3, 2, 1}, []float64{1, 2, 3, 4}, -1, 0},
		{[]float64{2, 0, 0, 0}, []float64{0, 5, 0, 0}, -1. / 3, 0},
		{[]float64{0, 0, 0, 0}, []float64{0, 5, 0, 1}, 0, .5},
		{[]float64{1, 1, 2, 0}, []float64{2, 2, 4, 0}, 1, 1},
	} {
		if r := rankCorrelation(c.a, c.b); math.Abs(r-c.rank) > 1e-12 {
			t.Errorf("%v and %v: a rank correlation of %g, want %g", c.a, c.b, r, c.rank)
		}
		if f := topFound(c.a, c.b, 2); math.Abs(f-c.top) > 1e-12 {
			t.Errorf("%v and %v: %g of the top two are found, want %g", c.a, c.b, f, c.top)
		}
	}
}
