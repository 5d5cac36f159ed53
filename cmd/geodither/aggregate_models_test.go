package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
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
		"under the model", "add its file with --model")
	// Its remedy: the records that are asked out are no missing ones.
	r := succeed(t, append(only, "--to", "2023-11-14T22:30:00Z")...)
	for _, said := range []string{
		"of windows outside --from and --to", "followed    all:", "with 6 vehicles on average",
	} {
		if !strings.Contains(r.err, said) {
			t.Errorf("the summary lacks %q:\n%s", said, r.err)
		}
	}
	if strings.Contains(r.err, "is missing") || strings.Contains(r.err, "left out") {
		t.Errorf("what is asked out is missed:\n%s", r.err)
	}
	requireMessage(t, call(t, append(only, "--to", "2023-11-14T22:05:00Z")...), cli.ExitFailed,
		"ends after the last one wanted")
}
