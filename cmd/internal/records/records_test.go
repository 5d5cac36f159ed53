package records

import (
	"bytes"
	"context"
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
			SigmaMajorM: schemas.Some(250.5), SigmaMinorM: schemas.Some(40), AzimuthDeg: schemas.Some(0),
			Epsilon: 1, Delta: .01, Mechanism: "lattice", ModelID: "m-1", Step: int64(i),
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
		got, places := all(t, File(path, nil, func(n int) { bytesRead += n }))
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
	if err == nil || err.Error() != "1 of 1: refused" {
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

// Whoever reads seeded records is told so.
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
		"out.xml": "", "out.csv.gz": "",
	} {
		got, err := FormatOf(path)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}
