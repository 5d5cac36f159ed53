package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/mobility"
)

func trainPrivately(t *testing.T, in string, more ...string) (result, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "model.avro")
	return call(t, townTraining(in, out, more...)...), out
}

// TestTrainPrivately: the model's file says what was spent and counts nothing of
// the traces, and no two runs draw the same noise.
func TestTrainPrivately(t *testing.T) {
	traces := write(t, t.TempDir(), "traces.csv", servicetest.TownCSV(servicetest.TownFixes()))
	ids := map[string]bool{}
	// Two runs are the same in 1 of 20: with so few users the noise often silences
	// all of them. That all twelve are the same happens less than once in 10⁷.
	for range 12 {
		r, out := trainPrivately(t, traces, "--dp-epsilon", "0.5", "--smoothing", "cap=20,radius=3")
		if r.code != cli.ExitDone || !strings.Contains(r.err, "ε = 0.5 for each user id") {
			t.Fatalf("exit %d: %s", r.code, r.err)
		}
		m, err := mobility.ReadModelFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if m.Provenance.Privacy == nil || *m.Provenance.Privacy != (mobility.Privacy{
			Epsilon: "0.5", Contribution: 20, Radius: 3,
		}) {
			t.Errorf("privacy %+v", m.Provenance.Privacy)
		}
		counted := m.Provenance.Report
		counted.MatrixEntries = 0
		if counted != (mobility.Report{}) || m.Provenance.Fit != nil {
			t.Errorf("the file holds counts of the traces: %+v", m.Provenance)
		}
		if shown := succeed(t, "model", "inspect", out).out; !strings.Contains(shown, "not told") ||
			strings.Contains(shown, "of 0 users") {
			t.Errorf("inspect says\n%s", shown)
		}
		if !strings.Contains(m.Provenance.Options, "keep_shared=true") {
			t.Errorf("options %s", m.Provenance.Options)
		}
		var told strings.Builder
		if err := expect.Describe(m).Print(&told); err != nil ||
			!strings.Contains(told.String(), "\ntrained on   not told") {
			t.Errorf("a private model says %v, %s", err, &told)
		}
		ids[m.ID()] = true
	}
	if len(ids) < 2 {
		t.Error("all runs draw the same noise")
	}
}

func TestTrainPrivatelyWithNobody(t *testing.T) {
	traces := write(t, t.TempDir(), "traces.csv",
		"user_id,timestamp,latitude,longitude\nu,2023-11-14T00:00:00Z,1,1\n")
	r, _ := trainPrivately(t, traces, "--dp-epsilon", "1", "--smoothing", "cap=20")
	if r.code != cli.ExitDone || !strings.Contains(r.err, "made of noise alone") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

func TestTrainPrivatelyRefuses(t *testing.T) {
	traces := write(t, t.TempDir(), "traces.csv", servicetest.TownCSV(servicetest.TownFixes()))
	for name, c := range map[string]struct {
		flags []string
		says  string
	}{
		"no number": {[]string{"--dp-epsilon", "1e-3"}, "decimal number"},
		"negative":  {[]string{"--dp-epsilon", "-1"}, "positive decimal number"},
		"a vast radius": {
			[]string{"--dp-epsilon", "1", "--smoothing", "radius=1000"}, "radius",
		},
		"a vast contribution": {
			[]string{"--dp-epsilon", "1", "--smoothing", "cap=10000000"}, "1 to 1000000",
		},
		"nothing of anybody's": {
			[]string{"--dp-epsilon", "1", "--smoothing", "cap=-1"}, "is no cap",
		},
	} {
		if r, _ := trainPrivately(t, traces, c.flags...); r.code != cli.ExitUsage ||
			!strings.Contains(r.err, c.says) {
			t.Errorf("%s: exit %d: %s", name, r.code, r.err)
		}
	}
}
