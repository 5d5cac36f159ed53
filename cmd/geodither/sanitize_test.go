package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// sanitizeArgs are those of a run on the town's files.
func sanitizeArgs(traces, model string, more ...string) []string {
	return append(
		[]string{
			"sanitize", "--in", traces, "--model", model, "--epsilon", "2",
			"--delta", "0.02", "--mechanism", "lattice",
		},
		more...)
}

// sanitizeTo runs sanitize into a file of a format, and returns what it said and the file.
func sanitizeTo(t *testing.T, format string, args ...string) (result, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out."+format)
	r := succeed(t, append(args, "--out", path)...)
	return r, read(t, path)
}

// decoded decodes JSON lines.
func decoded(t *testing.T, lines string) []schemas.Sanitized {
	t.Helper()
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var all []schemas.Sanitized
	for line := range strings.Lines(lines) {
		var shown struct{ Timestamp time.Time } // it must be text
		if err := json.Unmarshal([]byte(line), &shown); err != nil {
			t.Fatal(err)
		}
		r, err := codec.DecodeSanitized([]byte(line))
		if err != nil || r.Timestamp != shown.Timestamp.UnixMilli() {
			t.Fatalf("%s: read %+v, %v", line, r, err)
		}
		all = append(all, r)
	}
	return all
}

// record decodes one JSON object.
func record(t *testing.T, line string) schemas.Sanitized {
	t.Helper()
	return decoded(t, line)[0]
}

// TestSanitizeBudget: each run has a budget of its own, and says that.
func TestSanitizeBudget(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	const words = "WARNING: the budget holds within this run"
	for budget, want := range map[string]int{
		"{epsilon: 4, window: 24h}": 1, "{lifetime: 4}": 1, "none": 0,
	} {
		path := write(t, dir, "geodither.yml", "model: "+model+"\nrelease: {mechanism: codebook, "+
			"epsilon: 2, budget: "+budget+"}\n")
		spent := map[string]float64{}
		for range 2 { // as of two files of one day
			r, out := sanitizeTo(t, "ndjson", "sanitize", "-c", path, "--in", traces)
			if n := strings.Count(r.err, words); n != want {
				t.Errorf("a budget %s: %d warnings in\n%s", budget, n, r.err)
			}
			for _, record := range decoded(t, out) {
				spent[record.UserID] += record.Epsilon
			}
		}
		most := 0.0
		for _, epsilon := range spent {
			most = max(most, epsilon)
		}
		if want > 0 && most != 8 {
			t.Errorf("a budget %s: two runs spent %g on a user", budget, most)
		}
	}
}

// TestSanitizeIsTheEngine holds the command's records against the engine's own
// code, field by field.
func TestSanitizeIsTheEngine(t *testing.T) {
	dir := t.TempDir()
	traces, path := townFiles(t, dir)
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		law.PIM, law.KNorm, law.LaplaceTight, law.Laplace, law.Lattice,
	} {
		t.Run(name, func(t *testing.T) {
			o := mechanism.Options{Mechanism: name, Epsilon: 2, Delta: .02}
			releases, err := engine.New(
				engine.Settings{Model: model, Key: noise.KeyFromSeed(5), Release: o})
			if err != nil {
				t.Fatal(err)
			}
			said, lines := sanitizeTo(t, "json", sanitizeArgs(traces, path, "--seed", "5",
				"--mechanism", name)...)
			experiment := !(law.Options{Name: name}).Exact()
			if strings.Contains(said.err, "is for experiments: no proof covers") != experiment {
				t.Errorf("an experiment: %t, in\n%s", experiment, said.err)
			}
			if experiment {
				releases.Note(schemas.Unproved)
			}
			got := decoded(t, lines)
			if len(got) != len(servicetest.TownFixes()) {
				t.Fatalf("%d records of %d fixes", len(got), len(servicetest.TownFixes()))
			}
			requireReleased(t, releases, servicetest.TownFixes(), got)
			for i := range got {
				if schemas.MechanismName(got[i].Mechanism) != name ||
					schemas.HasNote(got[i].Mechanism, schemas.Unproved) != experiment ||
					got[i].ModelID != model.ID() {
					t.Fatalf("record %d names mechanism %s and model %s",
						i, got[i].Mechanism, got[i].ModelID)
				}
			}
		})
	}
}

// requireReleased requires that the engine, which has released nothing yet, makes these records of
// the fixes.
func requireReleased(
	t *testing.T, releases *engine.Engine, fixes []schemas.Raw, got []schemas.Sanitized,
) {
	t.Helper()
	states := map[string]*mechanism.State{}
	for i, fix := range fixes {
		if states[fix.UserID] == nil {
			states[fix.UserID] = new(mechanism.State)
		}
		want, err := releases.Sanitize(fix, states[fix.UserID])
		if err != nil {
			t.Fatal(err)
		}
		if got[i] != want.Record {
			t.Fatalf("record %d is %+v, the engine's %+v", i, got[i], want.Record)
		}
	}
}

// TestSanitizeSeeds: the same seed or key gives the same bytes, another one or
// none gives others.
func TestSanitizeSeeds(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	// is the service's, and must not replace what is named
	t.Setenv(files.KeyVariable, noise.KeyFromSeed(1).Reveal())
	seed := func(more ...string) string {
		return succeed(t, sanitizeArgs(traces, model, more...)...).out
	}
	one := seed("--seed", "1")
	if again := seed("--seed", "1"); again != one {
		t.Error("the same seed gives other bytes")
	}
	keyed := seed("--key-file", key)
	if again := seed("--key-file", key); again != keyed {
		t.Error("the same key gives other bytes")
	}
	for name, other := range map[string]string{
		"another seed": seed("--seed", "2"), "seed 0": seed("--seed", "0"), "a key": keyed,
		"a fresh key": seed(), "another fresh key": seed(),
		"another mechanism": seed("--seed", "1", "--mechanism", "laplace"),
	} {
		if other == one {
			t.Errorf("%s gives the bytes of seed 1", name)
		}
	}
	if seed() == seed() {
		t.Error("two fresh keys give the same bytes")
	}
	if strings.Contains(keyed, strings.TrimSpace(read(t, key))) {
		t.Error("the output holds the key")
	}
}

// TestSanitizeFormats parses the three formats of one run and holds CSV and
// GeoJSON against JSON.
func TestSanitizeFormats(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	in := func(format string) string {
		args := sanitizeArgs(traces, model, "--seed", "1")
		r, text := sanitizeTo(t, format, args...)
		if r.out != "" {
			t.Errorf("%s: standard output gets %q", format, r.out)
		}
		if format == "csv" && succeed(t, args...).out != text {
			t.Error("the file is not what standard output gets")
		}
		return text
	}
	want := decoded(t, in("json"))
	requireCSV(t, in("csv"), want)
	requireGeoJSON(t, in("geojson"), want)
}

const sanitizedHeader = "user_id,timestamp,latitude,longitude,radius_m," +
	"sigma_major_m,sigma_minor_m,azimuth_deg,kind,epsilon,delta,mechanism,model_id,step,release," +
	"release_latitude,release_longitude"

func requireCSV(t *testing.T, text string, want []schemas.Sanitized) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(want)+1 || strings.Join(rows[0], ",") != sanitizedHeader {
		t.Fatalf("%d rows under %v, want %d", len(rows)-1, rows[0], len(want))
	}
	for i, r := range want {
		cells := []string{
			r.UserID, files.Time(r.Timestamp),
			fmt.Sprintf("%.7f", r.Latitude), fmt.Sprintf("%.7f", r.Longitude),
			fmt.Sprintf("%.1f", r.RadiusM), fmt.Sprintf("%.1f", r.SigmaMajorM.Number),
			fmt.Sprintf("%.1f", r.SigmaMinorM.Number), fmt.Sprintf("%.1f", r.AzimuthDeg.Number),
			r.Kind, files.Number(r.Epsilon), files.Number(r.Delta),
			r.Mechanism, r.ModelID, fmt.Sprint(r.Step), fmt.Sprint(r.Release),
			fmt.Sprintf("%.7f", r.ReleaseLatitude.Number),
			fmt.Sprintf("%.7f", r.ReleaseLongitude.Number),
		}
		if r.AzimuthDeg.Number >= 179.95 { // 180 is no azimuth, and the same as 0
			cells[7] = "0.0"
		}
		if r.Kind == schemas.KindPredicted {
			cells[15], cells[16] = "", ""
		}
		if !slices.Equal(rows[i+1], cells) {
			t.Fatalf("row %d is %v, want %v", i+1, rows[i+1], cells)
		}
	}
}

func requireGeoJSON(t *testing.T, text string, want []schemas.Sanitized) {
	t.Helper()
	var collection struct {
		Type     string
		Features []struct {
			Type     string
			Geometry struct {
				Type        string
				Coordinates []float64
			}
			Properties json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(text), &collection); err != nil {
		t.Fatal(err)
	}
	if collection.Type != "FeatureCollection" || len(collection.Features) != len(want) {
		t.Fatalf("a %s of %d features, want %d",
			collection.Type, len(collection.Features), len(want))
	}
	for i, f := range collection.Features {
		r := want[i]
		if f.Type != "Feature" || f.Geometry.Type != "Point" ||
			record(t, string(f.Properties)) != r ||
			!slices.Equal(f.Geometry.Coordinates, []float64{r.Longitude, r.Latitude}) {
			t.Fatalf("feature %d is %+v, want a point of %+v", i, f, r)
		}
	}
}

// TestSanitizeNothing: an export without a fix still gives a complete file, and no errors of
// nothing. A file of which nothing can be read is an error, and leaves no file.
func TestSanitizeNothing(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	empty, report := write(t, dir, "empty.csv", "user_id,timestamp,latitude,longitude\n"),
		filepath.Join(dir, "report.json")
	_, features := sanitizeTo(t, "geojson", sanitizeArgs(empty, model, "--report", report)...)
	requireGeoJSON(t, features, nil)
	requireCSV(t, succeed(t, sanitizeArgs(empty, model)...).out, nil)
	if _, out := sanitizeTo(t, "ndjson", sanitizeArgs(empty, model)...); out != "" {
		t.Errorf("JSON lines of nothing are %q", out)
	}
	if !json.Valid([]byte(read(t, report))) {
		t.Errorf("the report of nothing is no JSON: %s", read(t, report))
	}
	if said := succeed(t, sanitizeArgs(empty, model)...).err; strings.Contains(said, " 0 m") {
		t.Errorf("it measured the errors of nothing: %s", said)
	}
	out := filepath.Join(dir, "out.csv")
	r := call(t, sanitizeArgs(write(t, dir, "seconds.csv",
		"user_id,timestamp,latitude,longitude\nu,1700000000,1,2\nu,x,1,2\nu,1700000001,1,2\n"),
		model, "--out", out, "--report", out+".json")...)
	requireMessage(t, r, cli.ExitFailed, "nothing could be read: 3 lines skipped: "+
		"2 timestamp_in_seconds, 1 bad_timestamp", "write milliseconds or RFC 3339")
	if strings.Contains(r.err, "fixes of") {
		t.Errorf("it printed a summary of nothing: %s", r.err)
	}
	if r := call(t, sanitizeArgs(filepath.Join(dir, "seconds.csv"), model)...); r.out != "" {
		t.Errorf("it wrote %q on standard output", r.out)
	}
	for _, path := range []string{out, out + ".json"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of nothing: %v", path, err)
		}
	}
}

// TestSanitizeWarnsOfADay as run does: once, where Σε of a day is above 20.
func TestSanitizeWarnsOfADay(t *testing.T) {
	traces, model := townFiles(t, t.TempDir())
	args := func(interval string) []string {
		return []string{
			"sanitize", "--in", traces, "--model", model, "--epsilon", "4", "--interval", interval,
		}
	}
	const high = "WARNING: a user's releases of a day add up to at most ε = 580."
	if said := succeed(t, args("10m")...).err; strings.Count(said, high) != 1 ||
		!strings.Contains(said, "More than 20 a") ||
		!strings.Contains(said, "A user's releases add up to ") ||
		!strings.Contains(said, "--interval") || strings.Contains(said, "release.") {
		t.Errorf("at 580 a day it says: %s", said)
	}
	if said := succeed(t, args("6h")...).err; strings.Contains(said, "releases of a day") {
		t.Errorf("at 20 a day it says: %s", said)
	}
}

// TestSanitizeInputs reads the same fixes from every kind of place.
func TestSanitizeInputs(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	fixes := servicetest.TownFixes()
	want := succeed(t, sanitizeArgs(traces, model, "--seed", "1")...).out
	write(t, dir, "folder/a.csv", servicetest.TownCSV(fixes[:100]))
	write(t, dir, "folder/b.csv.gz", packed(t, servicetest.TownCSV(fixes[100:])))
	for name, got := range map[string]result{
		"folder": call(t, sanitizeArgs(filepath.Join(dir, "folder"),
			model, "--seed", "1")...),
		"gzip": call(t, sanitizeArgs(
			write(t, dir, "t.gz", packed(t, servicetest.TownCSV(fixes))), model, "--seed", "1")...),
		"ndjson": call(t, sanitizeArgs(write(t, dir, "t.ndjson", asNDJSON(fixes)),
			model, "--seed", "1")...),
		"standard input": callWith(t, servicetest.TownCSV(fixes),
			sanitizeArgs("-", model, "--seed", "1")...),
	} {
		if got.code != cli.ExitDone || got.out != want {
			t.Errorf("%s: exit %d, and other records than from one CSV file: %s",
				name, got.code, got.err)
		}
	}
	cut := write(t, dir, "cut.gz", packed(t, servicetest.TownCSV(fixes))[:200])
	requireMessage(t, call(t, sanitizeArgs(cut, model, "--out", filepath.Join(dir, "out"))...),
		cli.ExitFailed, "cut.gz", "cut short")
	if slices.ContainsFunc(names(t, dir), func(name string) bool {
		return strings.HasPrefix(name, "out")
	}) {
		t.Errorf("a failed run left output behind: %v", names(t, dir))
	}
}

// TestSanitizeReport counts on an input with a late fix, a bad line and a fix
// outside the map.
func TestSanitizeReport(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	fixes := servicetest.TownFixes()
	text := servicetest.TownCSV(fixes) + fmt.Sprintf("0,%d,10.01,20.01\n", fixes[0].Timestamp) +
		"0,junk,10,20\n" +
		fmt.Sprintf("0,%d,11,21\n", fixes[len(fixes)-1].Timestamp+60_000)
	traces = write(t, dir, filepath.Base(traces), text)
	path := filepath.Join(dir, "report.json")
	r, lines := sanitizeTo(t, "json",
		sanitizeArgs(traces, model, "--seed", "1", "--report", path)...)
	var report sanitize.Summary
	if err := json.Unmarshal([]byte(read(t, path)), &report); err != nil {
		t.Fatal(err)
	}
	got := decoded(t, lines)
	releases, spent := int64(0), 0.0
	for _, r := range got {
		spent += r.Epsilon
		if r.Epsilon > 0 {
			releases++
		}
	}
	if len(got) != len(fixes) || report.Fixes != int64(len(fixes)+2) || report.Late != 1 ||
		report.SkippedLines != 1 || report.OutsideMap != 1 {
		t.Errorf("%d records and report %+v", len(got), report)
	}
	if report.Releases != releases || report.Users != 6 || report.EpsilonPerUser != spent/6 ||
		report.Epsilon != 2 || report.Delta != .02 {
		t.Errorf("%d releases, ε %g in all; the report says %+v", releases, spent, report)
	}
	if report.LocationSetMean < 1 || report.Release.RMS <= 0 || report.Estimate.Median <= 0 ||
		report.Blind.Mean <= 0 {
		t.Errorf("nothing was measured: %+v", report)
	}
	for _, word := range []string{
		"1 late", "1 outside the map", "1 line skipped", "traces.csv:", "estimate", "model alone",
	} {
		if !strings.Contains(r.err, word) {
			t.Errorf("the summary does not say %q:\n%s", word, r.err)
		}
	}
	if strings.Contains(r.err, "junk") {
		t.Errorf("the summary repeats input: %s", r.err)
	}
	r = call(t, sanitizeArgs(traces, model, "--out", filepath.Join(dir, "out"), "--report", dir)...)
	if r.code != cli.ExitFailed || !strings.Contains(r.err,
		"the records are written, but not the report") {
		t.Errorf("a report that cannot be written: exit %d, %s", r.code, r.err)
	}
}

// TestSanitizeRefuses what the service refuses, counts it by reason, and guesses that
// latitude and longitude are swapped where that would put the fixes on the map.
func TestSanitizeRefuses(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	last := servicetest.TownFixes()[len(servicetest.TownFixes())-1].Timestamp
	rows := []string{
		fmt.Sprintf("0,%d,0,0", last+60_000),
		"1,315964800000,10.01,20.01",
		fmt.Sprintf("2,%d,20.01,10.01", last+60_000),
		fmt.Sprintf("3,%d,20.02,10.01", last+60_000),
	}
	traces := write(t, dir, "odd.csv",
		servicetest.TownCSV(servicetest.TownFixes())+strings.Join(rows, "\n")+"\n")
	path := filepath.Join(dir, "report.json")
	for outside, refused := range map[string]map[schemas.Reason]int64{
		"dead_letter": {
			schemas.ReasonNullIsland: 1, schemas.ReasonOutsideMap: 2,
		},
		"clamp": {schemas.ReasonNullIsland: 1},
	} {
		r, lines := sanitizeTo(t, "json", sanitizeArgs(traces, model,
			append(withConfig(t, "input: {outside: "+outside+"}"), "--seed", "1",
				"--report", path)...)...)
		var report sanitize.Summary
		if err := json.Unmarshal([]byte(read(t, path)), &report); err != nil {
			t.Fatal(err)
		}
		clamped := 2 - refused[schemas.ReasonOutsideMap]
		if !maps.Equal(report.Refused, refused) || report.OutsideMap != 2 ||
			report.Clamped != clamped || report.SwappedMap != 2 {
			t.Errorf("%s: the report says %+v", outside, report)
		}
		if n := len(decoded(t, lines)); n != len(servicetest.TownFixes())+int(clamped) {
			t.Errorf("%s: %d records", outside, n)
		}
		for _, part := range []string{
			"2 outside the map", "1 line skipped: 1 before_gps", "1 null_island",
			"latitude and longitude look swapped",
		} {
			if !strings.Contains(r.err, part) {
				t.Errorf("%s: the summary does not say %q:\n%s", outside, part, r.err)
			}
		}
	}
	requireMessage(t, call(t, sanitizeArgs(traces, model,
		withConfig(t, "input: {outside: keep}")...)...),
		cli.ExitUsage, "dead_letter or clamp")
}

// TestReportIsClosed: the report comes from the truth, so only its owner may
// read it, also where a file that others can read is replaced.
func TestReportIsClosed(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	fresh, open := filepath.Join(dir, "fresh.json"), write(t, dir, "open.json",
		strings.Repeat("longer than the report ", 1000))
	if err := os.Chmod(open, 0o664); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fresh, open} {
		succeed(t, sanitizeArgs(traces, model, "--report", path)...)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", filepath.Base(path), info.Mode(), err)
		}
		if !json.Valid([]byte(read(t, path))) {
			t.Errorf("%s is no JSON", filepath.Base(path))
		}
	}
	// A device has no mode to change.
	succeed(t, sanitizeArgs(traces, model, "--report", os.DevNull)...)
	requireWords(t, succeed(t, "sanitize", "--help").out, "come from the truth")
}

// TestOutputIsNoInput: an output that is one of the inputs would replace the
// traces it was made from.
func TestOutputIsNoInput(t *testing.T) {
	traces, model := townFiles(t, t.TempDir())
	before, err := os.ReadFile(traces)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{
			"sanitize", "--model", model, "--epsilon", "1",
			"--delta", "0.1", "--mechanism", "lattice", "--in", traces,
			"--out", traces,
		},
		{
			"train", "--box", "53.40,-2.99,53.47,-2.89", "--cell", "250m", "--step", "30s",
			"--in", traces, "--out", traces,
		},
	} {
		var out, log bytes.Buffer
		code := run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &log})
		if code != cli.ExitUsage || !strings.Contains(log.String(), "is an input too") {
			t.Errorf("%s: exit %d: %s", args[0], code, &log)
		}
		if after, err := os.ReadFile(traces); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s has changed its input", args[0])
		}
	}
}
