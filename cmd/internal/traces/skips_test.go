package traces

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSkips(t *testing.T) {
	var lines strings.Builder
	lines.WriteString(csvHeader)
	for i := range 30 {
		if i%3 == 0 {
			lines.WriteString("u1,1700000000000,95,2\n")
		} else {
			lines.WriteString("u1,1700000000000,1\n")
		}
	}
	path := write(t, t.TempDir(), "a.csv", lines.String())
	rows, skips := fromPaths(t, Options{}, path)
	wantRows(t, rows)
	if skips.Total != 30 || skips.ByReason["latitude_out_of_range"] != 10 ||
		skips.ByReason[reasonColumns] != 20 {
		t.Errorf("got %d %v", skips.Total, skips.ByReason)
	}
	if len(skips.First) != maxFirst || skips.First[0] != (Skip{path, 2, "latitude_out_of_range"}) {
		t.Errorf("got %d first skips, the first %v", len(skips.First), skips.First[0])
	}
	want := "30 lines skipped: 20 wrong_columns, 10 latitude_out_of_range; first at " + path + ":2"
	if got := skips.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := new(Skips).String(); got != "no lines skipped" {
		t.Errorf("got %q of nothing", got)
	}
	for input, want := range map[string]string{
		"": "1 line skipped: 1 empty_file; first at standard input:1",
		csvHeader + "u1,1700000000,1,2\n": "1 line skipped: 1 timestamp_in_seconds; first at " +
			"standard input:2; times look like seconds since 1970: write milliseconds or RFC 3339",
	} {
		_, skips, _ = fromText(t, input, Options{})
		if got := skips.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		wantError(t, skips.Nothing(0), "nothing could be read: "+want)
		if err := skips.Nothing(1); err != nil {
			t.Errorf("with a fix: %v", err)
		}
	}
	if err := new(Skips).Nothing(0); err != nil {
		t.Errorf("without a line: %v", err)
	}
}

// TestReasonsAreDocumented: REASONS.md has a row for each reason of files, and no other.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "schemas", "REASONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, files, found := strings.Cut(string(text), "\n## Lines of files\n")
	if !found {
		t.Fatal("REASONS.md has no section on files")
	}
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllStringSubmatch(
		files, -1) {
		rows = append(rows, row[1])
	}
	slices.Sort(rows)
	want := []string{
		reasonColumns, reasonTimestamp, reasonSeconds, reasonNumber, reasonQuotes, reasonEmptyFile,
		reasonNoGeolife, reasonNoKey,
	}
	slices.Sort(want)
	if !slices.Equal(rows, want) {
		t.Errorf("REASONS.md has rows for %q, want %q", rows, want)
	}
}

func TestFixesOnce(t *testing.T) {
	r := open(t, []string{Stdin}, strings.NewReader(csvHeader+csvLine), Options{})
	if _, err := drain(r); err != nil {
		t.Fatal(err)
	}
	_, err := drain(r)
	wantError(t, err, "read already")
}

// secrets stand in every bad line of TestNothingIsRepeated.
var secrets = []string{"alice", "48.1372", "11.5756", "1371"}

// repeated returns the first secret that a text repeats.
func repeated(text string) string {
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			return secret
		}
	}
	return ""
}

// No error and no skip repeats anything of a file, in any format, by any verb.
func TestNothingIsRepeated(t *testing.T) {
	texts := map[Format][]string{
		CSV: {
			"alice,1371-01-01T00:00:00Z,48.1372,11.5756\n", // in the header's place
			"alice 48.1372 11.5756\n",
			csvHeader + "alice,13711,x48.1372,11.5756\n",
			csvHeader + "alice,1371-01-01T00:00:00Z,48.1372,11.5756\n",
			csvHeader + "alice,1371x,48.1372,11.5756\n",
			csvHeader + "alice,48.1372\n",
			csvHeader + "\"alice,1371,48.1372,11.5756\n",
		},
		NDJSON: {
			`{"user_id":"alice","timestamp":-1371,"latitude":48.1372,"longitude":11.5756}`,
			`{"alice":48.1372`,
		},
		Gowalla: {
			"alice\t1371\t48.1372\t11.5756\t1\n",
			"alice\t2010-10-19T23:55:27Z\t48.1372x\t11.5756\t1\n",
		},
	}
	for format, list := range texts {
		for i, text := range list {
			rows, skips, err := fromText(t, text, Options{Format: format})
			if err == nil && skips.Total == 0 || len(rows) > 0 {
				t.Errorf("%s %d: the line was accepted", format, i)
			}
			if secret := repeated(fmt.Sprintf("%v %+v %#v %v", err, *skips, skips.First,
				skips)); secret != "" {
				t.Errorf("%s %d: %q is repeated", format, i, secret)
			}
		}
	}
	t.Run("planted", func(t *testing.T) {
		planted := Skips{Total: 1, First: []Skip{{"f", 1, "bad latitude 48.1372"}}}
		if repeated(fmt.Sprintf("%+v", planted)) == "" {
			t.Error("a repeated latitude is not found")
		}
	})
}
