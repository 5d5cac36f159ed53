package sanitize

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// wholeDay returns vehicles that move as a model says and report in each step of a day that starts
// within the hours.
func wholeDay(m *mobility.Model, vehicles int, shift *hours.Hours) (fixes []schemas.Raw) {
	rng := rand.New(rand.NewPCG(26, 1))
	const start = 1_700_006_400_000 // a midnight
	steps := int64(24 * time.Hour / m.Step)
	for v := range vehicles {
		walker := trial.NewWalker(m, rng)
		for i := range steps {
			at := start + i*m.Step.Milliseconds()
			lat, lon := m.Grid.ToDegrees(walker.Place())
			if shift.Open(at) {
				fixes = append(fixes, schemas.Raw{
					UserID: fmt.Sprint(v), Timestamp: at, Latitude: lat, Longitude: lon,
				})
			}
			walker.Move(m.StepAt(at))
		}
	}
	return fixes
}

// TestAnnouncedIsMeasured: what [expect.Simulate] announces is what a fleet that moves as the model
// says has over a whole day: where the budget lasts 2 hours, 8 hours or a day, where releases have
// hours, and without a budget.
func TestAnnouncedIsMeasured(t *testing.T) {
	model, err := servicetest.TownModel()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		interval int
		budget   float64
		hours    []hours.Span
	}{
		"2 h": {2, 1200, nil}, "8 h": {8, 1200, nil}, "a day": {24, 1200, nil},
		"hours": {10, 0, []hours.Span{{Days: 127, From: 360, To: 1080, Zone: "UTC"}}},
		"none":  {10, 0, nil},
	} {
		o := mechanism.Options{
			Mechanism: law.Codebook, Epsilon: 20, ReleaseInterval: c.interval, Hours: c.hours,
		}
		if c.budget > 0 {
			o.Budget = mechanism.Budget{
				Epsilon: c.budget, WindowSteps: 1440, Spent: mechanism.SpentPredict,
			}
		}
		x, err := expect.Simulate(t.Context(), model, o, expect.Options{
			Seed: expect.Seed, Tracks: 12,
		})
		if err != nil {
			t.Fatal(err)
		}
		shift, err := hours.New(c.hours)
		if err != nil {
			t.Fatal(err)
		}
		fleet := servicetest.TownCSV(wholeDay(model, 12, shift))
		said, got := x.Summary(), measured(t, model, o, fleet)
		t.Logf("%s: announced / measured is %.3f", name, said.Estimate.Mean/got.Estimate.Mean)
		if by := said.Estimate.Mean / got.Estimate.Mean; math.Abs(by-1) > .1 {
			t.Errorf("%s: announced %.0f m, measured %.0f m", name, said.Estimate.Mean,
				got.Estimate.Mean)
		}
		if by := said.Blind.Mean / got.Blind.Mean; math.Abs(by-1) > .1 {
			t.Errorf("%s: announced %.0f m blind, measured %.0f m", name, said.Blind.Mean,
				got.Blind.Mean)
		}
	}
}

// measured is the summary of a run over traces.
func measured(t *testing.T, m *mobility.Model, o mechanism.Options, csv string) Summary {
	t.Helper()
	reader, err := traces.Open(t.Context(), []string{"-"}, strings.NewReader(csv), traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := files.NewOutput("-", new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Settings{Settings: engine.Settings{
		Model: m, Key: noise.KeyFromSeed(1 << 40), Release: o,
	}}, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.All(t.Context(), reader, cli.NewProgress(io.Discard, reader.Progress)); err != nil {
		t.Fatal(err)
	}
	return r.Summary(reader.Skips())
}
