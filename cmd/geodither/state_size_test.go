package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// TestStateSize: at ε = 1 a state on the shipped buses has 450 bytes on average at most.
//
// GEODITHER_STATES names a folder of other traces, and GEODITHER_STATES_MODEL their model, to be
// measured too: RESULTS.md has the table.
func TestStateSize(t *testing.T) {
	fixes, model := sampleFleet(t)
	if bytes := logStates(t, "buses", model, fixes, 1); bytes > 450 {
		t.Errorf("a state has %.0f bytes", bytes)
	}
	folder := os.Getenv("GEODITHER_STATES")
	if folder == "" {
		return
	}
	model, err := mobility.ReadModelFile(os.Getenv("GEODITHER_STATES_MODEL"))
	if err != nil {
		t.Fatal(err)
	}
	fixes = fixesOf(t, folder)
	for _, epsilon := range []float64{1, 4} {
		logStates(t, "Geolife", model, fixes, epsilon)
	}
}

// logStates releases at the first fix of each step, prints a row of the table, and returns the mean
// size of the states after it.
func logStates(
	t *testing.T, name string, model *mobility.Model, fixes []schemas.Raw, epsilon float64,
) float64 {
	t.Helper()
	s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)),
		mechanism.Options{
			Mechanism: law.Codebook, Epsilon: epsilon,
			Budget: mechanism.Budget{Epsilon: 1e6, WindowSteps: int(24 * time.Hour / model.Step)},
		})
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]*mechanism.State{}
	var bytes, cells []int
	for _, fix := range fixes {
		state := states[fix.UserID]
		if state == nil {
			state = &mechanism.State{}
			states[fix.UserID] = state
		}
		step := fix.Timestamp / model.Step.Milliseconds()
		if step <= state.Step {
			continue
		}
		cell := model.Grid.Locate(fix.Latitude, fix.Longitude)
		if _, err := s.Step(state, mechanism.Input{
			User: fix.UserID, Step: step, Cell: cell, Release: true,
		}); err != nil {
			t.Fatal(err)
		}
		bytes = append(bytes, len(state.AppendBinary(nil)))
		cells = append(cells, state.Posterior.Len())
	}
	meanBytes, bytes90 := meanAndTenth(bytes)
	meanCells, cells90 := meanAndTenth(cells)
	t.Logf("| %s | %g | %.0f | %d | %.0f | %d |",
		name, epsilon, meanBytes, bytes90, meanCells, cells90)
	return meanBytes
}

// meanAndTenth returns the mean of some numbers and their quantile of 90 %.
func meanAndTenth(numbers []int) (mean float64, quantile int) {
	slices.Sort(numbers)
	for _, n := range numbers {
		mean += float64(n) / float64(len(numbers))
	}
	return mean, numbers[len(numbers)*9/10]
}
