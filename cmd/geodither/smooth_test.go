package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// smoothFiles sanitizes the town's traces under a config, as CSV and as JSON lines.
func smoothFiles(t *testing.T, dir, release string) (config, csvFile, jsonFile, traces string) {
	t.Helper()
	traces, model := townFiles(t, dir)
	config = readerConfig(t, dir, "model: "+model, release)
	csvFile, jsonFile = filepath.Join(dir, "in.csv"), filepath.Join(dir, "in.ndjson")
	for _, out := range []string{csvFile, jsonFile} {
		succeed(t, "sanitize", "-c", config, "--in", traces, "--seed", "3", "--out", out)
	}
	return config, csvFile, jsonFile, traces
}

// TestSmoothFiles: each record comes back once, in its order among those of its user, with another
// estimate and nothing else changed but the note; the same bytes on any number of cores. CSV, which
// rounds releases, gives the same estimates. Without --lag it is the release interval.
func TestSmoothFiles(t *testing.T) {
	for name, release := range map[string]string{
		"codebook": "mechanism: codebook, epsilon: 3, interval: 4m, budget: none",
		"lattice":  "mechanism: lattice, epsilon: 3, delta: 0.1, interval: 4m, budget: none",
		"skip": "mechanism: codebook, epsilon: 3, interval: 4m, between: skip, " +
			"budget: none",
	} {
		dir := t.TempDir()
		config, csvFile, jsonFile, _ := smoothFiles(t, dir, release)
		out := filepath.Join(dir, "out.ndjson")
		args := []string{"smooth", "-c", config, "--out", out, "--in"}
		said := succeed(t, append(args, jsonFile)...)
		first := read(t, out)
		if !strings.Contains(said.err, "of 6 users") || strings.Contains(said.err, "unsmoothed") ||
			!strings.Contains(said.err, "(lag 4m0s)") {
			t.Errorf("%s: %s", name, said.err)
		}
		for _, cores := range []int{1, 7} {
			func() {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
				succeed(t, append(args, jsonFile, "--lag", "4m")...)
			}()
			if again := read(t, out); again != first {
				t.Errorf("%s: %d cores give other bytes", name, cores)
			}
		}
		succeed(t, append(args, csvFile)...)
		want := decoded(t, first)
		for i, r := range decoded(t, read(t, out)) {
			if r.Latitude != want[i].Latitude || r.RadiusM != want[i].RadiusM {
				t.Fatalf("%s: of CSV record %d is %+v, and %+v of JSON", name, i, r, want[i])
			}
		}
		requireSmoothed(t, name, decoded(t, read(t, jsonFile)), decoded(t, first))
	}
}

// requireSmoothed compares records with those that they were made from, user by user.
func requireSmoothed(t *testing.T, name string, before, after []schemas.Sanitized) {
	t.Helper()
	byUser := func(a, b schemas.Sanitized) int { return strings.Compare(a.UserID, b.UserID) }
	slices.SortStableFunc(before, byUser)
	slices.SortStableFunc(after, byUser)
	if len(before) != len(after) {
		t.Fatalf("%s: %d records of %d", name, len(after), len(before))
	}
	moved := 0
	for i, got := range after {
		want := before[i]
		if got.Latitude != want.Latitude || got.Longitude != want.Longitude {
			moved++
		}
		if !schemas.HasNote(got.Mechanism, schemas.Smoothed) || got.RadiusM <= 0 ||
			got.SigmaMajorM.Number < got.SigmaMinorM.Number {
			t.Fatalf("%s: %+v", name, got)
		}
		got.Latitude, got.Longitude, got.RadiusM = want.Latitude, want.Longitude, want.RadiusM
		got.SigmaMajorM, got.SigmaMinorM = want.SigmaMajorM, want.SigmaMinorM
		got.AzimuthDeg, got.Mechanism = want.AzimuthDeg, want.Mechanism
		if got != want {
			t.Fatalf("%s: %+v became %+v", name, want, got)
		}
	}
	if 2*moved < len(after) {
		t.Errorf("%s: %d of %d estimates are others", name, moved, len(after))
	}
}

// TestConsumeSmooth: "consume | smooth --in -" smooths every record of a topic, as a file of the
// same records does. The key file is gone by then: the command does not look for one.
func TestConsumeSmooth(t *testing.T) {
	broker, dir := startBroker(t), t.TempDir()
	traces, _ := townFiles(t, dir)
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "2", traces)
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`brokers: [%q]
group: town
topics: {raw: raw, sanitized: out, create: true}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: codebook, epsilon: 3, interval: 4m, budget: none}
`, broker))
	succeed(t, "topics", "create", "-c", config)
	fixes := len(servicetest.TownFixes())
	consume := func(format string) string {
		return succeed(t, "consume", "--brokers", broker, "--topic", "out", "--format", format).out
	}
	sanitizing := start(t, nil, "run", "-c", config)
	eventually(t, "every fix is published", func() bool {
		return strings.Count(consume("json"), "\n") == fixes
	})
	sanitizing.stop(t)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	records := consume("json")
	in, out := write(t, dir, "in.ndjson", records), filepath.Join(dir, "out.ndjson")
	said := succeed(t, "smooth", "-c", config, "--in", in, "--out", out)
	requireWords(t, said.err, fmt.Sprintf(": %d smoothed", fixes))
	want := decoded(t, read(t, out))
	requireSmoothed(t, "topic", decoded(t, records), want) // which sorts them by user
	for _, format := range []string{"json", "csv"} {
		piped := callWith(t, consume(format), "smooth", "-c", config, "--in", "-", "--out", out)
		if piped.code != 0 {
			t.Fatalf("%s: exit %d: %s", format, piped.code, piped.err)
		}
		got := decoded(t, read(t, out))
		slices.SortStableFunc(got, func(a, b schemas.Sanitized) int {
			return strings.Compare(a.UserID, b.UserID)
		})
		if len(got) != len(want) {
			t.Fatalf("%s: %d records, want %d", format, len(got), len(want))
		}
		for i, r := range got {
			if r.Latitude != want[i].Latitude || r.RadiusM != want[i].RadiusM {
				t.Fatalf("%s: record %d is %+v, of a file %+v", format, i, r, want[i])
			}
		}
	}
}

// TestSmoothFormats: the other formats are written too, and no reader takes smoothed records for
// sanitized ones.
func TestSmoothFormats(t *testing.T) {
	dir := t.TempDir()
	config, csvFile, _, _ := smoothFiles(t, dir,
		"mechanism: codebook, epsilon: 3, interval: 4m, budget: none")
	for _, format := range []string{"csv", "geojson", "parquet"} {
		out := filepath.Join(dir, "out."+format)
		succeed(t, "smooth", "-c", config, "--in", csvFile, "--lag", "all", "--out", out)
		if info, err := os.Stat(out); err != nil || info.Size() < 10_000 {
			t.Errorf("%s: %v, %v", format, info, err)
		}
	}
	again := filepath.Join(dir, "out.csv")
	requireMessage(t, call(t, "smooth", "-c", config, "--in", again), 1, "out.csv:2",
		"smoothed already", "sanitized records")
	requireMessage(t, call(t, "aggregate", "-c", config, "--in", again), 1, "smoothed already")
}

// smoothErrors are distances of records to the truth.
type smoothErrors struct {
	trial.Distances
	held int // true places that the radius holds
}

// errorsOfRecords measures a file of records by the traces that they were made from.
func errorsOfRecords(t *testing.T, g *grid.Grid, path string, paths ...string) (e smoothErrors) {
	t.Helper()
	reader, err := traces.Open(t.Context(), paths, nil, traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	type moment struct {
		user string
		at   int64
	}
	truth := map[moment]grid.Point{}
	for fix, err := range reader.Fixes() {
		if err != nil {
			t.Fatal(err)
		}
		truth[moment{fix.UserID, fix.Timestamp}] = g.ToMap(fix.Latitude, fix.Longitude)
	}
	each := func(r schemas.Sanitized, where string) error {
		at, known := truth[moment{r.UserID, r.Timestamp}]
		if !known {
			return fmt.Errorf("%s: the traces do not have this fix", where)
		}
		d := g.ToMap(r.Latitude, r.Longitude).Distance(at)
		if e.Add(d); 1000*d <= r.RadiusM {
			e.held++
		}
		return nil
	}
	if err := files.Records(path, nil, nil)(t.Context(), each); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestSmoothErrors measures sanitized and smoothed records, and prints with -v what RESULTS.md has:
// GEODITHER_SMOOTH names the model, files of both, and the traces. Without it the town's records
// have the error that sanitize reports.
func TestSmoothErrors(t *testing.T) {
	if names := strings.Fields(os.Getenv("GEODITHER_SMOOTH")); len(names) > 0 {
		model, err := mobility.ReadModelFile(names[0])
		if err != nil || len(names) < 4 {
			t.Fatalf("%v; name a model, sanitized records, smoothed records and traces", err)
		}
		for _, path := range names[1:3] {
			e := errorsOfRecords(t, model.Grid, path, names[3:]...)
			t.Logf("%s: n %d, mean,median,rms,held %.3f,%.3f,%.3f,%.3f", path, e.Len(),
				e.Mean()/1000, e.Median()/1000, e.RMS()/1000, float64(e.held)/float64(e.Len()))
		}
		return
	}
	dir := t.TempDir()
	config, csvFile, _, traces := smoothFiles(t, dir,
		"mechanism: codebook, epsilon: 8, interval: 2m, budget: none")
	var said struct {
		Estimate expect.Errors `json:"estimate_m"`
	}
	report := filepath.Join(dir, "report.json")
	succeed(t, "sanitize", "-c", config, "--in", traces, "--seed", "3", "--out", "/dev/null",
		"--report", report)
	if err := json.Unmarshal([]byte(read(t, report)), &said); err != nil {
		t.Fatal(err)
	}
	e := errorsOfRecords(t, townModel(t).Grid, csvFile, traces)
	if d := e.Mean() - said.Estimate.Mean; d > .1 || d < -.1 || e.held < e.Len()/2 {
		t.Errorf("%.1f m, %d within their radius; sanitize says %.1f m", e.Mean(), e.held,
			said.Estimate.Mean)
	}
}

// TestReportLooksBack: what sanitize --report says that its records show of the past is what smooth
// makes of the same records, with a lag of one interval and with all records.
func TestReportLooksBack(t *testing.T) {
	var mean expect.Errors
	cases := map[string]string{
		"codebook": "mechanism: codebook, epsilon: 2, interval: 4m, budget: none",
		"lattice":  "mechanism: lattice, epsilon: 2, delta: 0.1, interval: 3m, budget: none",
		"skip": "mechanism: codebook, epsilon: 2, interval: 4m, between: skip, " +
			"budget: none",
		"median": "mechanism: codebook, epsilon: 2, interval: 4m, budget: none}\n" +
			"publish: {estimate: median",
	}
	for _, name := range []string{"codebook", "lattice", "skip", "median"} {
		release, dir := cases[name], t.TempDir()
		config, _, jsonFile, traces := smoothFiles(t, dir, release)
		report, out := filepath.Join(dir, "report.json"), filepath.Join(dir, "out.ndjson")
		text := succeed(t, "sanitize", "-c", config, "--in", traces, "--seed", "3", "--out",
			"/dev/null", "--report", report).err
		var said sanitize.Summary
		if err := json.Unmarshal([]byte(read(t, report)), &said); err != nil {
			t.Fatal(err)
		}
		if said.Past == nil || said.Unsmoothed > 0 {
			t.Fatalf("%s: %s", name, text)
		}
		for lag, got := range map[string]expect.Errors{"": said.Interval, "all": said.All} {
			args := []string{"smooth", "-c", config, "--in", jsonFile, "--out", out}
			if lag != "" {
				args = append(args, "--lag", lag)
			}
			succeed(t, args...)
			e := errorsOfRecords(t, townModel(t).Grid, out, traces)
			for i, pair := range [][2]float64{
				{got.Mean, e.Mean()}, {got.Median, e.Median()}, {got.RMS, e.RMS()},
			} {
				if d := pair[0] - pair[1]; d > 1e-6 || d < -1e-6 || got.Mean == said.Estimate.Mean {
					t.Errorf("%s, lag %q: figure %d is %g, and %g by smooth (estimate: %+v)",
						name, lag, i, pair[0], pair[1], said.Estimate)
				}
			}
		}
		if name == "median" { // other settings of the same records
			text := read(t, config)
			wrong := write(t, dir, "mean.yml", strings.Replace(text, "median", "mean", 1))
			requireMessage(t, call(t, "smooth", "-c", wrong, "--in", jsonFile, "--out", out),
				1, "do not follow", "those of the service's config")
			mode := write(t, dir, "mode.yml", strings.Replace(text, "median", "mode", 1))
			requireMessage(t, call(t, "config", "lint", "-c", mode), 2, "write mean or median")
			if p := said.Estimate; p.Median >= mean.Median || p.RMS <= mean.RMS {
				t.Errorf("the median is off by %+v, the mean by %+v", p, mean)
			}
		}
		if name == "codebook" {
			mean = said.Estimate
		}
		for _, words := range []string{"smoothed", "with all", "4 minutes", "an attacker"} {
			if name == "codebook" && !strings.Contains(text, words) {
				t.Errorf("%q is not in the summary: %s", words, text)
			}
		}
	}
}

// TestSmoothPassesOn: records without releases keep their estimates, and are counted.
func TestSmoothPassesOn(t *testing.T) {
	dir := t.TempDir()
	config, _, jsonFile, _ := smoothFiles(t, dir,
		"mechanism: codebook, epsilon: 3, interval: 4m, budget: none")
	var without strings.Builder
	for line := range strings.Lines(read(t, jsonFile)) {
		head, _, _ := strings.Cut(line, `,"release_latitude"`)
		without.WriteString(strings.TrimSuffix(strings.TrimSuffix(head, "\n"), "}") + "}\n")
	}
	in, out := write(t, dir, "without.ndjson", without.String()), filepath.Join(dir, "out.ndjson")
	said := succeed(t, "smooth", "-c", config, "--in", in, "--out", out)
	if !strings.Contains(said.err, "unsmoothed: no release in the record") {
		t.Errorf("the summary says %s", said.err)
	}
	for i, r := range decoded(t, read(t, out))[:20] {
		if !schemas.HasNote(r.Mechanism, schemas.Unsmoothed) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}

// TestSmoothModels: records of a second model are smoothed with its file, and without it they keep
// their estimates and the summary names the model.
func TestSmoothModels(t *testing.T) {
	dir := t.TempDir()
	townVersions(t, dir)
	sanitized, _ := changedTown(t, dir, "second.avro", "budget: none")
	second, err := mobility.ReadModelFile(filepath.Join(dir, "second.avro"))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"smooth", "--model", filepath.Join(dir, "model.avro"), "--lag", "1m", "--in", sanitized,
		"--out", filepath.Join(dir, "out.csv"),
	}
	said := succeed(t, args...)
	if want := fmt.Sprintf("unsmoothed: model not given (%.16s); add its file with --model",
		second.ID()); !strings.Contains(said.err, want) {
		t.Errorf("without the second model, %q is not in: %s", want, said.err)
	}
	other := filepath.Join(dir, "other.avro")
	succeed(t, townTraining(filepath.Join(dir, "traces.csv"), other, "--smoothing", "backoff=4")...)
	args[2] = other
	requireMessage(t, call(t, args...), 1, "a model is missing", "add its file with --model")
	args[2] = filepath.Join(dir, "model.avro")
	args = append(args, "--model", filepath.Join(dir, "second.avro"))
	if said := succeed(t, args...); strings.Contains(said.err, "unsmoothed") {
		t.Errorf("with both models: %s", said.err)
	}
}

// TestSmoothCutFile: a file that begins behind each user's first release is one with records that
// cannot be followed, and not one of other settings.
func TestSmoothCutFile(t *testing.T) {
	dir := t.TempDir()
	config, _, jsonFile, _ := smoothFiles(t, dir,
		"mechanism: codebook, epsilon: 3, interval: 4m, budget: none")
	var rest strings.Builder
	released := map[string]bool{}
	lines := strings.SplitAfter(strings.TrimSpace(read(t, jsonFile)), "\n")
	for i, r := range decoded(t, read(t, jsonFile)) {
		if released[r.UserID] {
			rest.WriteString(lines[i])
		}
		released[r.UserID] = released[r.UserID] || r.Kind == schemas.KindReleased
	}
	in := write(t, dir, "rest.ndjson", rest.String())
	said := succeed(t, "smooth", "-c", config, "--in", in, "--out", filepath.Join(dir, "out.csv"))
	if !strings.Contains(said.err, "unsmoothed: cannot be followed") {
		t.Errorf("the summary says %s", said.err)
	}
}

// TestSmoothRefuses what it cannot use, and leaves no file.
func TestSmoothRefuses(t *testing.T) {
	dir := t.TempDir()
	config, csvFile, _, _ := smoothFiles(t, dir,
		"mechanism: codebook, epsilon: 3, interval: 4m, budget: none")
	other := t.TempDir()
	out := filepath.Join(other, "out.csv")
	for _, c := range []struct {
		code  int
		args  []string
		words []string
	}{
		{2, []string{"--in", csvFile}, []string{"--model", "-c"}},
		{2, []string{"-c", config}, []string{"--in"}},
		{2, []string{"--model", filepath.Join(dir, "model.avro"), "--in", csvFile}, []string{
			"--lag", "all",
		}},
		{2, []string{"-c", config, "--in", csvFile, "--lag", "soon"}, []string{"--lag", "10m"}},
		{2, []string{"-c", config, "--in", csvFile, "--lag", "90s"}, []string{
			"lag", "1m0s or 2m0s",
		}},
		{2, []string{"-c", config, "--in", "-", "--in", "-"}, []string{"standard input"}},
		{2, []string{"-c", config, "--in", csvFile, "--out", csvFile}, []string{"is an input"}},
		{1, []string{"-c", config, "--in", filepath.Join(dir, "traces.csv")}, []string{
			"there is no column",
		}},
	} {
		args := append([]string{"smooth", "--out", out}, c.args...)
		requireMessage(t, call(t, args...), c.code, c.words...)
	}
	requireMessage(t, call(t, "smooth", "-c", config), cli.ExitUsage, "--in", "standard input")
	if left := names(t, other); len(left) != 0 {
		t.Errorf("failures left files behind: %v", left)
	}
}

// TestSmoothGained: the summary has the median radius before and after, and a warning where that is
// hardly less. Without a smoothed record it says nothing.
func TestSmoothGained(t *testing.T) {
	for _, c := range []struct {
		before, after []float64
		want          string
	}{
		{nil, nil, ""},
		{
			[]float64{900, 500, 700},
			[]float64{300, 400, 900},
			"median radius: 700 m before, 400 m smoothed\n",
		},
		{[]float64{700}, []float64{680}, "median radius: 700 m before, 680 m smoothed\nWARNING"},
	} {
		s := &smoothing{before: radii{}, after: radii{}}
		for i := range c.before {
			s.before.add(c.before[i])
			s.after.add(c.after[i])
		}
		got := s.gained()
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "WARNING") !=
			strings.Contains(c.want, "WARNING") || c.want == "" && got != "" {
			t.Errorf("%v to %v: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}
