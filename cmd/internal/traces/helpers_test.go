package traces

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

// row is a fix that prints: all of these tests' places are made up.
type row struct {
	user     string
	ms       int64
	lat, lon float64
	accuracy float64 // -1: none
}

func rowOf(fix schemas.Raw) row {
	r := row{
		user: fix.UserID, ms: fix.Timestamp, lat: fix.Latitude, lon: fix.Longitude, accuracy: -1,
	}
	if fix.AccuracyM != nil {
		r.accuracy = *fix.AccuracyM
	}
	return r
}

// drain reads all fixes of r.
func drain(r *Reader) (rows []row, err error) {
	for fix, err := range r.Fixes() {
		if err != nil {
			return rows, err
		}
		rows = append(rows, rowOf(fix))
	}
	return rows, nil
}

// fromText reads text as standard input.
func fromText(tb testing.TB, text string, o Options) ([]row, *Skips, error) {
	tb.Helper()
	r := open(tb, []string{Stdin}, strings.NewReader(text), o)
	rows, err := drain(r)
	return rows, r.Skips(), err
}

// fromPaths reads files and wants no error.
func fromPaths(tb testing.TB, o Options, paths ...string) ([]row, *Skips) {
	tb.Helper()
	r := open(tb, paths, nil, o)
	rows, err := drain(r)
	if err != nil {
		tb.Fatal(err)
	}
	return rows, r.Skips()
}

func open(tb testing.TB, paths []string, stdin io.Reader, o Options) *Reader {
	tb.Helper()
	r, err := Open(tb.Context(), paths, stdin, o)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// write puts content into a file of folder, whose parents are made.
func write(tb testing.TB, folder, name, content string) string {
	tb.Helper()
	path := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func zip(tb testing.TB, content string) string {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, content); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func wantRows(tb testing.TB, got []row, want ...row) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("got  %v\nwant %v", got, want)
	}
}

// wantSkips compares skips, written as line:reason.
func wantSkips(tb testing.TB, got *Skips, want ...string) {
	tb.Helper()
	var lines []string
	for _, s := range got.First {
		lines = append(lines, strconv.Itoa(s.Line)+":"+s.Reason)
	}
	if !slices.Equal(lines, want) || got.Total != int64(len(want)) {
		tb.Errorf("skipped %d %v, want %v", got.Total, lines, want)
	}
}

// wantError wants an error that holds some parts.
func wantError(tb testing.TB, err error, parts ...string) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			tb.Errorf("error %q lacks %q", err, part)
		}
	}
}
