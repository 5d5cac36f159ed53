package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

func some(n int) (list []schemas.Sanitized) {
	for i := range n {
		list = append(list, schemas.Sanitized{
			UserID: fmt.Sprintf("bus-%d", i%2), Timestamp: 1_700_000_000_000 + int64(i)*60_000,
			ReleaseLatitude:  schemas.Some(53.4 + float64(i)/128),
			ReleaseLongitude: schemas.Some(-2.9 - float64(i)/128),
			Latitude:         53.5, Longitude: -2.875, RadiusM: 512.5,
			SigmaMajorM: schemas.Some(250.5), SigmaMinorM: schemas.Some(40),
			AzimuthDeg: schemas.Some(0),
			Epsilon:    1, Delta: .01, Mechanism: "lattice", ModelID: "m-1", Step: int64(i),
			Release: int64(i / 2), Kind: schemas.KindReleased,
		})
	}
	return list
}

func all(t *testing.T, source Source) (list []schemas.Sanitized, places []string) {
	t.Helper()
	err := source(t.Context(), func(r schemas.Sanitized, where string) error {
		list, places = append(list, r), append(places, where)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, places
}

// What is written can be read again, and each record's place is its line.
func TestWrittenIsRead(t *testing.T) {
	want := some(5)
	for _, format := range []string{"csv", "json", "ndjson"} {
		path := filepath.Join(t.TempDir(), "out."+format)
		out, err := NewOutput(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range want {
			if err := out.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: the file appears before it is complete", format)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		bytesRead := 0
		got, places := all(t, Records(path, nil, func(n int) { bytesRead += n }))
		if !slices.Equal(got, want) {
			t.Errorf("%s: read %+v, want %+v", format, got, want)
		}
		if size, err := Sizes([]string{path}); err != nil || size != int64(bytesRead) {
			t.Errorf("%s: %d bytes were read of %d, %v", format, bytesRead, size, err)
		}
		first := map[string]string{"csv": path + ":2"}[format]
		if first == "" {
			first = path + ":1"
		}
		if places[0] != first {
			t.Errorf("%s: the first record is at %s, want %s", format, places[0], first)
		}
	}
}

// TestHalfARelease: the error names the half of a release that is missing, in the header or a row.
func TestHalfARelease(t *testing.T) {
	text := string(written(t, "csv", some(1)))
	for _, name := range []string{"release_latitude", "release_longitude"} {
		at := slices.Index(strings.Split(strings.SplitN(text, "\n", 2)[0], ","), name)
		cells := strings.Split(strings.TrimSpace(strings.SplitN(text, "\n", 2)[1]), ",")
		cells[at] = ""
		for _, c := range [][2]string{
			{strings.Replace(text, name, "other", 1), fmt.Sprintf("no column %q", name)},
			{
				strings.SplitN(text, "\n", 2)[0] + "\n" + strings.Join(cells, ",") + "\n",
				"column " + name + " cannot be read",
			},
		} {
			path := filepath.Join(t.TempDir(), "records.csv")
			if err := os.WriteFile(path, []byte(c[0]), 0o600); err != nil {
				t.Fatal(err)
			}
			failed := Records(path, nil, func(int) {})(t.Context(),
				func(schemas.Sanitized, string) error { return nil })
			if failed == nil || !strings.Contains(failed.Error(), c[1]) {
				t.Errorf("without %s: %v, want %q", name, failed, c[1])
			}
		}
	}
}

// The formats have the schema's names in the schema's order, and one text for each time.
func TestFormatsAgree(t *testing.T) {
	var schema struct{ Fields []struct{ Name string } }
	if err := json.Unmarshal([]byte(schemas.SanitizedSchema()), &schema); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range schema.Fields {
		names = append(names, f.Name)
	}
	record := some(1)[0]
	record.Timestamp += 250
	in := func(format string) string {
		return string(written(t, format, []schemas.Sanitized{record}))
	}
	header, row, _ := strings.Cut(in("csv"), "\n")
	if header != strings.Join(names, ",") {
		t.Errorf("the CSV has the columns %s, want %s", header, strings.Join(names, ","))
	}
	const at = "2023-11-14T22:13:20.250Z"
	const places = ",53.5000000,-2.8750000,512.5,250.5,40.0,0.0,released,"
	if !strings.HasPrefix(row, "bus-0,"+at+places) {
		t.Errorf("the row is %s", row)
	}
	line := strings.TrimSpace(in("json"))
	if !strings.HasPrefix(line, `{"user_id":"bus-0","timestamp":"`+at+`","latitude":53.5,`) {
		t.Errorf("the line is %s", line)
	}
	behind := 0
	for _, name := range names {
		i := strings.Index(line, `"`+name+`":`)
		if i < behind {
			t.Errorf("%s is not in its place in %s", name, line)
		}
		behind = i
	}
	if feature := in("geojson"); !strings.Contains(feature,
		`"coordinates":[-2.875,53.5]},"properties":`+line) {
		t.Errorf("the feature has not the line as properties: %s", feature)
	}
}

// What is not a whole record is refused by the name of the column.
func TestWrongColumns(t *testing.T) {
	var good strings.Builder
	w, err := NewWriter("csv", &good)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(some(1)[0]), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ before, after, column string }{
		{"bus-0,", ",", "user_id"},
		{"2023-11-14T", "2023-11-14 ", "timestamp"},
		{",-2.9000000\n", ",\n", "release_longitude"},
		{",53.4000000,", ",north,", "release_latitude"},
		{",40.0,", ",NaN,", "sigma_minor_m"},
		{",512.5,", ",,", "radius_m"},
		{"radius_m,", "radius_km,", "radius_m"},
	} {
		path := filepath.Join(t.TempDir(), "wrong.csv")
		text := strings.Replace(good.String(), c.before, c.after, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Records(path, nil, nil)(t.Context(),
			func(schemas.Sanitized, string) error { return nil })
		if text == good.String() || err == nil || !strings.Contains(err.Error(), c.column) {
			t.Errorf("%q for %q: %v, want an error about %s", c.after, c.before, err, c.column)
		}
	}
}

// A direction that rounds to 180 degrees is 0, which is the same one and can be read.
func TestAzimuth(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.0", 179.94: "179.9", 179.96: "0.0", 45.06: "45.1",
	} {
		if got := azimuth(x); got != want {
			t.Errorf("azimuth %g is %s, want %s", x, got, want)
		}
	}
}

// Sources are read together by their records' steps, and each keeps its own order.
func TestMerge(t *testing.T) {
	source := func(steps ...int64) Source {
		return func(_ context.Context, each func(schemas.Sanitized, string) error) error {
			for _, step := range steps {
				if err := each(schemas.Sanitized{Step: step},
					fmt.Sprintf("%d of %d", step, len(steps))); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var got []string
	err := Merge(t.Context(), []Source{source(1, 4, 2), source(3), source()},
		func(_ schemas.Sanitized, where string) error {
			got = append(got, where)
			return nil
		})
	if want := "1 of 3, 3 of 1, 4 of 3, 2 of 3"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("%q, %v; want %s", got, err, want)
	}
	failed := fmt.Errorf("refused")
	err = Merge(t.Context(), []Source{source(1), source(2)},
		func(schemas.Sanitized, string) error { return failed })
	if !errors.Is(err, failed) || err.Error() != "refused" {
		t.Errorf("the error is %v", err)
	}
}

// Without a feature it is a collection all the same.
func TestEmptyCollection(t *testing.T) {
	var out bytes.Buffer
	if err := NewCollection(&out).Close(); err != nil ||
		out.String() != "{\"type\":\"FeatureCollection\",\"features\":[\n]}\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

// Readers of seeded records are told so.
func TestPrinterSaysSeeded(t *testing.T) {
	for name, mechanism := range map[string]string{
		"seeded": schemas.Noted("lattice", schemas.Seeded), "keyed": "lattice",
	} {
		codec, err := schemas.NewCodec(schemas.Avro)
		if err != nil {
			t.Fatal(err)
		}
		value, err := codec.AppendSanitized(nil, schemas.Sanitized{
			UserID: "u", Mechanism: mechanism, ModelID: "0123456789abcdef",
			Kind: schemas.KindReleased,
		})
		if err != nil {
			t.Fatal(err)
		}
		var out, log strings.Builder
		p, err := NewPrinter("json", &out, &log, codec)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.Print(value); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if said := strings.HasPrefix(log.String(), "2 records marked"); said !=
			(name == "seeded") || strings.Count(out.String(), mechanism) != 2 {
			t.Errorf("%s: %q, %q", name, out.String(), log.String())
		}
	}
}

// The extension of a file is its format, and one that is none is refused.
func TestFormatOf(t *testing.T) {
	for path, want := range map[string]string{
		"-": "csv", "out": "csv", "/dev/stdout": "csv", "a.b/out": "csv", "out.CSV": "csv",
		"out.json": "json", "out.ndjson": "json", "out.jsonl": "json", "out.geojson": "geojson",
		"out.parquet": "parquet",
		"out.xml":     "", "out.csv.gz": "",
	} {
		got, err := FormatOf(path)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}
