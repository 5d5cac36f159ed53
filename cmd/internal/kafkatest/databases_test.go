//go:build kafka

package kafkatest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	w.createRaw()
	w.feed(5)
	o := w.options("duckdb")
	o.SanitizedEncoding = schemas.Avro
	w.answer(o)
	want := w.published(o.Topics.Sanitized)
	w.abort(o, want[0])

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

	out := w.python("query.py", `SELECT user_id, epoch_ms(timestamp), latitude, longitude,
		release_latitude, typeof(geometry), hex(ST_AsWKB(geometry)), ST_AsText(geometry)
		FROM 'fleet.parquet' ORDER BY ALL;`+"\n"+
		w.documented("sql", "The last known place of each user"), dir)
	answers := strings.Split(strings.TrimSpace(out), "\n")
	if len(answers) != 4 {
		t.Fatalf("%d queries have an answer:\n%s", len(answers), out)
	}
	var rows [4][][]string
	for i, answer := range answers {
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

// TestPostgreSQL: the JDBC sink of CONSUMERS.md fills a table, a row for each committed record.
func TestPostgreSQL(t *testing.T) {
	w := newHarness(t).world(3, 12).others()
	w.createRaw()
	w.feed(5)
	o := w.options("postgres")
	o.SanitizedEncoding = schemas.JSONSchema
	w.answer(o)
	want := w.published(o.Topics.Sanitized)
	w.abort(o, want[0])

	address, err := os.ReadFile(filepath.Join(w.dir, "postgres", "url"))
	w.ok(err)
	login, server, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(address)),
		"postgresql://"), "@")
	user, password, _ := strings.Cut(login, ":")
	table := strings.NewReplacer("-", "_", ".", "_").Replace(o.Topics.Sanitized)
	here := map[string]string{
		"topics": o.Topics.Sanitized, "connection.url": "jdbc:postgresql://" + server,
		"connection.username": user, "connection.password": password,
		"collection.name.format": table,
	}
	settings := strings.Split(w.documented("properties", "# JDBC, into PostgreSQL"), "\n")
	for i, line := range settings {
		if name, _, _ := strings.Cut(line, "="); here[name] != "" {
			settings[i] = name + "=" + here[name]
			delete(here, name)
		}
	}
	if len(here) > 0 {
		t.Fatalf("the document does not set %v", here)
	}
	w.connect(settings...)
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
}
