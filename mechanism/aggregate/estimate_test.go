package aggregate

import (
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
)

// TestCoverage: intervals of 90 % hold the number of vehicles in at least that share of the zones
// with three vehicles or more. A gathered fleet is none that the model expects, so its intervals
// reach out to the fit that distrusts the model, and hold it in 85 %. Zones of one fleet are
// correlated, so that the 16 fleets of 48 zones count as 16 × 10
// independent ones: three standard errors are .071, which chance exceeds once in 700. That an
// estimate without any doubt of its prior fails shows that the test can.
func TestCoverage(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	inside, zones := map[string]float64{}, map[string]float64{}
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
			for of, interval := range map[string][3][]float64{
				" posterior": {d.Posterior, d.PosteriorLow, d.PosteriorHigh},
				" fitted":    {d.Fitted, d.Low, d.High},
				" certain":   {d.Fitted, d.Fitted, d.Fitted},
			} {
				in, all := Coverage(interval[0], interval[1], interval[2], truth)
				inside[name+of], zones[name+of] = inside[name+of]+in, zones[name+of]+all
			}
		}
	}
	rates := map[string]float64{}
	for name, in := range inside {
		rates[name] = in / zones[name]
	}
	t.Log(rates)
	for name, least := range map[string]float64{
		"expected posterior": .9, "expected fitted": .9, "gathered fitted": .85,
	} {
		if rates[name] < least-.071 {
			t.Errorf("%s: %.3f of the zones are covered", name, rates[name])
		}
	}
	if rates["expected certain"] > .5 || rates["gathered posterior"] > rates["gathered fitted"] {
		t.Errorf("what cannot be covered is: %v", rates)
	}
}
