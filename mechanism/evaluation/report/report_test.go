package report

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func testReport() *Report {
	return &Report{
		Title: "A <title>",
		Sections: []Section{{Title: "One & only", Parts: []Part{
			Text("|ΔX| < 4 & *more*"),
			&Table{
				Name: "small", Caption: "Small", Columns: []string{"ε", "|ΔX|"},
				Rows: []Row{{"1", "2, 3"}, {"<b>", "4"}},
			},
			&Table{
				Name: "long", Caption: "Long", Columns: []string{"secret"},
				Rows: slices.Repeat([]Row{{"row"}}, mostShown+1),
			},
			testChart(),
		}}},
	}
}

func never() error { return nil }

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "folder")
	if err := testReport().Write(dir, never); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, dir, "tables", "small.csv"))).ReadAll()
	if err != nil || len(rows) != 3 || !slices.Equal(rows[1], []string{"1", "2, 3"}) {
		t.Errorf("the table is %q, %v", rows, err)
	}
	if !strings.Contains(read(t, dir, "tables", "long.csv"), "row") {
		t.Error("a long table has no file")
	}
	page := read(t, dir, "report.md")
	for _, want := range []string{
		"# A &lt;title>\n", "## One &amp; only\n", "\n\\|ΔX\\| &lt; 4 &amp; \\*more\\*\n",
		"Small ([small.csv](tables/small.csv), rows: 2)\n\n| ε | \\|ΔX\\| |\n|---|---|\n" +
			"| 1 | 2, 3 |\n| &lt;b> | 4 |\n",
		"](tables/long.csv), rows: 41)\n", "![A line](charts/lines.svg)\n\nOf one.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("report.md has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "| row |") {
		t.Error("report.md has the rows of a long table")
	}
	if svg := read(t, dir, "charts", "lines.svg"); !strings.Contains(svg, "<svg") {
		t.Error("the chart is not what its name says")
	}
}

// TestSameBytes: the same report gives the same files, also over an older one.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	files := []string{
		"report.md", "tables/small.csv", "charts/lines.svg",
	}
	var first []string
	for range 2 {
		if err := testReport().Write(dir, never); err != nil {
			t.Fatal(err)
		}
		var now []string
		for _, name := range files {
			now = append(now, read(t, dir, name))
		}
		if first != nil && !slices.Equal(first, now) {
			t.Error("the same report gives other bytes")
		}
		first = now
	}
}

func TestNames(t *testing.T) {
	for name, parts := range map[string][]Part{
		"an uneven table": {
			&Table{Name: "a", Columns: []string{"x"}, Rows: []Row{{"1", "2"}}},
		},
		"a path as a name": {&Table{Name: "../a"}},
		"no name":          {&Chart{}},
		"two of one name":  {&Table{Name: "a"}, &Table{Name: "a"}},
		"an empty chart":   {&Chart{Name: "a"}},
	} {
		dir := t.TempDir()
		if err := (&Report{Sections: []Section{{Parts: parts}}}).Write(dir, never); err == nil {
			t.Errorf("%s is written", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "report.md")); err == nil {
			t.Errorf("%s: there is a report all the same", name)
		}
	}
}

// TestStopped: an interrupted writing leaves the older report as it was.
func TestStopped(t *testing.T) {
	dir, stop := t.TempDir(), errors.New("stop")
	if err := testReport().Write(dir, never); err != nil {
		t.Fatal(err)
	}
	before := read(t, dir, "report.md")
	newer := testReport()
	newer.Title = "Newer"
	calls := 0
	err := newer.Write(dir, func() error {
		if calls++; calls > 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || read(t, dir, "report.md") != before {
		t.Errorf("error %v, or the report is half new", err)
	}
}
