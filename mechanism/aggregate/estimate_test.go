package aggregate

import (
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// TestCoverage: intervals of 90 % hold the number of vehicles in at least that share of zones and
// fleets. Zones of one fleet are correlated, so that the 16 fleets of 48 zones count as 16 × 10
// independent ones: three standard errors are .071, which chance exceeds once in 700. That an
// estimate without any doubt of its prior fails shows that the test can.
func TestCoverage(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Epsilon: 2, Delta: .05}
	rates := map[string]float64{}
	const fleets = 16
	for fleet := range uint64(fleets) {
		for name, start := range map[string]func(int) grid.Cell{
			"expected": nil, "gathered": func(v int) grid.Cell { return grid.Cell(20 + v%3) },
		} {
			records, paths := drive(t, model, o, 100+fleet, 60, 3, start)
			windows, _ := collect(t, Models{model}, o, CollectOptions{WindowSteps: 5}, records)
			truth := make([]float64, model.Grid.Cells())
			for _, path := range paths {
				truth[path[2]]++
			}
			d := windows[0].Estimate(EstimateOptions{Seed: fleet})
			rates[name+" posterior"] += Coverage(d.Posterior, d.PosteriorLow,
				d.PosteriorHigh, truth) / fleets
			rates[name+" fitted"] += Coverage(d.Fitted, d.Low, d.High, truth) / fleets
			rates[name+" certain"] += Coverage(d.Fitted, d.Fitted, d.Fitted, truth) / fleets
		}
	}
	t.Log(rates)
	for _, name := range []string{"expected posterior", "expected fitted", "gathered fitted"} {
		if rates[name] < .9-.071 {
			t.Errorf("%s: %.3f of the zones are covered", name, rates[name])
		}
	}
	if rates["expected certain"] > .5 || rates["gathered posterior"] > rates["gathered fitted"] {
		t.Errorf("what cannot be covered is: %v", rates)
	}
}
