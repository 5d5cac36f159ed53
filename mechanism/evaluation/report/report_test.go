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

func testReport(t *testing.T) *Report {
	t.Helper()
	return &Report{
		Title: "A <title>",
		Sections: []Section{{Title: "One & only", Parts: []Part{
			Text("|ΔX| < 4 & *more*"),
			&Table{
				Name: "small", Caption: "Small", Columns: []string{"ε", "|ΔX|"},
				Rows: []Row{{"1", "2, 3"}, {"<b>", "4"}},
			},
			&Table{
				Name: "long", Caption: "Long", Long: true, Columns: []string{"secret"},
				Rows: []Row{{"row"}},
			},
			&Figure{Name: "lines", Title: "A line", Note: "Of one.", Panels: testPanels(t)},
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
	if err := testReport(t).Write(dir, never); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, dir, "tables", "small.csv"))).ReadAll()
	if err != nil || len(rows) != 3 || !slices.Equal(rows[1], []string{"1", "2, 3"}) {
		t.Errorf("the table is %q, %v", rows, err)
	}
	if !strings.Contains(read(t, dir, "tables", "long.csv"), "row") {
		t.Error("a long table has no file")
	}
	page := read(t, dir, "report.html")
	for _, want := range []string{
		"A &lt;title&gt;", "One &amp; only", "|ΔX| &lt; 4 &amp; *more*", "<td>2, 3</td>",
		"<td>&lt;b&gt;</td>", "data:image/svg+xml;base64,", "tables/long.csv",
		`alt="A line. Of one."`, `<a href="#section-0">One &amp; only</a>`,
		`<section id="section-0">`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("report.html has no %q", want)
		}
	}
	for _, other := range []string{
		`src="figures`, `href="http`, "<script", "<b>", "secret",
	} {
		if strings.Contains(page, other) {
			t.Errorf("report.html has %q: it must stand alone, and show text as it is", other)
		}
	}
	if svg := read(t, dir, "figures", "lines.svg"); !strings.HasPrefix(svg, "<svg") {
		t.Error("the figure is not what its name says")
	}
}

// TestSameBytes: the same report gives the same files, also over an older one.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	files := []string{
		"report.html", "tables/small.csv", "figures/lines.svg",
	}
	var first []string
	for range 2 {
		if err := testReport(t).Write(dir, never); err != nil {
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
		"no name":          {&Figure{}},
		"two of one name":  {&Table{Name: "a"}, &Table{Name: "a"}},
		"an empty figure":  {&Figure{Name: "a"}},
	} {
		dir := t.TempDir()
		if err := (&Report{Sections: []Section{{Parts: parts}}}).Write(dir, never); err == nil {
			t.Errorf("%s is written", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "report.html")); err == nil {
			t.Errorf("%s: there is a report all the same", name)
		}
	}
}

// TestStopped: an interrupted writing leaves the older report as it was.
func TestStopped(t *testing.T) {
	dir, stop := t.TempDir(), errors.New("stop")
	if err := testReport(t).Write(dir, never); err != nil {
		t.Fatal(err)
	}
	before := read(t, dir, "report.html")
	newer := testReport(t)
	newer.Title = "Newer"
	calls := 0
	err := newer.Write(dir, func() error {
		if calls++; calls > 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || read(t, dir, "report.html") != before {
		t.Errorf("error %v, or the report is half new", err)
	}
}

// TestPage: tables are folded, so that they do not stand in the way of pictures and words. Each
// stands in a box that scrolls, a drawing shrinks with the window, and there is a dark page.
func TestPage(t *testing.T) {
	page := testReport(t).html(map[string][]byte{"lines": []byte("<svg/>")})
	boxed := strings.Count(page, `<div class="wide" tabindex="0"><table>`)
	if all := strings.Count(page, "<table"); all != 1 || boxed != all {
		t.Errorf("%d of %d tables stand in a box that scrolls", boxed, all)
	}
	for _, want := range []string{
		".wide { overflow-x: auto; background:", "figure img { max-width: 100%;", "<figure><img ",
		"(prefers-color-scheme: dark)", `(tables/small.csv), rows: `,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "min-width: 40rem") || strings.Count(page, "<details>") != 1 {
		t.Error("a drawing is wider than a narrow window, or a table is not folded")
	}
}
