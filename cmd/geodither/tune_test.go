package main

import (
	"encoding/csv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// tuneTown is a search of few settings on the town.
func tuneTown(t *testing.T, dir string, more ...string) []string {
	t.Helper()
	traces := write(t, dir, "traces.csv", servicetest.TownCSV(servicetest.TownFixes()))
	return append([]string{
		"tune", "--in", traces, "--box", servicetest.TownBox, "--cell", servicetest.TownCell,
		"--step", servicetest.TownStep, "--quick", "--out", filepath.Join(dir, "tuned"),
	}, more...)
}

// TestTune: the folder is complete, its config can be read, runs on a broker as it is except for
// the broker's address, and asks what was promised.
func TestTune(t *testing.T) {
	dir := t.TempDir()
	line := tuneTown(t, dir, "--target-epsilon", "20")
	r := succeed(t, line...)
	folder := filepath.Join(dir, "tuned")
	for _, name := range []string{
		tunedConfig, tunedModel, tunedKey, "report.md",
		"charts/plans.svg", "tables/plans.csv", "tables/chosen.csv",
	} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]fs.FileMode{
		folder: 0o700, filepath.Join(folder, tunedKey): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v: %v", path, info.Mode(), want, err)
		}
	}
	path := filepath.Join(folder, tunedConfig)
	o, _, err := config.Service(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(r.out, "\n"); lines > 25 {
		t.Errorf("%d lines on the terminal:\n%s", lines, r.out)
	}
	for _, line := range strings.Split(r.out, "\n") {
		if utf8.RuneCountInString(line) > 80 && !strings.Contains(line, dir) {
			t.Errorf("a line of %d characters: %q", utf8.RuneCountInString(line), line)
		}
	}
	if budget := o.Release.Budget; budget.Epsilon != 20 || budget.WindowSteps == 0 ||
		o.Release.Epsilon > budget.Epsilon {
		t.Errorf("the budget is %+v with ε = %v a release", budget, o.Release.Epsilon)
	}
	said := strings.Join(strings.Fields(r.out), " ")
	if promised := "ε = " + strconv.FormatFloat(o.Release.Epsilon, 'g', 3, 64); !strings.Contains(
		said, promised) || !strings.Contains(read(t, path), "model: model.avro") ||
		!strings.Contains(said, "Many nights show where somebody lives") {
		t.Errorf("%q is not in\n%s", promised, r.out)
	}
	// The config is deployed: beside its settings it has no number that the traces decide.
	plan := regexp.MustCompile(`(?m)# \d+ releases a day$`)
	for line := range strings.Lines(plan.ReplaceAllString(read(t, path), "")) {
		if _, comment, _ := strings.Cut(line, "#"); strings.ContainsAny(comment, "0123456789") ||
			strings.Contains(comment, "median") {
			t.Errorf("a comment of the config has a figure: %s", line)
		}
	}
	rows, err := csv.NewReader(
		strings.NewReader(read(t, filepath.Join(folder, "tables", "plans.csv")))).ReadAll()
	if err != nil || len(rows) != 1+5 || !strings.Contains(r.out,
		"the model alone") {
		t.Errorf("%d rows of plans: %v\n%s", len(rows), err, r.out)
	}
	// What is there is not overwritten.
	requireMessage(t, call(t, line...), cli.ExitUsage, "not empty", "--out")

	broker := startBroker(t)
	write(t, folder, tunedConfig, strings.Replace(read(t, path), "localhost:9092", broker, 1))
	succeed(t, "produce", "--brokers", broker, "--topic", "fleet.raw", "--create", "4",
		"--in", filepath.Join(dir, "traces.csv"))
	succeed(t, "doctor", "-c", path)
	service := start(t, nil, "run", "-c", path)
	eventually(t, "sanitized records", func() bool {
		return strings.Count(
			call(t, "consume", "--brokers", broker, "--topic", "fleet.sanitized").out, "\n") >= 20
	})
	if code := service.stop(t); code != cli.ExitDone {
		t.Errorf("exit %d: %s", code, service.log)
	}
}

// TestTuneRefuses: what is wrong is said before anything is read or written, and what cannot be
// reached leaves the frontier and no config.
func TestTuneRefuses(t *testing.T) {
	dir := t.TempDir()
	line := tuneTown(t, dir, "--target-radius", "1m")
	r := call(t, line...)
	if _, err := os.Stat(
		filepath.Join(dir, "tuned", tunedConfig)); r.code != cli.ExitFailed ||
		err == nil || !strings.Contains(r.err, "no plan meets the target") ||
		!strings.Contains(r.out, "The nearest is") {
		t.Errorf("exit %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	if text := read(t, filepath.Join(dir, "tuned",
		"report.md")); !strings.Contains(text, "The nearest is") {
		t.Error("the report does not say what comes nearest")
	}
	for words, more := range map[string][]string{
		"not both":     {"--target-radius", "1km", "--target-epsilon", "5"},
		"no unit":      {"--target-radius", "500"},
		"is none":      {"--step", "-45s"},
		"is no number": {"--box", "a,b,c,d"},
		"--cell":       {"--cell", "5"},
		"positive":     {"--target-epsilon", "-1"},
	} {
		line := append(tuneTown(t, t.TempDir()), more...)
		if r := call(t, line...); r.code != cli.ExitUsage || !strings.Contains(r.err, words) {
			t.Errorf("%q: exit %d, %q", words, r.code, r.err)
		}
		if _, err := os.Stat(line[len(line)-len(more)-1]); err == nil {
			t.Errorf("%q: a folder is left", words)
		}
	}
	swapped := tuneTown(t, t.TempDir())
	requireMessage(t, call(t, append(swapped,
		"--columns", "latitude=longitude,longitude=latitude")...),
		cli.ExitFailed, "changed places")
	one := write(t, dir, "one.csv", "user_id,timestamp,latitude,longitude\n"+
		"0,1700000040000,10.004,20.006\n0,1700000100000,10.005,20.006\n")
	requireMessage(t, call(t, "tune", "--in", one, "--box", servicetest.TownBox,
		"--out", filepath.Join(dir, "one")),
		cli.ExitFailed, "two users")
}
