package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/modelview"
	"github.com/geodither/geodither/cmd/internal/towntest"
	"github.com/geodither/geodither/mechanism/mobility"
)

// changedModel writes a copy of a model file that a function has changed.
func changedModel(t *testing.T, path, name string, change func(m *mobility.Model)) string {
	t.Helper()
	m, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fresh := &mobility.Model{
		Grid: m.Grid, Step: m.Step, Calendar: m.Calendar, Matrices: m.Matrices, Initial: m.Initial,
		Provenance: m.Provenance,
	}
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
	if s.Provenance.Privacy.Contribution != 40 || s.Parameters["kernel_radius"] != "5" ||
		s.FileBytes == 0 || s.MemoryBytes < int64(12*s.Transitions) {
		t.Errorf("%+v", s)
	}
	if one := inspectModel(t, plain); one.StayMean < s.StayMean-1e-9 ||
		one.StayMean > s.StayMean+1e-9 || one.Fit != nil || one.Private {
		t.Errorf("equal classes stay %v, one alone %v", s.StayMean, one.StayMean)
	}
}

// TestModelPictures draws both pictures in both formats, and checks the flows' figures.
func TestModelPictures(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	picture, flows := filepath.Join(dir, "map.png"), filepath.Join(dir, "flows.svg")
	popular := succeed(t, "model", "inspect", "--json", "--map", picture, model)
	r := succeed(t, "model", "inspect", "--json", "--map", flows, "--from", "10.004,20.006", model)
	if !strings.HasPrefix(read(t, picture), "\x89PNG") ||
		!strings.Contains(read(t, flows), "<svg") || !strings.Contains(popular.err, picture) ||
		!strings.Contains(r.err, flows) {
		t.Errorf("no pictures: %s%s", popular.err, r.err)
	}
	var s modelview.Summary
	if err := json.Unmarshal([]byte(r.out), &s); err != nil || s.Flows == nil ||
		len(s.Flows.After) != 3 {
		t.Fatalf("%v: %s", err, r.out)
	}
	m, err := mobility.ReadModelFile(model)
	if err != nil {
		t.Fatal(err)
	}
	columns, values := m.MatrixAt(0).Row(s.Flows.Cell)
	first, second := s.Flows.After[0], s.Flows.After[1]
	if at := slices.Index(columns, s.Flows.Cell); first.Steps != 1 || second.Steps != 3 || at < 0 ||
		first.Stay-values[at] > 1e-12 || second.MeanM <= first.MeanM {
		t.Errorf("%+v", s.Flows)
	}
	for args, says := range map[string]string{
		"--map x.gif":        ".png or .svg",
		"--at 2024-05-01":    "--at belongs to --from",
		"--from 49":          "0 to 48",
		"--from 51.5,7.5":    "outside the model's map",
		"--from 3 --at noon": "--at must be a time",
		"--popular " + model: "--popular belongs to a folder",
	} {
		r := call(t, append(append([]string{"model", "inspect"}, strings.Fields(args)...),
			model)...)
		requireMessage(t, r, cli.ExitUsage, says)
		if strings.Contains(r.err, "51.5") {
			t.Errorf("the error repeats a place: %q", r.err)
		}
	}
}

func TestModelInspectFolder(t *testing.T) {
	dir := t.TempDir()
	_, path := townFiles(t, dir)
	m, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]mobility.PersonalCounts{
		"anna": {
			Visits:      []mobility.Count{{From: 1, To: 1, N: 2}},
			Transitions: []mobility.Count{{From: 1, To: 1, N: 3}, {From: 1, To: 2, N: 1}},
		},
		"otto": {Visits: []mobility.Count{{From: 3, To: 3, N: 2}}},
	}
	folder := filepath.Join(dir, "personal")
	if err := mobility.WritePersonals(folder, m, maps.All(counts)); err != nil {
		t.Fatal(err)
	}
	text := succeed(t, "model", "inspect", "--popular", path, folder).out
	for _, word := range []string{
		"users        2", m.ID(), "all are whole", "2 transitions on average (median 4, most 4)",
	} {
		if !strings.Contains(text, word) {
			t.Errorf("the text does not say %q:\n%s", word, text)
		}
	}
	var s modelview.Folder
	if err := json.Unmarshal([]byte(succeed(t, "model", "inspect", "--json", folder).out),
		&s); err != nil || s.Users != 2 || s.Popular != m.ID() || s.Largest == 0 || s.Read != nil {
		t.Errorf("%v, %+v", err, s)
	}
	requireMessage(t, call(t, "model", "inspect", "--map", "x.png", folder),
		cli.ExitUsage, "no picture")
	requireMessage(t, call(t, "model", "inspect", dir), cli.ExitFailed,
		"not a folder of personal models")
	other := changedModel(t, path, "other.avro", func(m *mobility.Model) { m.Step *= 2 })
	requireMessage(t, call(t, "model", "inspect", "--popular", other, folder), cli.ExitFailed,
		"another popular model")
}

func TestModelDiff(t *testing.T) {
	dir := t.TempDir()
	traces, a := townFiles(t, dir)
	b := filepath.Join(dir, "b.avro")
	succeed(t, "train", "--in", traces, "--box", towntest.Box, "--cell", towntest.Cell,
		"--step", towntest.Step, "--smoothing", "backoff=1", "--out", b)

	r := call(t, "model", "diff", a, b)
	if r.code != cli.ExitFailed || !strings.Contains(r.err, "the models differ") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	for _, word := range []string{
		"option backoff: 20, then 1", "rows         total variation", "under", "verdict",
	} {
		if !strings.Contains(r.out, word) {
			t.Errorf("the text does not say %q:\n%s", word, r.out)
		}
	}
	var s modelview.Diff
	if err := json.Unmarshal([]byte(call(t, "model", "diff", "--json", a, b).out), &s); err != nil {
		t.Fatal(err)
	}
	if c := s.Comparison; s.Same || !s.Comparable || c.RowMean <= 0 || c.RowMean > c.RowWorst ||
		len(c.Cells) != 10 || c.BofA == nil {
		t.Errorf("%+v", s)
	}
	if r := succeed(t, "model", "diff", a, a); !strings.Contains(r.out, "the same model") {
		t.Errorf("a model and itself: %s", r.out)
	}
	slow := changedModel(t, a, "slow.avro", func(m *mobility.Model) { m.Step *= 2 })
	if r := call(t, "model", "diff", a, slow); r.code != cli.ExitFailed ||
		!strings.Contains(r.out, "steps of 1m0s and 2m0s") {
		t.Errorf("another step: exit %d, %s", r.code, r.out)
	}
	requireMessage(t, call(t, "model", "diff", a, traces), cli.ExitUsage, "not a mobility model")
	requireMessage(t, call(t, "model", "diff", a), cli.ExitUsage, "name two model files")
	requireMessage(t, call(t, "model", "diff", "--delta", "2", a, b), cli.ExitUsage, "delta 2")
}

func TestModelValidate(t *testing.T) {
	dir := t.TempDir()
	_, few := townFiles(t, dir)
	good := changedModel(t, few, "good.avro",
		func(m *mobility.Model) { m.Provenance.Report.Users = 1000 })
	damaged := filepath.Join(dir, "damaged.avro")
	if err := os.WriteFile(damaged, []byte(read(t, good))[:len(read(t, good))-50],
		0o600); err != nil {
		t.Fatal(err)
	}
	if r := succeed(t, "model", "validate", good); !strings.Contains(r.out, "good.avro: good") ||
		!strings.Contains(r.out, "note        no fit") {
		t.Errorf("%s", r.out)
	}
	if r := succeed(t, "model", "validate", few); !strings.Contains(r.out,
		"suspicious  few users: it was learned from 6 users") {
		t.Errorf("%s", r.out)
	}
	if r := call(t, "model", "validate", "--strict", good, few); r.code != cli.ExitFailed ||
		!strings.Contains(r.err, "1 of 2 files are suspicious") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	r := call(t, "model", "validate", "--json", good, damaged)
	if r.code != cli.ExitFailed || !strings.Contains(r.err, "1 of 2 files are unusable") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	decoder := json.NewDecoder(strings.NewReader(r.out))
	for _, want := range []string{modelview.Good, modelview.Unusable} {
		var v modelview.Validation
		if err := decoder.Decode(&v); err != nil || v.Verdict != want ||
			(v.Error == "") != (want == modelview.Good) {
			t.Errorf("%v, %+v, want %s", err, v, want)
		}
	}
	requireMessage(t, call(t, "model", "validate"), cli.ExitUsage, "name the model files")
}
