package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// zoneRows reads the sums of one run as CSV.
func zoneRows(t *testing.T, text string) (header []string, rows [][]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(all) < 2 {
		t.Fatalf("%v, %d lines", err, len(all))
	}
	return all[0], all[1:]
}

// sumOfColumn adds up a column by windows.
func sumOfColumn(t *testing.T, text, column string) map[string]float64 {
	t.Helper()
	header, rows := zoneRows(t, text)
	at, sums := slices.Index(header, column), map[string]float64{}
	for _, row := range rows {
		x, err := strconv.ParseFloat(row[at], 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[row[0]] += x
	}
	return sums
}

// byZone returns the column posterior by window and zone.
func byZone(t *testing.T, text string) map[string]float64 {
	t.Helper()
	_, rows := zoneRows(t, text)
	all := map[string]float64{}
	for _, row := range rows {
		x, err := strconv.ParseFloat(row[5], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[row[0]+" "+row[2]] = x
	}
	return all
}

// near says whether sums are the same up to rounding.
func near(a, b map[string]float64) bool {
	for key, x := range a {
		if y, ok := b[key]; !ok || math.Abs(x-y) > 1e-4 {
			return false
		}
	}
	return len(a) == len(b)
}

// readerConfig writes as much of a service's config as a reader needs: the line that names its
// models, and its settings of release.
func readerConfig(t *testing.T, dir, models, release string) (path string) {
	t.Helper()
	return write(t, dir, "reader.yml", models+"\nrelease: {"+release+"}\n")
}

// TestAggregateFiles: CSV and JSON lines, plain and in two files that are merged, tell the same
// sums; every record is followed, whatever the settings of release; each window has its six
// vehicles once.
func TestAggregateFiles(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	const none = "" // of a config
	for name, c := range map[string]struct {
		flags   []string
		release string
		publish string
	}{
		"plain": {nil, none, none},
		"flags": {
			[]string{"--mechanism", "knorm", "--interval", "3m"},
			"interval: 3m, budget: none", none,
		},
		"interval": {nil, "interval: 3m, budget: none", none},
		"laplace": {
			[]string{"--mechanism", "laplace-tight"}, "budget: none", none,
		},
		"skip": {nil, "interval: 2m, between: skip, budget: none", none},
		"budget": {
			nil, "budget: {epsilon: 8, window: 20m}", none,
		},
		"anonymous": {
			[]string{"--mechanism", "pim"}, none, "{timestamp: step, user: pseudonym}",
		},
	} {
		settings := slices.Concat(c.flags,
			withConfig(t, "release: {"+c.release+"}", "publish: "+c.publish))
		csvFile, jsonFile := filepath.Join(dir, name+".csv"), filepath.Join(dir, name+".ndjson")
		succeed(t, sanitizeArgs(traces, model,
			append(settings, "--seed", "3", "--out", csvFile)...)...)
		succeed(t, sanitizeArgs(traces, model,
			append(settings, "--seed", "3", "--out", jsonFile)...)...)
		args := []string{"aggregate", "--model", model, "--window", "10m"}
		if c.release != none {
			args = []string{
				"aggregate", "-c", readerConfig(t, dir, "model: "+model, c.release),
				"--window", "10m",
			}
		}
		first := succeed(t, append(args, "--in", csvFile)...)
		if !strings.Contains(first.err, "followed    all") {
			t.Errorf("%s: not every record is followed:\n%s", name, first.err)
		}
		for window, sum := range sumOfColumn(t, first.out, "posterior") {
			if sum < 5.99 || sum > 6.01 {
				t.Errorf("%s: %g vehicles in the window from %s", name, sum, window)
			}
		}
		if again := succeed(t, append(args, "--in", csvFile)...); again.out != first.out {
			t.Errorf("%s: another run says something else", name)
		}
		one, other := halves(t, read(t, jsonFile))
		half, rest := write(t, dir, name+"-1.ndjson", one), write(t, dir, name+"-2.ndjson", other)
		apart := succeed(t, append(args, "--in", half, rest)...)
		if a, b := byZone(t, first.out), byZone(t, apart.out); !near(a, b) {
			t.Errorf("%s: two files of JSON lines say %v, one of CSV %v", name, b, a)
		}
	}
}

// halves parts JSON lines into those of the user with the greatest name, and the others.
func halves(t *testing.T, text string) (last, others string) {
	t.Helper()
	records, greatest := decoded(t, text), ""
	for _, r := range records {
		greatest = max(greatest, r.UserID)
	}
	for i, line := range slices.Collect(strings.Lines(text)) {
		if records[i].UserID == greatest {
			last += line
		} else {
			others += line
		}
	}
	return last, others
}

// TestAggregateOutputs: the formats say the same, and the squares tile the map.
func TestAggregateOutputs(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	sanitized := filepath.Join(dir, "sanitized.csv")
	succeed(t, sanitizeArgs(traces, model, "--seed", "1", "--out", sanitized)...)
	args := []string{
		"aggregate", "--model", model, "--in", sanitized, "--window", "10m", "--zone", "1km",
	}
	header, rows := zoneRows(t, succeed(t, args...).out)
	if !slices.Equal(header, zoneHeader) {
		t.Errorf("the columns are %v", header)
	}
	in := func(format string) string {
		path := filepath.Join(dir, "density."+format)
		succeed(t, append(args, "--out", path)...)
		return read(t, path)
	}
	lines := strings.Split(strings.TrimSpace(in("ndjson")), "\n")
	var geo struct {
		Features []struct {
			Geometry   *struct{ Coordinates [][][2]float64 }
			Properties map[string]any
		}
	}
	if err := json.Unmarshal([]byte(in("geojson")), &geo); err != nil {
		t.Fatal(err)
	}
	if len(lines) != len(rows) || len(geo.Features) != len(rows) {
		t.Fatalf("%d rows, %d lines, %d features", len(rows), len(lines), len(geo.Features))
	}
	packed := in("parquet")
	columns, err := parquet.Read[struct {
		WindowStart int64   `parquet:"window_start,timestamp(millisecond:utc)"`
		Posterior   float64 `parquet:"posterior"`
		Geometry    []byte  `parquet:"geometry,optional"`
	}](strings.NewReader(packed), int64(len(packed)))
	if err != nil || len(columns) != len(rows) {
		t.Fatalf("%d rows in Parquet: %v", len(columns), err)
	}
	for i, row := range rows {
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		shape := 93
		if row[2] == "elsewhere" {
			shape = 0
		}
		if p := columns[i]; files.Number(p.Posterior) != row[5] || len(p.Geometry) != shape ||
			files.Time(p.WindowStart) != row[0] {
			t.Fatalf("row %d is %v, and in Parquet %+v", i, row, p)
		}
		if p := geo.Features[i].Properties; files.Number(line["posterior"].(float64)) != row[5] ||
			files.Number(p["posterior"].(float64)) != row[5] || p["window_start"] != row[0] ||
			p["zone"] != row[2] || line["zone"] != row[2] {
			t.Fatalf("row %d is %v, the line %v, the feature %v", i, row, line, p)
		}
		if shape == 0 {
			if line["latitude"] != nil || row[3] != "" || geo.Features[i].Geometry != nil {
				t.Errorf("elsewhere has a place: %v, %v", row, line)
			}
			continue
		}
		ring := geo.Features[i].Geometry.Coordinates[0]
		if len(ring) != 5 || ring[0] != ring[4] || !(ring[1][0] > ring[0][0]) ||
			!(ring[2][1] > ring[1][1]) {
			t.Fatalf("the polygon %v is not a counterclockwise box", ring)
		}
	}
}

// TestAggregateTopic takes traces through Kafka: produce, run, aggregate with the service's own
// config, and without its key. It says what sanitize and aggregate say of files.
func TestAggregateTopic(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	traces, model := townFiles(t, dir)
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "3", "--in", traces)
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true}
encoding: {raw: avro, sanitized: avro}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: lattice, epsilon: 2, delta: 0.02, interval: 2m, budget: none}
`, broker))
	sanitized := filepath.Join(dir, "sanitized.csv")
	succeed(t, "sanitize", "--in", traces, "-c", config, "--key-file", key, "--out", sanitized)
	served(t, config, broker, strings.Count(read(t, sanitized), "\n")-1)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	fromTopic := succeed(t, "aggregate", "-c", config, "--window", "10m")
	reader := readerConfig(t, dir, "model: "+model, "interval: 2m, budget: none")
	fromFile := succeed(t, "aggregate", "-c", reader, "--in", sanitized, "--window", "10m")
	if !strings.Contains(fromTopic.err, "followed    all") {
		t.Errorf("not every record of the topic is followed:\n%s", fromTopic.err)
	}
	if a, b := byZone(t, fromTopic.out), byZone(t, fromFile.out); !near(a, b) {
		t.Errorf("the topic says %v, the file %v", a, b)
	}
	other := readerConfig(t, dir, "model: "+model,
		"epsilon: 3, interval: 2m, budget: none")
	requireMessage(t, call(t, "aggregate", "-c", other, "--in", sanitized, "--window", "10m"),
		cli.ExitFailed, "ε = 2", "the settings say 3", "leave release.epsilon out")
	raw := write(t, dir, "raw.yml",
		fmt.Sprintf("{brokers: [%q], topics: {sanitized: raw}, model: model.avro}", broker))
	requireMessage(t, call(t, "aggregate", "-c", raw), cli.ExitFailed, "is this a sanitized topic")
}

// served runs a service until its topic out has so many records.
func served(t *testing.T, config, broker string, records int) {
	t.Helper()
	service := start(t, nil, "run", "-c", config)
	eventually(t, "every record", func() bool {
		return strings.Count(call(t, "consume", "--brokers", broker, "--topic", "out").out,
			"\n") >= records
	})
	if code := service.stop(t); code != cli.ExitDone {
		t.Fatalf("the service ended with %d\n%s", code, service.log)
	}
}

// withoutReleases empties the columns of releases, as "publish.release: false" leaves them.
func withoutReleases(t *testing.T, text string) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for j, column := range rows[0] {
		for i := 1; i < len(rows) && strings.HasPrefix(column, "release_"); i++ {
			rows[i][j] = ""
		}
	}
	var out strings.Builder
	if err := csv.NewWriter(&out).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAggregateRefuses gives what cannot be aggregated.
func TestAggregateRefuses(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	sanitized := filepath.Join(dir, "sanitized.csv")
	succeed(t, sanitizeArgs(traces, model, "--seed", "1", "--out", sanitized)...)
	text := read(t, sanitized)
	lines := strings.SplitAfter(text, "\n")
	other := filepath.Join(dir, "other.avro")
	succeed(t, "train", "--in", traces, "--box", servicetest.TownBox, "--cell", "400m",
		"--step", servicetest.TownStep, "--out", other)
	file := func(name, text string) string { return write(t, dir, name, text) }
	before := len(names(t, dir)) + 10 // the files below
	args := func(in string, more ...string) []string {
		return append([]string{"aggregate", "--model", model, "--in", in}, more...)
	}
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"aggregate"}, cli.ExitUsage, []string{"--model", "-c"}},
		{[]string{"aggregate", "--model", model}, cli.ExitUsage, []string{"--in", "-c"}},
		{args(sanitized, "--window", "90s"), cli.ExitUsage, []string{
			"no multiple of the step",
		}},
		{args(sanitized, "--window", "0s"), cli.ExitUsage, []string{"not positive"}},
		{args(sanitized, "--zone", "12"), cli.ExitUsage, []string{"no unit"}},
		{args(sanitized, "--out", "x.xml"), cli.ExitUsage, []string{".csv, .ndjson"}},
		{args(sanitized, "--out", sanitized), cli.ExitUsage, []string{"input too"}},
		{args("-", "--in", "-"), cli.ExitUsage, []string{"named twice"}},
		{args(filepath.Join(dir, "gone")), cli.ExitFailed, []string{"no such file"}},
		{args(dir), cli.ExitFailed, []string{"is a folder"}},
		{args(file("empty.csv", "")), cli.ExitFailed, []string{"empty"}},
		{args(file("header.csv", lines[0])), cli.ExitFailed, []string{"no record"}},
		{args(traces), cli.ExitFailed, []string{"no column", "sanitized records"}},
		{args(file("cut.csv", text[:len(text)-40])), cli.ExitFailed, []string{"cut.csv:"}},
		{
			args(file("bad.csv", lines[0]+strings.Replace(lines[1], "2023", "once", 1))),
			cli.ExitFailed,
			[]string{"bad.csv:2", "column timestamp"},
		},
		{
			args(file("nan.csv", lines[0]+strings.Replace(lines[1], ",2.0,0.02", ",NaN,0.02", 1))),
			cli.ExitFailed,
			[]string{"nan.csv:2", "column epsilon"},
		},
		{args(file("bad.ndjson", "{\"user_id\":3}\n")), cli.ExitFailed, []string{
			"bad.ndjson:1", "no sanitized record",
		}},
		{args(file("twice.csv", text+strings.Join(lines[1:], ""))), cli.ExitFailed, []string{
			"twice.csv:", "each once",
		}},
		{
			args(file("kind.csv", lines[0]+strings.Replace(lines[1], "released", "guessed", 1))),
			cli.ExitFailed,
			[]string{"kind.csv:2", "a newer one"},
		},
		{
			args(file("estimates.csv", withoutReleases(t, text))), cli.ExitFailed,
			[]string{"estimates.csv:2", "does not have its release", "publish.release: true"},
		},
		{
			args(sanitized, withConfig(t, "release: {epsilon: 1, budget: none}")...),
			cli.ExitFailed,
			[]string{"ε = 2", "leave release.epsilon out"},
		},
		{
			args(sanitized, withConfig(t,
				"release: {mechanism: lattice, delta: .5, budget: none}")...), cli.ExitFailed,
			[]string{"δ = 0.02", "leave release.delta out"},
		},
		{
			args(sanitized, withConfig(t, "release: {mechanism: pim, budget: none}")...),
			cli.ExitFailed,
			[]string{"lattice", "leave release.mechanism out"},
		},
		{[]string{"aggregate", "--model", other, "--in", sanitized}, cli.ExitFailed, []string{
			"under the model", "add its file with --model",
		}},
		{[]string{"aggregate", "-c", filepath.Join(dir, "gone.yml")}, cli.ExitFailed, []string{
			"gone.yml",
		}},
		{[]string{"aggregate", "-c", write(t, t.TempDir(), "geodither.yml",
			"models: schedule.yml\nrelease: {budget: none}\n")}, cli.ExitFailed, []string{
			"models:", "schedule.yml",
		}},
		{args(sanitized, "--from", "noon"), cli.ExitUsage, []string{
			"--from", "2026-11-21T08:00:00Z, or a day",
		}},
		{
			args(sanitized, "--from", "2023-11-14T23:00:00Z", "--to", "2023-11-14T22:00:00Z"),
			cli.ExitUsage,
			[]string{"is an empty range"},
		},
	} {
		t.Run(strings.Join(c.args[1:], " "), func(t *testing.T) {
			if !slices.Contains(c.args, "--out") {
				c.args = append(c.args, "--out", filepath.Join(dir, "out.csv"))
			}
			requireMessage(t, call(t, c.args...), c.code, c.words...)
		})
	}
	if after := len(names(t, dir)); after > before || slices.Contains(names(t, dir), "out.csv") {
		t.Errorf("failures left files behind: %v", names(t, dir))
	}
}
