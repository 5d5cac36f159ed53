package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestFleetLag: fleets move by the sample's model and release every ten minutes, each vehicle at a
// time of its own. Releases of the ten minutes after a window bring the estimate nearer to where
// the vehicles were, and intervals hold as often. The same vehicles and releases make both
// estimates.
//
// GEODITHER_FLEET_DESIGN=1 measures ε = 1, 4 and 10, and 10,000 vehicles: RESULTS.md has the
// figures.
func TestFleetLag(t *testing.T) {
	_, model := sampleFleet(t)
	measure := func(epsilon float64, vehicles int) (now, later lagScore) {
		f := newLagFleet(t, model, epsilon, vehicles)
		now, later = f.estimate(t, 0), f.estimate(t, lagInterval)
		t.Logf("ε = %g, %d vehicles: variation, coverage %+v; ten minutes later %+v",
			epsilon, vehicles, now, later)
		return now, later
	}
	if os.Getenv("GEODITHER_FLEET_DESIGN") != "" {
		for _, epsilon := range []float64{1, 4, 10} {
			for _, vehicles := range []int{1000, 10_000} {
				measure(epsilon, vehicles)
			}
		}
	}
	now, later := measure(10, 120)
	if later.fitted > .97*now.fitted || later.posterior > .97*now.posterior {
		t.Errorf("variations of %+v, and of %+v ten minutes later", now, later)
	}
	if later.coverage < .85 {
		t.Errorf("%.3f of the zones are covered ten minutes later", later.coverage)
	}
}

const (
	lagInterval = 20 // steps of half a minute from release to release
	lagWindow   = 3 * lagInterval
)

// lagFleet is the records of a fleet, and how many vehicles are in each zone at the window's end.
type lagFleet struct {
	model   *mobility.Model
	options mechanism.Options
	zones   *aggregate.Zones
	records []aggregate.Record
	truth   []float64
}

// lagScore is the total variation of two estimates, that of the model alone, and the share of zones
// whose interval holds the truth.
type lagScore struct{ fitted, posterior, blind, coverage float64 }

func newLagFleet(t *testing.T, m *mobility.Model, epsilon float64, vehicles int) *lagFleet {
	t.Helper()
	zones, err := aggregate.NewZones(m.Grid, aggregate.BlockOf(m.Grid, 1))
	if err != nil {
		t.Fatal(err)
	}
	f := &lagFleet{
		model: m, zones: zones, truth: make([]float64, zones.Count()),
		options: mechanism.Options{
			Mechanism: law.Codebook, Epsilon: epsilon, ReleaseInterval: lagInterval,
		},
	}
	s, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(1)), f.options)
	if err != nil {
		t.Fatal(err)
	}
	for v := range vehicles {
		name, random := fmt.Sprintf("v%05d", v), rand.NewPCG(uint64(v), 0x6c6167)
		var state mechanism.State
		cell := m.SampleInitial(random)
		for step := int64(v % lagInterval); step < lagWindow+2*lagInterval; step++ {
			out, err := s.Step(&state,
				mechanism.Input{User: name, Step: step, Cell: cell, Release: true})
			if err != nil {
				t.Fatal(err)
			}
			f.records = append(f.records, aggregate.Record{
				User: name, Model: m.ID(), Step: step, Kind: out.Kind, Release: out.Release,
				Estimate: out.Estimate, Number: int64(out.Number),
			})
			if step == lagWindow-1 {
				f.truth[zones.Of(cell)]++
			}
			cell = m.SampleNext(random, cell, step)
		}
	}
	return f
}

// estimate scores the estimate of the first window with a lag.
func (f *lagFleet) estimate(t *testing.T, lag int64) (s lagScore) {
	t.Helper()
	windows := 0
	c, err := aggregate.NewCollector(aggregate.Models{f.model}, f.options,
		aggregate.CollectOptions{
			WindowSteps: lagWindow, ZoneKM: 1, LagSteps: lag, Workers: runtime.GOMAXPROCS(0),
			BeforeMS: lagWindow * f.model.Step.Milliseconds(),
		},
		func(w *aggregate.Window) error {
			d := w.Estimate(aggregate.EstimateOptions{Seed: 1, Workers: runtime.GOMAXPROCS(0)})
			windows++
			s.fitted = aggregate.Variation(d.Fitted, f.truth)
			s.posterior = aggregate.Variation(d.Posterior, f.truth)
			s.blind = aggregate.Variation(d.Blind, f.truth)
			in, zones := aggregate.Coverage(d.Fitted, d.Low, d.High, f.truth)
			s.coverage = in / zones
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, r := range f.records {
		if err := c.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Finish(); err != nil || windows != 1 {
		t.Fatalf("%d windows: %v", windows, err)
	}
	return s
}
