//go:build kafka

package kafkatest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/schemas"
)

// documented returns a block of code of schemas/CONSUMERS.md, by its language and a line in it.
func (o *others) documented(language, line string) string {
	o.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "schemas", "CONSUMERS.md"))
	o.ok(err)
	for _, block := range strings.Split(string(data), "```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```")
		if strings.Contains(block, line) {
			return block
		}
	}
	o.Fatalf("CONSUMERS.md has no block of %s with %q", language, line)
	return ""
}

// TestDuckDB: DuckDB reads what "consume --format parquet" writes, as GeoParquet, with the queries
// of CONSUMERS.md.
func TestDuckDB(t *testing.T) {
	w := newHarness(t).world(3, 12).others()
	o, want := w.sanitized("duckdb", schemas.Avro)
	binary, err := built()
	w.ok(err)
	dir := w.TempDir()
	file, err := os.Create(filepath.Join(dir, "fleet.parquet"))
	w.ok(err)
	cmd := exec.CommandContext(t.Context(), binary, "consume", "--brokers",
		strings.Join(w.brokers, ","), "--topic", o.Topics.Sanitized, "--format", "parquet")
	cmd.Stdout = file
	w.ok(cmd.Run())
	w.ok(file.Close())
	w.writeCounts(filepath.Join(dir, "counts.ndjson"))

	out := w.python("query.py", `SELECT user_id, epoch_ms(timestamp), latitude, longitude,
		release_latitude, typeof(geometry), hex(ST_AsWKB(geometry)), ST_AsText(geometry)
		FROM 'fleet.parquet' ORDER BY ALL;`+"\n"+
		w.documented("sql", "The last known place of each user")+
		w.documented("sql", "'counts.ndjson'"), dir)
	answers := strings.Split(strings.TrimSpace(out), "\n")
	if len(answers) != 5 {
		t.Fatalf("%d queries have an answer:\n%s", len(answers), out)
	}
	// Four zones, and half of an interval of 90 % by the normal law.
	vehicles, within := 6+7+8-9, 1.64*math.Sqrt(2*4)*10
	if due := fmt.Sprintf(`[["2026-11-21", "%d", "%v"]]`, vehicles, within); answers[4] != due {
		t.Errorf("the question about counts has the answer %s, want %s", answers[4], due)
	}
	var rows [4][][]string
	for i, answer := range answers[:len(rows)] {
		w.ok(json.Unmarshal([]byte(answer), &rows[i]))
	}
	if len(rows[0]) != len(want) {
		t.Fatalf("DuckDB reads %d rows of %d records", len(rows[0]), len(want))
	}
	spent := 0
	for i, r := range want {
		if r.Kind == schemas.KindReleased {
			spent++
		}
		release := "None"
		if r.ReleaseLatitude.Known {
			release = fmt.Sprint(r.ReleaseLatitude.Number)
		}
		place := fmt.Sprintf("%v %v", r.Longitude, r.Latitude)
		due := []string{
			r.UserID, fmt.Sprint(r.Timestamp), place, release, "GEOMETRY('OGC:CRS84')",
			"0101000000", "POINT (" + place + ")", // the bytes' order and type, a point
		}
		row := rows[0][i]
		got := []string{row[0], row[1], row[3] + " " + row[2], row[4], row[5], row[6][:10], row[7]}
		if !slices.Equal(got, due) {
			t.Fatalf("row %d is %q, want %q", i, got, due)
		}
	}
	const users = 12
	if len(rows[1]) != users || len(rows[2]) != users || len(rows[3]) != spent {
		t.Errorf("the queries of the document give %d, %d and %d rows; want %d, %d, %d",
			len(rows[1]), len(rows[2]), len(rows[3]), users, users, spent)
	}
}

// writeCounts writes some records of counts of two hours, as kcat writes them.
func (w *world) writeCounts(path string) {
	w.Helper()
	codec, err := schemas.NewCodec(schemas.JSON)
	w.ok(err)
	var lines []byte
	for _, hour := range []int{17, 18} {
		start := time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC).UnixMilli()
		for zone, vehicles := range map[string]int64{
			"17": 6, "18": 7, "25": 8, "26": -9, "27": 99,
		} {
			lines, err = codec.AppendCounts(lines, schemas.Counts{
				WindowStart: start, WindowEnd: start + time.Hour.Milliseconds(), Day: "2026-11-21",
				Zone: zone, Vehicles: vehicles, High: 99, Epsilon: 1, PerDay: 10, Edition: 1,
			})
			w.ok(err)
			lines = append(lines, '\n')
		}
	}
	w.ok(os.WriteFile(path, lines, 0o600))
}

// sql runs a query on the database of clients.sh, and returns its rows, with | between columns.
func (o *others) sql(query string) (rows []string) {
	o.Helper()
	url, err := os.ReadFile(filepath.Join(o.dir, "postgres", "url"))
	o.ok(err)
	cmd := exec.CommandContext(o.Context(), "psql", "-XAt", "-v", "ON_ERROR_STOP=1", "-c", query,
		strings.TrimSpace(string(url)))
	out, err := cmd.Output()
	if err != nil {
		return nil // the sink has not made the table yet
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// composeDir is the folder of what docker-compose.yml runs.
var composeDir = filepath.Join("..", "..", "..", "deploy", "compose")

// sink returns the sink of docker-compose.yml with other settings for some of its own.
func (o *others) sink(here map[string]string) (settings []string) {
	o.Helper()
	text, err := os.ReadFile(filepath.Join(composeDir, "connect", "sink.properties"))
	o.ok(err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, _, _ := strings.Cut(line, "="); here[name] != "" {
			line = name + "=" + here[name]
			delete(here, name)
		}
		settings = append(settings, line)
	}
	if len(here) > 0 {
		o.Fatalf("sink.properties does not set %v", here)
	}
	return settings
}

// queries returns what the map of Grafana asks of a table, in a range of times, by panel.
func (o *others) queries(table string, from, to time.Time) (all []string) {
	o.Helper()
	text, err := os.ReadFile(filepath.Join(composeDir, "grafana", "map.json"))
	o.ok(err)
	var board struct {
		Panels []struct {
			Targets []struct{ RawSQL string }
		}
	}
	o.ok(json.Unmarshal(text, &board))
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			query := strings.ReplaceAll(target.RawSQL, "fleet_sanitized", table)
			query = timeFilter.ReplaceAllString(query, fmt.Sprintf("${1} BETWEEN '%s' AND '%s'",
				from.UTC().Format(time.RFC3339Nano), to.UTC().Format(time.RFC3339Nano)))
			all = append(all, query)
		}
	}
	return all
}

// timeFilter is the macro that Grafana replaces with the range of the dashboard.
var timeFilter = regexp.MustCompile(`\$__timeFilter\(([^)]*)\)`)

// TestPostgreSQL: the sink of docker-compose.yml fills a table, a row for each committed record,
// and the queries of its map read the table.
func TestPostgreSQL(t *testing.T) {
	w := newHarness(t).world(3, 12).others()
	o, want := w.sanitized("postgres", schemas.AvroRegistry)

	address, err := os.ReadFile(filepath.Join(w.dir, "postgres", "url"))
	w.ok(err)
	login, server, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(address)),
		"postgresql://"), "@")
	user, password, _ := strings.Cut(login, ":")
	table := strings.NewReplacer("-", "_", ".", "_").Replace(o.Topics.Sanitized)
	w.connect(w.sink(map[string]string{
		"topics": o.Topics.Sanitized, "connection.url": "jdbc:postgresql://" + server,
		"connection.username": user, "connection.password": password,
		"collection.name.format": table,
		"value.converter.apicurio.registry.url": strings.Replace(w.url, "/ccompat/v7",
			"/registry/v2", 1),
	})...)
	t.Cleanup(func() { w.sql("DROP TABLE IF EXISTS " + table) })
	query := fmt.Sprintf(`SELECT user_id, round(extract(epoch FROM timestamp) * 1000)::bigint,
		latitude, longitude, kind, epsilon, coalesce(release_latitude::text, 'null')
		FROM %s ORDER BY user_id, timestamp`, table)
	var got []string
	w.eventually("the sink has written all records", func() bool {
		got = w.sql(query)
		return len(got) >= len(want)
	})
	var due []string
	for _, r := range want {
		release := "null"
		if r.ReleaseLatitude.Known {
			release = fmt.Sprint(r.ReleaseLatitude.Number)
		}
		due = append(due, fmt.Sprintf("%s|%d|%v|%v|%s|%v|%s", r.UserID, r.Timestamp, r.Latitude,
			r.Longitude, r.Kind, r.Epsilon, release))
	}
	slices.Sort(due)
	slices.Sort(got)
	if !slices.Equal(got, due) {
		t.Errorf("the table has %d rows of %d records; the first is\n%s, want\n%s", len(got),
			len(due), got[0], due[0])
	}
	key := w.sql(fmt.Sprintf(`SELECT string_agg(a.attname, ',' ORDER BY a.attname)
		FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
		WHERE i.indrelid = '%s'::regclass AND i.indisprimary`, table))
	if !slices.Equal(key, []string{"timestamp,user_id"}) {
		t.Errorf("the table's key is %q", key)
	}
	testMap(w, table, want)
}

// testMap asks what the panels ask, for all but the last of the fleet's five steps: they show
// releases, and no prediction.
func testMap(w *others, table string, want []schemas.Sanitized) {
	w.Helper()
	end := time.UnixMilli(startMS + 4*60_000 - 1)
	predicted := want[0].UserID
	w.sql(fmt.Sprintf("UPDATE %s SET kind = 'predicted' WHERE user_id = '%s'", table, predicted))
	queries := w.queries(table, time.UnixMilli(startMS), end)
	if len(queries) != 2 {
		w.Fatalf("the map has %d queries", len(queries))
	}
	latest := map[string]schemas.Sanitized{}
	within := 0
	for _, r := range want { // by user and time
		if r.Timestamp < end.UnixMilli() && r.UserID != predicted &&
			r.Kind == "released" {
			latest[r.UserID] = r
			within++
		}
	}
	var due []string
	for _, user := range slices.Sorted(maps.Keys(latest)) {
		r := latest[user]
		at := time.UnixMilli(r.Timestamp).UTC().Format("2006-01-02 15:04:05.999")
		due = append(due, fmt.Sprintf("%s|%s|%v|%v|%v|%s", user, at, r.Latitude, r.Longitude,
			r.RadiusM, r.Kind))
	}
	if got := w.sql(queries[0]); !slices.Equal(got, due) {
		w.Errorf("the map has %d users of %d; the first is\n%s, want\n%s", len(got), len(due),
			got[0], due[0])
	}
	places := 0
	for _, row := range w.sql(queries[1]) {
		columns := strings.Split(row, "|")
		count, err := strconv.Atoi(columns[len(columns)-1])
		w.ok(err)
		places += count
	}
	if len(latest) == 0 || places != within || within == len(want) {
		w.Errorf("the map shows %d places, of %d in its range, of %d", places, within, len(want))
	}
}
