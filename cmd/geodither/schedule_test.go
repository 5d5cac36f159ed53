package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// townVersions are two models of the town, and a schedule in which the second one starts at the
// twentieth minute.
func townVersions(t *testing.T, dir string) (traces, scheduleFile string) {
	t.Helper()
	traces, _ = townFiles(t, dir)
	second := filepath.Join(dir, "second.avro")
	succeed(t, townTraining(traces, second, "--smoothing", "backoff=3")...)
	return traces, write(t, dir, "schedule.yml", "- model: model.avro\n"+
		"- model: second.avro\n  start: 2023-11-14T22:34:00Z\n")
}

// TestScheduleFaults: each says which version and what would be right.
func TestScheduleFaults(t *testing.T) {
	dir := t.TempDir()
	_, path := townVersions(t, dir)
	write(t, dir, "half.avro", "Obj\x01")
	for text, words := range map[string][]string{
		"":              {"lists no model", "start: 2026"},
		"# nothing\n":   {"lists no model"},
		"model: a.avro": {"a list"},
		"- model: model.avro\n- model: b\n\tstart: 2023-11-14T22:34:00Z": {
			"line 3: a tab indents", "takes spaces",
		},
		"- modle: model.avro":           {`unknown key "modle"`, "did you mean model"},
		"- start: 2023-11-14T22:34:00Z": {"version 1", "name a model file"},
		"- {model: model.avro, start: 2023-11-14T22:34:00Z}": {
			"first version has a start",
		},
		"- model: model.avro\n- model: second.avro": {
			"version 2", "from when on",
		},
		"- model: model.avro\n- {model: second.avro, start: 2023-11-14}": {
			"version 2", "no time with a zone",
		},
		"- model: model.avro\n- {model: second.avro, start: 2023-11-14T22:34:00}": {
			"version 2", "no time with a zone",
		},
		"- model: model.avro\n---\n- model: model.avro": {
			"second YAML document",
		},
		"- model: none.avro": {"none.avro", "geodither train"},
		"- model: model.avro\n- {model: half.avro, start: 2023-11-14T22:34:00Z}":    {"half.avro"},
		"- model: model.avro\n- {model: second.avro, start: 2023-11-14T22:34:00Z, ": {"yaml"},
	} {
		write(t, dir, "schedule.yml", text)
		_, err := config.Models{Models: path}.Read()
		for _, word := range words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%q: %v does not say %q", text, err, word)
			}
		}
	}
	for want, c := range map[string]config.Models{
		"exclude each other": {Model: "a", Models: "b"}, "geodither train": {},
	} {
		if _, err := c.Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v does not say %q", c, err, want)
		}
	}
}

// TestSchedule reads what a schedule lists.
func TestSchedule(t *testing.T) {
	dir := t.TempDir()
	_, path := townVersions(t, dir)
	model, err := config.Models{Models: path}.Read()
	if err != nil {
		t.Fatal(err)
	}
	second, err := mobility.ReadModelFile(filepath.Join(dir, "second.avro"))
	if err != nil {
		t.Fatal(err)
	}
	if len(model.Later) != 1 || model.Later[0].ID.StartMS != 1_700_001_240_000 ||
		model.Later[0].ID.Model.String() != second.ID() || model.ID() == second.ID() {
		t.Errorf("the schedule is %+v", model.Later)
	}
}

// TestModelsChange changes the model twice between a stop and a start of a service in a process of
// its own, which is killed with SIGKILL in between. What it has published verifies, and a replay
// of it under the whole list is the same.
func TestModelsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	w := newCrashWorld(t)
	moved, err := neighbours(w.model)
	if err != nil {
		t.Fatal(err)
	}
	if err := moved.WriteFile(filepath.Join(w.dir, "moved.avro")); err != nil {
		t.Fatal(err)
	}
	begin := time.UnixMilli(1_700_000_000_000).UTC()
	listed := "- model: model.avro\n"
	write(t, w.dir, "schedule.yml", listed)
	text := fmt.Sprintf(`
brokers: [%[1]s]
group: %[2]s
topics: {raw: %[3]sraw, sanitized: %[2]s.sanitized, changelog: %[2]s.changelog, dead_letters: %[2]s.dead, create: true}
models: schedule.yml
key_file: noise.key
state_dir: swap-state
release: {mechanism: lattice, epsilon: 1, delta: 0.01, budget: none}
transaction: {max_records: 40, max_interval: 20ms, timeout: 10s}
session_timeout: 2s
`, w.addr, w.prefix+"swap", w.prefix)
	config := write(t, w.dir, "swap.yml", text)
	add := func(model string, after time.Duration) {
		listed += fmt.Sprintf("- {model: %s, start: %s}\n", model,
			begin.Add(after).Format(time.RFC3339))
		write(t, w.dir, "schedule.yml", listed)
	}
	var fed int64
	feed := func(from int) {
		// four steps, two minutes
		fed += w.feedFrom(t, 30, 4, begin.Add(time.Duration(from)*time.Minute))
	}
	// work feeds four minutes, and kills the service once before it stops.
	work := func(from int) {
		feed(from)
		service := w.start(t, config)
		w.await(t, service, "swap", fed-60)
		service.kill(t)
		feed(from + 2)
		service = w.start(t, config)
		w.await(t, service, "swap", fed)
		service.terminate(t)
	}
	work(0)
	add("moved.avro", 5*time.Minute)
	work(4)
	add("model.avro", 9*time.Minute)
	work(8)

	succeed(t, "state", "verify", "-c", config)
	succeed(t, "replay", "-c", config, "--output-topic", w.prefix+"again")
	requireSame(t, w.read(t, "swap.sanitized", false), w.read(t, "again", false))
	requireNoOther(t, w.read(t, "swap.sanitized", false), w.read(t, "swap.sanitized", true))
	if found := diagnosed(t, config); !strings.Contains(
		found, "ok changelog under these settings") ||
		!strings.Contains(found, "ok models model "+moved.ID()) ||
		!strings.Contains(found, "2 later versions; a fix of this moment has model "+w.model.ID()) {
		t.Errorf("the doctor finds\n%s", found)
	}
	add("moved.avro", 9*time.Minute+10*time.Second) // which is past
	if r := call(t, "run", "-c", config); r.code != cli.ExitFailed ||
		!strings.Contains(r.err, "start after 2023-11-14T22:22:30Z") {
		t.Errorf("with a start that is past: exit %d\n%s", r.code, r.err)
	}
	write(t, w.dir, "schedule.yml", "- model: model.avro\n")
	if found := diagnosed(t, config); !strings.Contains(found, "failure changelog partition") ||
		!strings.Contains(found, moved.ID()) {
		t.Errorf("without a version in use the doctor finds\n%s", found)
	}
	if r := call(t, "run", "-c", config); r.code != cli.ExitFailed ||
		!strings.Contains(r.err, moved.ID()) {
		t.Errorf("without a version in use: exit %d\n%s", r.code, r.err)
	}
}

// diagnosed is what the doctor finds, without its simulation, which takes long.
func diagnosed(t *testing.T, path string) string {
	t.Helper()
	options, _, err := config.Service(path)
	if err != nil {
		t.Fatal(err)
	}
	d := checkup{findings: service.Examine(t.Context(), options, nil, nil)}
	d.starts(options.Later)
	var b strings.Builder
	for _, f := range d.findings {
		fmt.Fprintln(&b, f.Level, f.Check, f.Detail)
	}
	return b.String()
}

// neighbours is a model of another's map and step, in which everybody stays with one
// half and else goes anywhere near.
func neighbours(m *mobility.Model) (*mobility.Model, error) {
	trainer, err := train.New(m.Grid, m.Step, train.Options{Source: "test", Backoff: 7})
	if err != nil {
		return nil, err
	}
	for i := range 50 {
		lat, lon := m.Grid.ToDegrees(m.Grid.Centre(m.Initial.Cells[i%m.Initial.Len()]))
		trainer.Add(train.Fix{
			User: fmt.Sprint(i % 5), TimeMS: int64(i/5) * m.Step.Milliseconds(), Lat: lat, Lon: lon,
		})
	}
	model, _, err := trainer.Finish()
	return model, err
}
