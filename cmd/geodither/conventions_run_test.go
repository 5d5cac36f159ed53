package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestEndings: where a flag names a file or a folder to write, the command ends with a line that
// names it.
func TestEndings(t *testing.T) {
	t.Parallel()
	s, dir := newTownService(t), t.TempDir()
	traces, model := townFiles(t, dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	sanitized, records := in("sanitized.csv"), cli.Quantity(int64(len(servicetest.TownFixes())),
		"record")
	tried := map[string]bool{}
	for _, c := range []struct {
		of, file, wrote string // command and flag, what the flag names, and what is in it
		args            []string
	}{
		{"sanitize --out", sanitized, records + " to ", sanitizeArgs(traces, model)},
		{"sanitize --report", in("report.json"), "the report to ", sanitizeArgs(traces, model)},
		{"smooth --out", in("smoothed.parquet"), records + " to ", []string{
			"smooth", "--model", model, "--in", sanitized, "--lag", "all",
		}},
		{"aggregate --out", in("sums.geojson"), "5 windows to ", []string{
			"aggregate", "--model", model, "--in", sanitized, "--window", "10m",
		}},
		{"counts --out", in("counts.csv"), "the counts to ", []string{
			"counts", "--in", traces, "--from", "2023-11-14", "--to", "2023-11-16", "--box",
			servicetest.TownBox, "--zone", "1km", "--epsilon", "1", "--per-day", "4",
		}},
		{"consume --out", in("out.csv"), "200 records to ", []string{
			"consume", "-c", s.config,
		}},
		{"erase --receipt", in("receipt.json"), "the receipt to ", []string{
			"erase", "-c", s.config, "--user", "sim-000003",
		}},
		{"train --out", in("again.avro"), "", append([]string{
			"train", "--in", traces,
		}, townMap...)},
		{"tune --out", in("tuned"), "", []string{
			"tune", "--in", traces, "--quick", "--target-epsilon", "20", "--box",
			servicetest.TownBox, "--cell", servicetest.TownCell, "--step", servicetest.TownStep,
		}},
		{"evaluate --out", in("evaluated"), "", append([]string{
			"evaluate", "--data", "town=" + traces, "--quick", "--experiment", "mechanisms",
			"--timestamps", "30",
		}, townMap...)},
		{"key new", in("noise.key"), "", []string{"key", "new"}},
		{"key export", in("past.key"), "", []string{
			"key", "export", "--until", "2023-11-14", "--key-file", in("noise.key"),
		}},
	} {
		args := c.args
		if _, flag, found := strings.Cut(c.of, " --"); found {
			args = append(slices.Clone(args), "--"+flag)
		}
		r := succeed(t, append(args, c.file)...)
		if want := "\nwrote " + c.wrote + c.file; !strings.Contains("\n"+r.err+r.out, want) {
			t.Errorf("%s: no line %q in\n%s%s", c.of, want, r.err, r.out)
		}
		tried[c.of] = true
	}
	for path, cmd := range runnable() {
		for _, flag := range []string{"out", "receipt", "report"} {
			if of := path + " --" + flag; cmd.Flags().Lookup(flag) != nil && !tried[of] {
				t.Errorf("%s was not tried", of)
			}
		}
	}
}

// TestJSONAlone: with --json each command prints one document, and nothing else on standard output.
func TestJSONAlone(t *testing.T) {
	t.Parallel()
	s, dir := newTownService(t), t.TempDir()
	traces, model := townFiles(t, dir)
	registry := srfake.New()
	t.Cleanup(registry.Close)
	c := []string{"-c", s.config}
	withRegistry := withConfig(t, fmt.Sprintf(
		"{group: g, topics: {sanitized: out}, registry: {url: %q}}", registry.URL()))
	plain, fix := write(t, dir, "plain.yml", complete), write(t, dir, "fix.json",
		`{"user_id":"u","timestamp":1500000000000,"latitude":53.4,"longitude":-2.95}`)
	args := map[string][]string{
		"audit":                   {"--model", model, "--epsilon", "1", "--draws", "4096"},
		"config lint":             c,
		"demo":                    {"--once"},
		"doctor":                  c,
		"input test":              {"-c", plain, fix},
		"model fit":               {model, "--in", traces, "--held-out", "2"},
		"model inspect":           {model},
		"replay":                  append(c, "--output-topic", s.prefix+"again", "--dry-run"),
		"schemas register":        withRegistry,
		"state inspect":           c,
		"state rebuild-changelog": append(c, "--dry-run"),
		"state reset":             append(c, "--dry-run"),
		"state verify":            c,
		"statement":               c,
		"topics create":           c,
		"version":                 nil,
	}
	for path, cmd := range runnable() {
		if cmd.Flag("json") == nil {
			continue
		}
		more, known := args[path]
		if !known {
			t.Errorf("%s was not tried", path)
		}
		r := call(t, slices.Concat(strings.Fields(path), more, []string{"--json"})...)
		if path == "state rebuild-changelog" {
			requireMessage(t, r, cli.ExitFailed, "nothing to write back")
			continue
		}
		document := json.NewDecoder(strings.NewReader(r.out))
		var value any
		if err := document.Decode(&value); err != nil || r.code != cli.ExitDone {
			t.Errorf("%s --json: exit %d, %v\n%s%s", path, r.code, err, r.out, r.err)
		} else if err := document.Decode(&value); err != io.EOF {
			t.Errorf("%s --json prints more than one document (%v):\n%s", path, err, r.out)
		}
	}
}

// TestConsumeOptions: --limit and --user choose records, whichever format the ending of --out
// names, and every format has all of them.
func TestConsumeOptions(t *testing.T) {
	t.Parallel()
	s, dir := newTownService(t), t.TempDir()
	consume := func(name string, more ...string) (text, said string) {
		path := filepath.Join(dir, name)
		r := succeed(t, append([]string{"consume", "-c", s.config, "--out", path}, more...)...)
		if r.out != "" {
			t.Errorf("%s: something on standard output: %s", name, r.out)
		}
		return read(t, path), r.err
	}
	for ending, starts := range map[string]string{
		".csv": "user_id,", ".ndjson": `{"user_id":`, ".jsonl": `{"user_id":`,
		".geojson": `{"type":"FeatureCollection"`, ".parquet": "PAR1",
	} {
		for _, c := range []struct {
			records int
			args    []string
		}{
			{3, []string{"--limit", "3"}},
			{10, []string{"--user", "sim-000003"}},
			{2, []string{"--user", "sim-000003", "--limit", "2"}},
			{200, nil}, // two of those fed are dead letters
		} {
			text, said := consume("out"+ending, c.args...)
			if want := fmt.Sprintf("wrote %d records to ", c.records); !strings.HasPrefix(text,
				starts) || !strings.Contains(said, want) {
				t.Errorf("%s %v: %.40q, %s", ending, c.args, text, said)
			}
			if n := strings.Count(text, "sim-0"); ending != ".parquet" && n != c.records ||
				strings.Contains(said, "sim-0") {
				t.Errorf("%s %v: %d records, want %d: %s", ending, c.args, n, c.records, said)
			}
		}
	}
	if _, said := consume("none.csv", "--user", "nobody"); strings.Contains(said, "none of the") ||
		!strings.HasPrefix(said, "there is no record of this user in ") {
		t.Errorf("a user without records: %s", said)
	}
	for _, format := range []string{"csv", "json", "geojson", "parquet"} {
		if _, err := os.Stat("/dev/full"); err != nil {
			continue // this system has no device that is always full
		}
		r := call(t, "consume", "-c", s.config, "--out", "/dev/full", "--format", format,
			"--follow", "--limit", "200")
		if r.code != cli.ExitFailed || strings.Count(r.err, "cannot be written") != 1 {
			t.Errorf("%s on a full disk: exit %d, %s", format, r.code, r.err)
		}
	}
	requireMessage(t, call(t, "consume", "-c", s.config, "--out", filepath.Join(dir, "a.xml")),
		cli.ExitUsage, ".xml", ".csv, .ndjson")
	requireMessage(t, call(t, "consume", "-c", s.config, "--limit", "-1"), cli.ExitUsage, "--limit")
	requireMessage(t, call(t, "consume", "-c", s.config, "--user", "a", "--dead-letters"),
		cli.ExitUsage, "dead letters name no user")
}

// TestColumns: every command that reads traces takes the file's own names of columns.
func TestColumns(t *testing.T) {
	t.Parallel()
	dir, broker := t.TempDir(), startBroker(t)
	_, model := townFiles(t, dir)
	_, rows, _ := strings.Cut(servicetest.TownCSV(servicetest.TownFixes()), "\n")
	traces := write(t, dir, "own.csv", "device,recorded,breite,laenge\n"+rows)
	const columns = "user_id=device,timestamp=recorded,latitude=breite,longitude=laenge"
	in := func(name string) string { return filepath.Join(dir, name) }
	args := map[string][]string{
		"counts": {
			"--in", traces, "--from", "2023-11-14", "--to", "2023-11-16", "--box",
			servicetest.TownBox, "--zone", "1km", "--epsilon", "1", "--per-day", "4",
		},
		"evaluate": append([]string{
			"--data", "town=" + traces, "--quick", "--experiment", "mechanisms", "--timestamps",
			"30", "--out", in("evaluated"),
		}, townMap...),
		"explore":   {"--model", model, "--in", traces},
		"model fit": {model, "--in", traces, "--held-out", "2"},
		"produce":   {"--brokers", broker, "--topic", "raw", "--create", "1", "--in", traces},
		"sanitize":  {"--model", model, "--epsilon", "1", "--in", traces},
		"train":     append([]string{"--in", traces, "--out", in("again.avro")}, townMap...),
		"tune": {
			"--in", traces, "--quick", "--out", in("tuned"), "--box", servicetest.TownBox,
			"--cell", servicetest.TownCell, "--step", servicetest.TownStep,
		},
	}
	for path, cmd := range runnable() {
		flags := cmd.Flags()
		reads := flags.Lookup("data") != nil || flags.Lookup("in") != nil &&
			strings.Contains(flags.Lookup("in").Usage, "of traces")
		if more := args[path]; reads != (more != nil) || reads != (flags.Lookup("columns") != nil) {
			t.Errorf("%s reads traces: %v; it was tried with %v", path, reads, more)
		}
		if !reads {
			continue
		}
		line := append(strings.Fields(path), args[path]...)
		if r := call(t, line...); r.code == cli.ExitDone || !strings.Contains(r.err, "user_id") {
			t.Errorf("%s without --columns: exit %d, %s", path, r.code, r.err)
		}
		line = append(line, "--columns", columns)
		if path != "explore" {
			succeed(t, line...)
			continue
		}
		page := start(t, nil, line...)
		eventually(t, "the page", func() bool {
			return strings.Contains(page.out.String()+page.log.String(), "http://")
		})
		if code := page.stop(t); code != cli.ExitDone {
			t.Errorf("explore: exit %d, %s", code, page.log)
		}
	}
}
