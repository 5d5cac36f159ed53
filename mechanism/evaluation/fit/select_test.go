package fit

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// trained gathers tracks as fixes at the centres of their cells.
func trained(
	t *testing.T, m *mobility.Model, tracks []mobility.Track, o train.Options,
) *train.Trainer {
	t.Helper()
	trainer, err := train.New(m.Grid, time.Minute, o)
	if err != nil {
		t.Fatal(err)
	}
	for u, track := range tracks {
		for i, c := range track.Cells {
			lat, lon := m.Grid.ToDegrees(m.Grid.Centre(c))
			// no two users report the same fix
			trainer.Add(train.Fix{
				User: track.User, TimeMS: track.Steps[i]*60_000 + int64(u),
				Lat: lat, Lon: lon,
			})
		}
	}
	return trainer
}

// oneWay is a street along the rows, eastward and westward in turn, on which everybody moves on or
// stays.
func oneWay(t *testing.T) *mobility.Model {
	t.Helper()
	const side = 8
	return chain(t, side, side, nil, func(from, to grid.Cell) float64 {
		row, next := from/side, from+1
		switch {
		case row%2 == 1 && from%side > 0:
			next = from - 1
		case row%2 == 1 || from%side == side-1:
			next = (from + side) % (side * side)
		}
		if to == from || to == next {
			return .5
		}
		return 0
	})
}

// TestSelect starts from smoothing that a one-way street does not want, a wide kernel in all
// directions that outweighs all that was seen, and is led away from it, to the same choice for any
// number of goroutines.
func TestSelect(t *testing.T) {
	m := oneWay(t)
	tracks := wander(m, 18, 40)
	start := train.Options{KernelRadius: 6, Backoff: 1000}.Defaults()
	trainer := trained(t, m, tracks, start)
	o := SelectOptions{
		Release:  mechanism.Options{Mechanism: law.Lattice, Epsilon: 3, Delta: .1},
		MaxSteps: 400, Workers: 2, Seed: 1,
	}
	var told int
	o.Tried = func(Candidate) { told++ }
	selection, err := Select(trainer, start, o)
	if err != nil {
		t.Fatal(err)
	}
	first, chosen := selection.Candidates[0], Candidate{}
	for _, c := range selection.Candidates {
		if c.Chosen {
			chosen = c
		}
		if c.Error < 0 || math.Abs(c.Behind-(chosen.LogPrior-c.LogPrior)) > 1e-9 && chosen.Chosen {
			t.Errorf("%v is behind by %g ± %g", c.Options, c.Behind, c.Error)
		}
	}
	if told != len(selection.Candidates) || first.Options.Backoff != 1000 {
		t.Errorf("told of %d of %d candidates, the first %v",
			told, len(selection.Candidates), first.Options)
	}
	if !same(chosen.Options, selection.Options) || chosen.Options.Backoff > 20 {
		t.Errorf("chosen: %v", selection.Options)
	}
	// The better model gives the true cell half as much probability again, at least.
	if first.Behind < .4 || first.Behind < 3*first.Error {
		t.Errorf("the start is behind by only %g ± %g", first.Behind, first.Error)
	}
	o.Workers, o.Tried = 1, nil
	again, err := Select(trainer, start, o)
	if err != nil || !reflect.DeepEqual(again, selection) {
		t.Errorf("one goroutine selects otherwise (%v)", err)
	}
}

// TestSelectStops and refuses.
func TestSelectStops(t *testing.T) {
	m := oneWay(t)
	o := SelectOptions{
		Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 3, Delta: .1}, MaxSteps: 400,
	}
	trainer := trained(t, m, wander(m, 18, 40), train.Options{})
	stop := errors.New("stop")
	o.Progress = func(done, total int64) error {
		if total <= done {
			t.Errorf("%d of %d are done", done, total)
		}
		if done == 2 {
			return stop
		}
		return nil
	}
	if _, err := Select(trainer, train.Options{}, o); !errors.Is(err, stop) {
		t.Errorf("stopped with %v", err)
	}
	o.Progress = nil
	if _, err := Select(
		trained(t, m, wander(m, 3, 50), train.Options{}), train.Options{}, o,
	); !errors.Is(err, ErrFewUsers) {
		t.Errorf("three users give %v", err)
	}
	if _, err := Select(trainer, train.Options{}, SelectOptions{}); err == nil {
		t.Error("no ε, no error")
	}
}

// TestDifference by hand: two users of 2 and 4 steps whose sums differ by 2 and 1: 3 over 6 steps;
// the users are off that mean by 1 and -1.
func TestDifference(t *testing.T) {
	a := []userSum{{user: "a", steps: 2, logs: -1}, {user: "b", steps: 4, logs: -3}}
	b := []userSum{{user: "a", steps: 2, logs: -3}, {user: "b", steps: 4, logs: -4}}
	mean, standardError := difference(a, b)
	about(t, "mean", mean, .5)
	about(t, "standard error", standardError, math.Sqrt(2*2)/6)
}
