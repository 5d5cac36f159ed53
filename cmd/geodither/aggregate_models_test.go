package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// changedTown is the town's sanitized records under a schedule whose second version starts at the
// twentieth minute.
func changedTown(t *testing.T, dir, second, release string) (sanitized, schedule string) {
	t.Helper()
	schedule = write(t, dir, "schedule.yml",
		"- model: model.avro\n- model: "+second+"\n  start: 2023-11-14T22:34:00Z\n")
	sanitized = filepath.Join(dir, "changed.csv")
	args := []string{
		"sanitize", "--in", filepath.Join(dir, "traces.csv"), "--epsilon", "2",
		"--delta", "0.02", "--mechanism", "lattice",
		"--seed", "5", "--out", sanitized,
	}
	succeed(t, append(args, withConfig(t, "models: "+schedule,
		"release: {"+release+"}")...)...)
	return sanitized, schedule
}

// TestAggregateFollowsModels: every record's estimate follows over a change of the model, whatever
// the settings of release and in whichever way the versions are given, and a vehicle counts once in
// each window.
func TestAggregateFollowsModels(t *testing.T) {
	dir := t.TempDir()
	townVersions(t, dir)
	model, second := filepath.Join(dir, "model.avro"), filepath.Join(dir, "second.avro")
	for name, release := range map[string]string{
		"plain":    "budget: none",
		"interval": "interval: 3m, budget: none",
		"skip":     "interval: 3m, between: skip, budget: none",
		"budget":   "between: skip, budget: {epsilon: 8, window: 20m}",
	} {
		sanitized, schedule := changedTown(t, dir, "second.avro", release)
		config := readerConfig(t, dir, "models: "+schedule, release)
		args := []string{"aggregate", "--in", sanitized, "--window", "10m", "-c", config}
		r := succeed(t, append(args, "--flows", filepath.Join(dir, "flows.csv"))...)
		if !strings.Contains(r.err, "followed    all:") || !strings.Contains(r.err, "2 versions") {
			t.Errorf("%s: not every record is followed over the change:\n%s", name, r.err)
		}
		if name == "plain" {
			for window, sum := range sumOfColumn(t, r.out, "vehicles") {
				if sum < 5.99 || sum > 6.01 {
					t.Errorf("%g vehicles in the window from %s", sum, window)
				}
			}
			for window, sum := range sumOfColumn(t, read(t, filepath.Join(dir, "flows.csv")),
				"vehicles") {
				// Flows come from noisy releases: over ten seeds 4.0 to 5 of the six. Vehicles lost
				// at the change would be missing by halves.
				if sum < 3.7 || sum > 6.01 {
					t.Errorf("%g of six vehicles flow into the window from %s", sum, window)
				}
			}
		}
		if named := succeed(t, append(args, "--model", second,
			"--model", model)...); named.out != r.out {
			t.Errorf("%s: models in another order say something else", name)
		}
	}
}

// TestAggregateConfigOfModels: the service's config names the schedule, and its key may be away.
func TestAggregateConfigOfModels(t *testing.T) {
	dir := t.TempDir()
	townVersions(t, dir)
	sanitized, _ := changedTown(t, dir, "second.avro", "budget: none")
	model, second := filepath.Join(dir, "model.avro"), filepath.Join(dir, "second.avro")
	want := succeed(t, "aggregate", "--in", sanitized, "--model", model, "--model", second)
	config := write(t, dir, "geodither.yml", "models: schedule.yml\nkey_file: nowhere.key\n"+
		"release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: none}\n")
	if r := succeed(t, "aggregate", "-c", config, "--in", sanitized); r.out != want.out {
		t.Error("the config's schedule says something else")
	}
	// Without the second version its users are not followed, and would be missing from the windows.
	only := []string{
		"aggregate", "--in", sanitized, "--model", model, "--window", "10m",
		"--out", filepath.Join(dir, "out.csv"),
	}
	requireMessage(t, call(t, only...), cli.ExitFailed, "changed.csv:",
		"under the model", "several --model")
	// Its remedy: the records that are asked out are no missing ones.
	r := succeed(t, append(only, "--to", "2023-11-14T22:30:00Z")...)
	for _, said := range []string{
		"of windows that end after --to", "followed    all:", "with 6 vehicles on average",
	} {
		if !strings.Contains(r.err, said) {
			t.Errorf("the summary lacks %q:\n%s", said, r.err)
		}
	}
	if strings.Contains(r.err, "records missing") || strings.Contains(r.err, "left out") {
		t.Errorf("what is asked out is missed:\n%s", r.err)
	}
	requireMessage(t, call(t, append(only, "--to", "2023-11-14T22:05:00Z")...), cli.ExitFailed,
		"ends after --to", "nothing to aggregate")
}

// TestAggregateFrom: records before --from are followed for what comes after, and how well they are
// is told apart from it. A record that is missing there is no matter once a gap has started the
// filter again.
func TestAggregateFrom(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	gap := slices.DeleteFunc(servicetest.TownFixes(), func(fix schemas.Raw) bool {
		minute := time.UnixMilli(fix.Timestamp).UTC().Minute()
		return minute >= 24 && minute < 36
	})
	for i := range gap { // long enough for everybody to start again after it
		if time.UnixMilli(gap[i].Timestamp).UTC().Minute() >= 36 {
			gap[i].Timestamp += mechanism.DefaultMaxGap * time.Minute.Milliseconds()
		}
	}
	traces, whole := write(t, dir, "gap.csv", servicetest.TownCSV(gap)), filepath.Join(dir,
		"whole.csv")
	succeed(t, sanitizeArgs(traces, model, "--seed", "5", "--out", whole)...)
	holed := ""
	for _, line := range strings.SplitAfter(read(t, whole), "\n") {
		if !strings.HasPrefix(line, "3,2023-11-14T22:16") {
			holed += line
		}
	}
	config := readerConfig(t, dir, "model: "+model, "budget: none")
	args := []string{
		"aggregate", "--in", write(t, dir, "holed.csv", holed), "-c", config, "--window", "5m",
	}
	for from, said := range map[string][]string{
		"22:35:00": {"followed    all:", "of windows before --from"},
		"22:20:00": {
			" % of the records: 1 user has records missing, or came under other settings",
			"The user is left out", "of windows before --from",
		},
	} {
		r := succeed(t, append(args, "--from", "2023-11-14T"+from+"Z")...)
		for _, words := range said {
			if !strings.Contains(r.err, words) {
				t.Errorf("from %s, the summary lacks %q:\n%s", from, words, r.err)
			}
		}
	}
}

// TestAggregateMaps: a later version with another map is refused where its windows are wanted, and
// aggregated by itself, with every record followed.
func TestAggregateMaps(t *testing.T) {
	dir := t.TempDir()
	traces, _ := townFiles(t, dir)
	succeed(t, "train", "--in", traces, "--box", servicetest.TownBox, "--cell", "400m",
		"--step", servicetest.TownStep, "--out", filepath.Join(dir, "coarse.avro"))
	sanitized, schedule := changedTown(t, dir, "coarse.avro", "budget: none")
	out := filepath.Join(dir, "out.csv")
	config := readerConfig(t, dir, "models: "+schedule, "budget: none")
	args := []string{"aggregate", "--in", sanitized, "-c", config, "--window", "5m", "--out", out}
	requireMessage(t, call(t, args...), cli.ExitFailed, "more than one map",
		"in the window from 2023-11-14T22:30:00Z", "--to", "--from")
	if _, err := os.Stat(out); err == nil {
		t.Error("a failure left a file behind")
	}
	for _, span := range [][]string{
		{"--to", "2023-11-14T22:30:00Z"}, {"--from", "2023-11-14T22:35:00Z"},
	} {
		r := succeed(t, append(args, span...)...)
		if !strings.Contains(r.err, "followed    all:") ||
			!strings.Contains(r.err, "with 6 vehicles on average") {
			t.Errorf("%v:\n%s", span, r.err)
		}
	}
}

// TestAggregateTopicOfModels follows users in the topic of a service whose config has a schedule of
// models, wherever its partitions have adopted them.
func TestAggregateTopicOfModels(t *testing.T) {
	t.Setenv(files.KeyVariable, "")
	dir, broker := t.TempDir(), startBroker(t)
	traces, _ := townVersions(t, dir)
	write(t, dir, "schedule.yml",
		"- model: model.avro\n- model: second.avro\n  start: 2023-11-14T22:34:00Z\n")
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "3", "--in", traces)
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true}
models: schedule.yml
key_file: noise.key
state_dir: state
release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: none}
`, broker))
	service := start(t, nil, "run", "-c", config)
	want := strings.Count(read(t, traces), "\n") - 1
	eventually(t, "every record", func() bool {
		return strings.Count(call(t, "consume", "--brokers", broker, "--topic", "out").out,
			"\n") >= want
	})
	if code := service.stop(t); code != cli.ExitDone {
		t.Fatalf("the service ended with %d\n%s", code, service.log)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	r := succeed(t, "aggregate", "-c", config, "--window", "10m")
	if !strings.Contains(r.err, "followed    all:") || !strings.Contains(r.err, "2 versions") {
		t.Errorf("not every record is followed:\n%s", r.err)
	}
	for window, sum := range sumOfColumn(t, r.out, "vehicles") {
		if sum < 5.99 || sum > 6.01 {
			t.Errorf("%g vehicles in the window from %s", sum, window)
		}
	}
}
