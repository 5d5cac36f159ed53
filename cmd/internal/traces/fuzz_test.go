package traces

import (
	"bytes"
	"encoding/csv"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// FuzzRecord compares one line of CSV with encoding/csv, which keeps the blanks
// around fields.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`a,b`, `"a","b"`, `"a""b",c`, `a"b`, `"a"b`, `"a`, `,,`, `""`, `"",`, `"a,b"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if line == "" || strings.ContainsAny(line, " \t\r\n") {
			return
		}
		want, err := csv.NewReader(strings.NewReader(line)).Read()
		var rec record
		result := rec.parse([]byte(line))
		if (result == quotesFine) != (err == nil) {
			t.Fatalf("%q: got %v, encoding/csv says %v", line, result, err)
		}
		if err != nil {
			return
		}
		got := make([]string, len(rec.fields))
		for i, field := range rec.fields {
			got[i] = string(field)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", line, got, want)
		}
	})
}

// FuzzLine gives any line to each format's parser: there is a fix or a reason,
// and never both.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		"1,2,0,-777,43831,2020-01-01,00:00:00", "400.1667,2,0,-777,43831,2020-01-01,00:00:00",
		"0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847", "u1,1700000000000,10.5,-20.25",
		"u1,1700000000000,1,2,3",
		`{"user_id":"u1","timestamp":1700000000000,"latitude":10.5,"longitude":-20.25}`,
	} {
		f.Add([]byte(seed))
	}
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		f.Fatal(err)
	}
	head := header{fields: 5, index: [columnCount]int{0, 1, 2, 3, 4}}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		check := func(format string, fix schemas.Raw, reason string) {
			if reason != "" && rowOf(fix) != (row{accuracy: -1}) {
				t.Errorf("%s: a fix beside the reason %s", format, reason)
			}
		}
		fix, reason := parsePoint(line)
		check("geolife", fix, reason)
		fix, reason = parseCheckIn(line, nil)
		check("gowalla", fix, reason)
		if fix, reason = parseObject(codec, line); reason == "" && fix.Validate() != nil {
			t.Error("ndjson: an invalid fix")
		}
		var rec record
		if rec.parse(line) == quotesFine {
			fix, reason = head.parse(rec.fields, nil)
			check("csv", fix, reason)
			_, _ = parseHeader(rec.fields, nil)
			_, _ = parseHeader(rec.fields, map[string]string{"user_id": "vehicle"})
		}
		if !bytes.Equal(before, line) {
			t.Error("the line was written to")
		}
	})
}

// FuzzReader gives any content to each format, and to CSV and NDJSON whose columns
// have other names: what comes out is valid, in one pass as with workers.
func FuzzReader(f *testing.F) {
	f.Add([]byte(csvHeader+csvLine), uint8(0))
	f.Add([]byte(csvHeader+"\"u\n\",1700000000000,1,2"), uint8(1))
	f.Add([]byte(`{"user_id":"u1","timestamp":1,"latitude":10.5,"longitude":-20.25}`), uint8(2))
	f.Add(
		[]byte("0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n"+
			"0\t2010-10-18T23:55:27Z\t30.2\t-97.7\t9"), uint8(3))
	f.Add([]byte(plt("1,2,0,-777,43831,2020-01-01,00:00:00",
		"400.1667,2,0,-777,43831,2020-01-01,00:00:01")), uint8(4))
	f.Add([]byte("vehicle,timestamp,latitude,longitude\nu1,1700000000000,10.5,-20.25"), uint8(5))
	f.Add([]byte(`{"vehicle":"u1","timestamp":1,"latitude":10.5,"longitude":-20.25}`), uint8(6))
	f.Add([]byte(zip(f, csvHeader+csvLine)), uint8(0))
	packed := zip(f, "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847")
	f.Add([]byte(packed[:len(packed)-4]), uint8(3))
	f.Add([]byte(records), uint8(0))
	f.Add([]byte(android), uint8(7))
	f.Add([]byte(ios), uint8(7))
	f.Add([]byte("17\t{\n}"), uint8(8))
	named := map[string]string{"user_id": "vehicle"}
	kinds := []Options{
		{},
		{Format: CSV},
		{Format: NDJSON},
		{Format: Gowalla},
		{Format: Geolife},
		{Format: CSV, Columns: named},
		{Format: NDJSON, Columns: named},
		mapped(f, mapping.Options{Preset: mapping.GoogleTimeline}),
		mapped(f, mapping.Options{Preset: mapping.Traccar}),
	}
	f.Fuzz(func(t *testing.T, content []byte, which uint8) {
		o := kinds[int(which)%len(kinds)]
		reader := func() *Reader {
			r := open(t, []string{Stdin}, bytes.NewReader(content), Options{})
			r.options = o // a Geolife file's user is in its name: this one has a name
			r.files[0].path = "000/Trajectory/a.plt"
			if o.Format != Geolife {
				r.files[0].path = stdinName
			}
			return r
		}
		var rows []row
		one := reader()
		var failed error
		for fix, err := range one.Fixes() {
			if failed = err; err != nil {
				break
			}
			if err := fix.Validate(); err != nil || math.IsNaN(fix.Latitude) {
				t.Fatalf("an invalid fix: %v", err)
			}
			rows = append(rows, rowOf(fix))
		}
		many := reader()
		again, err := together(many, 2)
		sortRows(rows)
		if !slices.Equal(rows, again) || (err == nil) != (failed == nil) ||
			one.Skips().String() != many.Skips().String() {
			t.Fatalf("with workers %d fixes, %v, %v; without %d, %v, %v",
				len(again), err, many.Skips(), len(rows), failed, one.Skips())
		}
	})
}
