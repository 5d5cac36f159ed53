package experiment

import (
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// TestErrorsByHand computes the metrics of three timestamps by hand.
func TestErrorsByHand(t *testing.T) {
	g := wanderGrid(t) // cells of .5 km
	at := func(column, row int) grid.Point {
		return grid.Point{X: (float64(column) + .5) * .5, Y: (float64(row) + .5) * .5}
	}
	var sums Sums
	add := releaseErrors(exact)
	for _, c := range []struct {
		cell              grid.Cell
		set               int
		drift             bool
		release, estimate grid.Point
	}{
		{0, 4, false, at(6, 8), at(0, 0)},          // 3 and 4 km away: 5 km; and 0
		{side + 1, 2, true, at(1, 1), at(1, 3)},    // 0; 1 km
		{side*2 + 2, 3, false, at(8, 2), at(2, 6)}, // 3 km; 2 km
	} {
		err := add(&sums, &trial.Result{
			Report: trial.Report{Cell: c.cell, Place: g.Centre(c.cell)},
			Outcome: mechanism.Outcome{
				SetSize: c.set, Drift: c.drift, Release: c.release, Estimate: c.estimate,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []float64{3, 1. / 3, math.Sqrt(34. / 3), math.Sqrt(5. / 3)}
	for i, m := range errorScores {
		if got := m.bandOf(Sample{sums}).Value; !near(got, want[i]) {
			t.Errorf("%s: %g, want %g", m.name, got, want[i])
		}
	}
}

// TestBlindErrors: without releases the filter is the model alone: the initial distribution, moved
// on. The sets are those of the prior at each δ, and no release is paid for.
func TestBlindErrors(t *testing.T) {
	s := testStudy(t)
	d := s.Data[0]
	at := Point{Case: Case{Data: d, Kind: Popular}, Blind: true}
	got := walked(t, s, traceErrors, at)
	for i, trace := range s.Traces(d) {
		model, err := d.WithoutFold(trace.Fold)
		if err != nil {
			t.Fatal(err)
		}
		sums := got[i][0]
		want := modelAlone(model, &trace, s.deltas())
		if sums.N != float64(len(trace.Steps)) {
			t.Errorf("trace %d: %g timestamps, want %d", i, sums.N, len(trace.Steps))
		}
		for q, v := range want {
			// Beliefs are stored in float32: a set may differ by a cell at a timestamp.
			if math.Abs(sums.Of[q]-v) > max(.02*v, 1) {
				t.Errorf("trace %d: quantity %d is %g, want %g", i, q, sums.Of[q], v)
			}
		}
	}
}

// modelAlone returns the sums of a blind walk, computed from the model's predictions.
func modelAlone(m *mobility.Model, t *Trace, deltas []float64) []float64 {
	sums := make([]float64, perDelta*len(deltas))
	var belief mobility.Distribution
	var set law.LocationSet
	predictor := mobility.NewPredictor(m)
	belief.CopyFrom(&m.Initial)
	for i, step := range t.Steps {
		if i > 0 {
			gap := int(step - t.Steps[i-1])
			predictor.PredictPruned(&belief, &belief, t.Steps[i-1], gap, mechanism.DefaultPrune)
		}
		belief.Prune(mechanism.DefaultPrune)
		distance := squared(belief.Mean(m.Grid).Distance(m.Grid.Centre(t.Cells[i])))
		for k, delta := range deltas {
			set.Choose(&belief, delta)
			sums[perDelta*k+setSize] += float64(len(set.Cells))
			sums[perDelta*k+drifted] += share(!slices.Contains(set.Cells, t.Cells[i]))
			sums[perDelta*k+release2] += distance
			sums[perDelta*k+estimate2] += distance
		}
	}
	return sums
}
