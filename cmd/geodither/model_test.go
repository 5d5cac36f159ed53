package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism/mobility"
)

// changedModel writes a copy of a model file that a function has changed.
func changedModel(t *testing.T, path, name string, change func(m *mobility.Model)) string {
	t.Helper()
	m, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fresh := m.Copy()
	fresh.Gaps = nil
	change(fresh)
	to := filepath.Join(t.TempDir(), name)
	if err := fresh.WriteFile(to); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestModelInspectAll looks at a model that has everything: classes, a fit, privacy.
func TestModelInspectAll(t *testing.T) {
	_, plain := townFiles(t, t.TempDir())
	full := changedModel(t, plain, "full.avro", func(m *mobility.Model) {
		m.Calendar = mobility.Calendar{UTCOffset: time.Hour, Hours: []int{6, 20}, Weekend: true}
		m.Matrices = []*mobility.Matrix{m.Matrices[0], m.Matrices[0], m.Matrices[0], m.Matrices[0]}
		m.Provenance.Privacy = &mobility.Privacy{Epsilon: "0.5", Contribution: 40, Radius: 3}
		m.Provenance.Fit = &mobility.Fit{
			Held: "every third user", Users: 40, Steps: 9000, Moves: 8000, LogLikelihood: -2,
			LogPopularity: -4, LogUniform: -5, Mechanism: "lattice", Epsilon: 1, Delta: .01,
			Calibration: []mobility.FitDelta{{
				Delta: .01, Drift: .08, Low: .07, High: .09, SetMean: 12,
			}},
		}
	})
	text := succeed(t, "model", "inspect", full).out
	for _, word := range []string{
		"classes      utc+60m hours=6,20 weekend=true",
		"working days, 6 to 20 h", "70 h a week", "weekends, 20 to 6 h", "20 h a week",
		"learned with differential privacy: ε = 0.5", "at most 40 transitions",
		"40 users and 9000 steps, in stretches of at least 0 (every third user)", "0.0800",
		"the model is too sure",
	} {
		if !strings.Contains(text, word) {
			t.Errorf("the text does not say %q:\n%s", word, text)
		}
	}
	s := inspectModel(t, full)
	if len(s.Classes) != 4 || s.Classes[0].Hours != 70 || !s.Private || s.Fit == nil ||
		s.Fit.Calibration[0].Drift != .08 || len(s.Verdict) == 0 {
		t.Errorf("%+v", s)
	}
	if s.Provenance.Privacy.Contribution != 40 ||
		s.FileBytes == 0 || s.MemoryBytes < int64(12*s.Transitions) {
		t.Errorf("%+v", s)
	}
	if one := inspectModel(t, plain); one.StayMean < s.StayMean-1e-9 ||
		one.StayMean > s.StayMean+1e-9 || one.Fit != nil || one.Private {
		t.Errorf("equal classes stay %v, one alone %v", s.StayMean, one.StayMean)
	}
}

// TestModelSuspicious: a model of few people is called suspicious; a damaged one fails.
func TestModelSuspicious(t *testing.T) {
	dir := t.TempDir()
	_, few := townFiles(t, dir)
	good := changedModel(t, few, "good.avro",
		func(m *mobility.Model) { m.Provenance.Report.Users = 1000 })
	damaged := write(t, dir, "damaged.avro", read(t, good)[:len(read(t, good))-50])
	if r := succeed(t, "model", "inspect", good); strings.Contains(r.out,
		"suspicious") {
		t.Errorf("%s", r.out)
	}
	const says = "suspicious   few users: it was learned from 6 users"
	if r := succeed(t, "model", "inspect", few); !strings.Contains(r.out, says) {
		t.Errorf("%s", r.out)
	}
	r := succeed(t, "model", "inspect", "--json", few)
	var s expect.Model
	if err := json.Unmarshal([]byte(r.out), &s); err != nil || len(s.Suspicious) != 1 ||
		s.Suspicious[0].Name != "few users" {
		t.Errorf("%v: %s", err, r.out)
	}
	requireMessage(t, call(t, "model", "inspect", damaged), cli.ExitFailed, "damaged.avro")
}
