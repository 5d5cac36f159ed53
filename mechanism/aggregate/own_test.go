package aggregate

import (
	"fmt"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestLikelihoodUnderOwnModel: of users who go over to models of their own, for a reader who has
// it, the posterior is the service's, and the likelihood that over what their models say without a
// release; the one between them, who has none, is left alone.
func TestLikelihoodUnderOwnModel(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	o := mechanism.Options{Mechanism: law.Lattice, Epsilon: 3, Delta: .2, Prune: -1}
	own, err := mobility.NewPersonal(model, mobility.PersonalCounts{
		Weight:      5,
		Transitions: []mobility.Count{{From: 20, To: 21, N: 30}, {From: 21, To: 20, N: 30}},
		Visits:      []mobility.Count{{From: 20, To: 20, N: 30}, {From: 21, To: 21, N: 30}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for at := range int64(4) { // 0: from the beginning
		service := newService(t, model, o)
		var windows []*Window
		k, err := NewCollector(Models{model}, o,
			CollectOptions{WindowSteps: 6, Flows: true}, func(w *Window) error {
				windows = append(windows, w)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		var states [3]mechanism.State
		for step := range int64(6) {
			for v := range states {
				var personal *mobility.Personal
				if v != 1 && step >= at {
					personal = own
				}
				if _, err := service.MigrateTo(&states[v], personal); err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprint(v)
				out, err := service.Step(&states[v], mechanism.Input{
					User: name, Step: step, Cell: 20 + grid.Cell(step%2), Release: true,
					Personal: personal,
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := k.Add(Record{
					User: name, Model: model.ID(), Personal: personal, Step: step, Kind: out.Kind,
					Release: out.Release, Estimate: out.Estimate, Number: out.Number,
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := k.Finish(); err != nil || k.Counts().Followed != 18 || k.Counts().Personal != 2 {
			t.Fatalf("%v, %+v", err, k.Counts())
		}
		for v := range states {
			var blind, next mobility.Distribution
			blind.CopyFrom(&model.Initial)
			predictor := mobility.NewPredictor(model)
			for step := range int64(6) {
				if v != 1 && step >= at {
					predictor.Use(own)
					if step == 0 {
						own.Initial(&blind)
					}
				}
				if step > 0 {
					predictor.Predict(&next, &blind, step-1, 1)
					blind.CopyFrom(&next)
				}
			}
			dense := make([]float64, model.Grid.Cells())
			for i, c := range blind.Cells {
				dense[c] = blind.P[i] / blind.Total()
			}
			got := windows[0].vehicles[v]
			for i, z := range got.Zones {
				want := states[v].Posterior.P[i] / states[v].Posterior.Total() / dense[z]
				if !near(float64(got.Values[i]), want, 1e-4*want) {
					t.Fatalf("change at %d, vehicle %d, zone %d: likelihood %g, want %g",
						at, v, z, got.Values[i], want)
				}
			}
		}
	}
}
