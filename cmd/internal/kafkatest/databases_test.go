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

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
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

// TestPostgreSQL: the sink of docker-compose.yml fills a table for each topic, a row for each
// committed record, and the queries of its map read the tables.
func TestPostgreSQL(t *testing.T) {
	w := newHarness(t).world(3, 12).others()
	w.prefix = strings.ReplaceAll(w.prefix, "-", "_") // of topics, whose names tables have
	o, want := w.sanitized("postgres", schemas.AvroRegistry)
	counts := w.addCounts(o)

	address, err := os.ReadFile(filepath.Join(w.dir, "postgres", "url"))
	w.ok(err)
	login, server, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(address)),
		"postgresql://"), "@")
	user, password, _ := strings.Cut(login, ":")
	table := strings.ReplaceAll(o.Topics.Sanitized, ".", "_")
	t.Cleanup(func() {
		w.sql(fmt.Sprintf("DROP TABLE IF EXISTS %[1]s, %[1]s_counts", table))
	})
	w.connect(w.sink(map[string]string{
		"topics":              o.Topics.Sanitized + "," + o.Topics.Sanitized + ".counts",
		"connection.url":      "jdbc:postgresql://" + server,
		"connection.username": user, "connection.password": password,
		"value.converter.apicurio.registry.url": strings.Replace(w.url, "/ccompat/v7",
			"/registry/v2", 1),
	})...)
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
	for suffix, due := range map[string]struct {
		rows int
		key  string
	}{
		"":        {len(want), "timestamp,user_id"},
		"_counts": {counts, "edition,window_start,zone"},
	} {
		w.eventually("the sink has filled "+table+suffix, func() bool {
			return slices.Equal(w.sql("SELECT count(*) FROM "+table+suffix),
				[]string{strconv.Itoa(due.rows)})
		})
		key := w.sql(fmt.Sprintf(`SELECT string_agg(a.attname, ',' ORDER BY a.attname)
			FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
			AND a.attnum = ANY(i.indkey)
			WHERE i.indrelid = '%s'::regclass AND i.indisprimary`, table+suffix))
		if !slices.Equal(key, []string{due.key}) {
			t.Errorf("the key of %s is %q", table+suffix, key)
		}
	}
	testMap(w, table, want)
	testCounts(w, table)
}

// send makes a topic beside the sanitized one, and writes values to it.
func (o *others) send(topic string, keys []string, values [][]byte) {
	o.Helper()
	o.ok(admin.CreateTopics(o.Context(), o.world.client, wire.Options{}, admin.Topic{
		Name: topic, Partitions: o.partitions,
	}))
	var records []producer.Record
	for i := range values {
		records = append(records, producer.Record{
			Key: []byte(keys[i]), Value: values[i], Timestamp: time.Now().UnixMilli(),
		})
	}
	_, err := o.feeder.Send(o.Context(), topic, o.partitions, records)
	o.ok(err)
}

// numbered returns a codec that writes the number of a topic's schema in the registry.
func (o *others) numbered(topic, schema string) *schemas.Codec {
	o.Helper()
	codec, err := schemas.NewCodec(schemas.AvroRegistry)
	o.ok(err)
	made, err := o.client.Register(o.Context(), registry.Subject(topic), schema)
	o.ok(err)
	codec.UseIDs(schemas.IDs{Sanitized: made.ID, Counts: made.ID})
	return codec
}

// countsMS is the start of the first of three windows of an hour, of which the last one is not
// whole yet.
var countsMS = time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC).UnixMilli()

// addCounts writes the windows to the topic of counts, and returns how many records they have.
func (o *others) addCounts(options service.Options) int {
	o.Helper()
	topic := options.Topics.Sanitized + ".counts"
	codec := o.numbered(topic, schemas.CountsSchema())
	var keys []string
	var values [][]byte
	for hour := range int64(3) {
		for i, zone := range []string{"0", "1", "elsewhere"} {
			if hour == 2 && i == 2 {
				continue
			}
			r := schemas.Counts{
				WindowStart: countsMS + hour*3_600_000, WindowEnd: countsMS + (hour+1)*3_600_000,
				Day: "2026-11-21", Zone: zone, Vehicles: 10*hour + int64(i) - 1,
				Low: 10*hour + int64(i) - 3, High: 10*hour + int64(i) + 1,
				Estimate: float64(10*hour) + .5, Epsilon: 2, PerDay: 10, Edition: 1,
			}
			if i < 2 {
				r.Latitude = schemas.Nullable{Number: 53 + float64(i), Known: true}
				r.Longitude = schemas.Nullable{Number: -3, Known: true}
			}
			value, err := codec.AppendCounts(nil, r)
			o.ok(err)
			keys, values = append(keys, zone), append(values, value)
		}
	}
	o.send(topic, keys, values)
	return len(values)
}

// testCounts asks what the panels of counts ask: they leave out the window that is not whole.
func testCounts(w *others, table string) {
	w.Helper()
	from := time.UnixMilli(countsMS)
	queries := w.queries(table, from, from.Add(24*time.Hour))
	zones := []string{
		"0|2026-11-21 18:00:00|2026-11-21 19:00:00|53|-3|9|7|11|10.5",
		"1|2026-11-21 18:00:00|2026-11-21 19:00:00|54|-3|10|8|12|10.5",
	}
	if got := w.sql(queries[2]); !slices.Equal(got, zones) {
		w.Errorf("the zones are\n%q, want\n%q", got, zones)
	}
	within := 1.64 * math.Sqrt(2*3) * 5
	var sums []string
	for i, sum := range []float64{0, 30} {
		sums = append(sums, fmt.Sprintf("2026-11-21 %d:00:00|%v|%v|%v", 17+i, sum, sum-within,
			sum+within))
	}
	if got := w.sql(queries[3]); !slices.Equal(got, sums) {
		w.Errorf("the windows are\n%q, want\n%q", got, sums)
	}
}

// testMap asks what the panels ask, for all but the last of the fleet's five steps: they show
// releases and no prediction.
func testMap(w *others, table string, want []schemas.Sanitized) {
	w.Helper()
	end := time.UnixMilli(startMS + 4*60_000 - 1)
	first, predicted := want[0].UserID, want[len(want)-1].UserID
	w.sql(fmt.Sprintf(`UPDATE %s SET kind = 'predicted' WHERE user_id = '%s'
		OR user_id = '%s' AND timestamp > '%s'`, table, predicted, first,
		time.UnixMilli(startMS+1).UTC().Format(time.RFC3339Nano)))
	queries := w.queries(table, time.UnixMilli(startMS), end)
	if len(queries) != 4 {
		w.Fatalf("the map has %d queries", len(queries))
	}
	latest := map[string]schemas.Sanitized{}
	within := 0
	for _, r := range want { // by user and time
		if r.Timestamp >= end.UnixMilli() || r.Kind != "released" || r.UserID == predicted ||
			r.UserID == first && r.Timestamp > startMS+1 {
			continue
		}
		latest[r.UserID] = r
		within++
	}
	var due []string
	for _, user := range slices.Sorted(maps.Keys(latest)) {
		r := latest[user]
		at := time.UnixMilli(r.Timestamp).UTC().Format("2006-01-02 15:04:05.999")
		due = append(due, fmt.Sprintf("%s|%s|%v|%v|%v", user, at, r.Latitude, r.Longitude,
			r.RadiusM))
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
