package study

import (
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// TestBlindly: without releases the filter is the model alone: the initial distribution, moved on.
func TestBlindly(t *testing.T) {
	d := wanderers(t)
	model, err := d.WithoutFold(0)
	if err != nil {
		t.Fatal(err)
	}
	trace := &d.Traces[0]
	var want mobility.Distribution
	var set locationset.Set
	predictor := mobility.NewPredictor(model)
	want.CopyFrom(&model.Initial)
	want.Prune(mechanism.DefaultPrune)
	last := trace.Steps[0]
	seen := 0
	err = Blindly(model, d.Release(PIM, 1, .01), trace.Track(d.Grid, nil), []float64{.05, .4}, func(
		r *trial.Result, sets []locationset.Set,
	) error {
		i, out := r.Number, r.Outcome
		if gap := int(trace.Steps[i] - last); gap > 0 {
			predictor.PredictPruned(&want, &want, last, gap, mechanism.DefaultPrune)
			want.Prune(mechanism.DefaultPrune)
		}
		last = trace.Steps[i]
		seen++
		if out.Kind != mechanism.Predicted || out.Epsilon != 0 {
			t.Errorf("timestamp %d: %s for ε = %g", i, out.Kind, out.Epsilon)
		}
		if d := out.Estimate.Distance(want.Mean(d.Grid)); d > 1e-4 {
			t.Errorf("timestamp %d: the estimate is %g km from the model's", i, d)
		}
		set.Choose(&want, .4)
		if n := len(sets[1].Cells); n < len(set.Cells)-1 || n > len(set.Cells)+1 ||
			len(sets[0].Cells) <= n {
			t.Errorf("timestamp %d: sets of %d and %d cells, want more than and about %d",
				i, len(sets[0].Cells), n, len(set.Cells))
		}
		return nil
	})
	if err != nil || seen != len(trace.Steps) {
		t.Errorf("%d timestamps, %v", seen, err)
	}
}
