package traces

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenErrors(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "photo.jpg", "")
	stdin := strings.NewReader("")
	for name, c := range map[string]struct {
		paths  []string
		format Format
		parts  []string
	}{
		"no paths": {nil, "", []string{"name files, folders"}},
		"missing file": {
			[]string{filepath.Join(folder, "none.csv")}, "", []string{"none.csv", "check the path"},
		},
		"format": {
			[]string{folder}, "gpx", []string{`"gpx"`, "csv, ndjson, geolife or gowalla"},
		},
		"empty folder":   {[]string{folder}, "", []string{folder, ".plt, .csv, .ndjson, .jsonl"}},
		"no plt":         {[]string{folder}, Geolife, []string{"no .plt files"}},
		"stdin twice":    {[]string{Stdin, Stdin}, "", []string{"twice"}},
		"geolife, stdin": {[]string{Stdin}, Geolife, []string{"name its folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), c.paths, stdin, Options{Format: c.format})
			wantError(t, err, c.parts...)
		})
	}
	_, err := Open(t.Context(), []string{Stdin}, nil, Options{})
	wantError(t, err, "no standard input")
}

func TestFolders(t *testing.T) {
	folder := t.TempDir()
	csv := func(user string) string { return csvHeader + user + ",1700000000000,1,2\n" }
	write(t, folder, "b.csv", csv("b"))
	write(t, folder, "a.csv.gz", zip(t, csv("a")))
	write(t, folder, ".hidden.csv", csv("hidden"))
	write(t, folder, "sub/deep.csv", csv("deep"))
	write(t, folder, "c.ndjson",
		`{"user_id":"c","timestamp":1700000000000,"latitude":1,"longitude":2}`)
	write(t, folder, "d.JSONL",
		`{"user_id":"d","timestamp":1700000000000,"latitude":1,"longitude":2}`)
	write(t, folder, "e.txt", checkInLine("e", "2010-10-19T23:55:27Z", 1, 2))
	if err := os.Symlink(filepath.Join(folder, "none"), filepath.Join(folder, "dead")); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[Format]string{"": "abcd", CSV: "ab", NDJSON: "cd", Gowalla: "e"} {
		rows, skips := fromPaths(t, Options{Format: format}, folder)
		users := ""
		for _, r := range rows {
			users += r.user
		}
		if users != want || skips.Total != 0 {
			t.Errorf("format %q: got users %q (%v), want %q", format, users, skips, want)
		}
	}

	// Paths are read in the order given, and .plt files go before all others.
	rows, _ := fromPaths(t, Options{}, filepath.Join(folder, "b.csv"),
		filepath.Join(folder, "a.csv.gz"))
	if len(rows) != 2 || rows[0].user != "b" || rows[1].user != "a" {
		t.Errorf("got %v, want b, then a", rows)
	}
	write(t, folder, "sub/x.plt", plt("1,2,0,0,0,2020-01-01,00:00:00"))
	rows, _ = fromPaths(t, Options{}, folder)
	if len(rows) != 1 || rows[0].user != "sub" {
		t.Errorf("got %v, want the .plt file alone", rows)
	}
	rows, _ = fromPaths(t, Options{Format: CSV}, folder)
	if len(rows) != 2 {
		t.Errorf("got %v, want the .csv files alone", rows)
	}
}

// A loop of links ends.
func TestLinkLoop(t *testing.T) {
	data := geolife(t)
	if err := os.Symlink(data, filepath.Join(data, "000", "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), []string{data}, nil, Options{}); err != nil {
		t.Fatal(err)
	}
}

func TestGuess(t *testing.T) {
	for name, c := range map[string]struct {
		path, line string
		want       Format
	}{
		"csv":                 {"x", "user_id,timestamp,lat,lon", CSV},
		"json":                {"x", `  {"user_id":1}`, NDJSON},
		"geolife by name":     {"x.plt", "", Geolife},
		"geolife by title":    {"x", "Geolife trajectory", Geolife},
		"gowalla":             {"x.csv", "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847", Gowalla},
		"tabs, other columns": {"x", "2010-10-19T23:55:27Z\t0\t30.2\t-97.7\t22847", CSV},
		"empty":               {"x", "", CSV},
	} {
		if got := guess(c.path, []byte(c.line)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	_, _, err := fromText(t, strings.Repeat("x", maxLineBytes+1), Options{})
	wantError(t, err, stdinName, "first line")
}
