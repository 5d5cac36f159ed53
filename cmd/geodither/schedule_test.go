package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/doctor"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

// townVersions are two models of the town, the second with models of its users (own), and a
// schedule in which it starts at the twentieth minute.
func townVersions(t *testing.T, dir string) (traces, scheduleFile string) {
	t.Helper()
	traces, _ = townFiles(t, dir)
	succeed(t, townTraining(traces, filepath.Join(dir, "second.avro"), "--smoothing", "backoff=3",
		"--personal", filepath.Join(dir, "own"))...)
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
		"- modle: model.avro":                  {`unknown key "modle"`, "did you mean model"},
		"- start: 2023-11-14T22:34:00Z":        {"version 1", "name a model file"},
		"- {model: model.avro, personal: own}": {`unknown key "personal"`},
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

// TestScheduleWatch: a text counts when it has stayed the same between two looks, what
// has not changed is not read again, and nothing is lost where something is wrong.
func TestScheduleWatch(t *testing.T) {
	dir := t.TempDir()
	_, path := townVersions(t, dir)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	model, err := config.Models{Models: path}.Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(model.Later) != 1 ||
		model.Later[0].ID.StartMS != 1_700_001_240_000 {
		t.Fatalf("the schedule is %+v", model.Later)
	}
	look := func(wantErr string) engine.Schedule {
		t.Helper()
		found, err := model.Watch()
		if (err != nil) != (wantErr != "") ||
			err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("a look answers %v, want %q", err, wantErr)
		}
		return found
	}
	same := func(s engine.Schedule) bool {
		return len(s.Later) == 1 && s.Later[0] == model.Later[0] &&
			s.First.Model.String() == model.ID()
	}
	if !same(look("")) || !same(look("")) {
		t.Error("an untouched schedule is another one")
	}
	for n := range good { // a slow writer, seen once at each length
		write(t, dir, "schedule.yml", string(good[:n]))
		if !same(look("")) {
			t.Fatalf("half a schedule of %d bytes is taken", n)
		}
	}
	look("") // the shortest, which is no change
	third := string(good) + "- {model: model.avro, start: 2023-11-15T00:00:00Z}\n"
	write(t, dir, "schedule.yml", third)
	if found := look(""); !same(found) {
		t.Error("a new text is taken at first sight")
	}
	found := look("")
	if len(found.Later) != 2 || found.Later[0] != model.Later[0] ||
		found.Later[1].ID.Model.String() != model.ID() {
		t.Errorf("the new schedule is %+v", found)
	}
	write(t, dir, "schedule.yml", "- model: ")
	look("")
	look("name a model file")
	look("name a model file")
	write(t, dir, "schedule.yml", third)
	if found := look(""); len(found.Later) != 2 {
		t.Errorf("after a fault it is %+v", found)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look("no such file")
	// The same entry, another file: another version.
	data, err := os.ReadFile(filepath.Join(dir, "second.avro"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "schedule.yml", third+"# touched\n")
	if err := os.Rename(filepath.Join(dir, "model.avro"),
		filepath.Join(dir, "moved.avro")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "model.avro", string(data))
	look("")
	if found := look(""); found.First.Model != found.Later[1].ID.Model ||
		found.First.Model.String() == model.ID() {
		t.Errorf("with another first file it is %+v", found)
	}
	// Put back, as the log asks for, it is the first again, and nobody need touch the schedule.
	if err := os.Rename(filepath.Join(dir, "moved.avro"),
		filepath.Join(dir, "model.avro")); err != nil {
		t.Fatal(err)
	}
	if found := look(""); found.First.Model.String() != model.ID() || len(found.Later) != 2 {
		t.Errorf("with the first file put back it is %+v", found)
	}
	if err := os.Remove(filepath.Join(dir, "second.avro")); err != nil {
		t.Fatal(err)
	}
	look("second.avro")
	look("second.avro")
}

// TestSanitizePersonal: who has a model of their own is released under it, and a damaged file is
// an error.
func TestSanitizePersonal(t *testing.T) {
	dir := t.TempDir()
	traces, _ := townVersions(t, dir)
	model, own := filepath.Join(dir, "second.avro"), filepath.Join(dir, "own")
	popular, err := mobility.ReadModelFile(model)
	if err != nil {
		t.Fatal(err)
	}
	personals, err := mobility.ReadPersonals(strings.NewReader(read(t, own)), popular)
	if err != nil {
		t.Fatal(err)
	}
	config := withConfig(t, "model: "+model, "personal: "+own)
	args := append([]string{
		"sanitize", "--in", traces, "--epsilon", "2", "--delta", "0.02", "--mechanism", "lattice",
		"--seed", "5",
	}, config...)
	said, lines := sanitizeTo(t, "json", args...)
	requireWords(t, said.err, "personal models are for experiments")
	for _, rec := range decoded(t, lines) {
		if !schemas.HasNote(rec.Mechanism, schemas.Unproved) {
			t.Fatalf("a record under a user's own model is of the mechanism %q", rec.Mechanism)
		}
		if personals.Of(rec.UserID) == nil || rec.ModelID != personals.ID() {
			t.Fatalf("a record of step %d has the model %s", rec.Step, rec.ModelID)
		}
	}
	if err := os.Truncate(own, 500); err != nil {
		t.Fatal(err)
	}
	requireMessage(t, call(t, args...), cli.ExitUsage, own, "train again")
}

// TestKilledServiceSwapsModels changes the model under a service in a process of its own, before
// and after it is killed with SIGKILL. What it has published verifies, and a replay of it is the
// same.
func TestKilledServiceSwapsModels(t *testing.T) {
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
	add := func(model string, minutes int) {
		listed += fmt.Sprintf("- {model: %s, start: %s}\n", model,
			begin.Add(time.Duration(minutes)*time.Minute).Format(time.RFC3339))
		write(t, w.dir, "schedule.yml", listed)
	}
	adopted := func(n int) func() bool {
		return func() bool {
			r := call(t, "state", "inspect", "-c", config, "--user", "sim-000001", "--json")
			var found account.State
			return r.code == cli.ExitDone && json.Unmarshal([]byte(r.out), &found) == nil &&
				len(found.Versions) == n
		}
	}
	var fed int64
	feed := func(from int) {
		// eight steps, four minutes
		fed += w.feedFrom(t, 30, 8, begin.Add(time.Duration(from)*time.Minute))
	}
	feed(0)
	service := w.start(t, config)
	w.await(t, service, "swap", fed)
	add("moved.avro", 5) // that is still to come
	eventually(t, "the second version is adopted", adopted(1))
	feed(4)
	w.await(t, service, "swap", fed*3/4)
	service.kill(t)
	service = w.start(t, config)
	w.await(t, service, "swap", fed)
	add("model.avro", 7) // that is past
	eventually(t, "the third version is adopted", adopted(2))
	service.kill(t)
	feed(8)
	service = w.start(t, config)
	w.await(t, service, "swap", fed)
	service.terminate(t)

	succeed(t, "state", "verify", "-c", config)
	succeed(t, "replay", "-c", config, "--output-topic", w.prefix+"again")
	requireSame(t, w.read(t, "swap.sanitized", false), w.read(t, "again", false))
	requireNoOther(t, w.read(t, "swap.sanitized", false), w.read(t, "swap.sanitized", true))
	if found := diagnosed(t, config); !strings.Contains(
		found, "ok changelog under these settings") ||
		!strings.Contains(found, "2 later versions of the model adopted") ||
		!strings.Contains(found, "ok models model "+moved.ID()) ||
		!strings.Contains(found, "2 later versions; a fix of this moment has model "+w.model.ID()) {
		t.Errorf("the doctor finds\n%s", found)
	}
	printed := succeed(t, "state", "inspect", "-c", config, "--user", "sim-000001")
	if strings.Count(printed.out, "version      from raw offset") != 2 {
		t.Errorf("inspect prints\n%s", printed.out)
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
	d := checkup{findings: doctor.Examine(t.Context(), options, nil)}
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
