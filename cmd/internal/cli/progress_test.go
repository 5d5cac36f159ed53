package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onTerminal is a progress whose clock the test moves.
func onTerminal(width int) (p *Progress, out *bytes.Buffer, clock *time.Time) {
	clock, out = new(time.Time), new(bytes.Buffer)
	*clock = time.Unix(1_700_000_000, 0)
	p = ProgressOn(out, func() time.Time { return *clock }, func() int { return width })
	return p, out, clock
}

// last is the line that stands on the terminal.
func last(out *bytes.Buffer) string {
	text := out.String()
	return text[strings.LastIndex(text, "\x1b[2K")+len("\x1b[2K"):]
}

func TestProgress(t *testing.T) {
	p, out, clock := onTerminal(100)
	p.Phase("reading", func() (done, total int64) { return 50e6, 200e6 })
	*clock = clock.Add(10 * time.Second)
	p.Show(1000)
	if got, want := last(out),
		"reading [#####...............]  25 %  50.0 of 200.0 MB, 5.0 MB/s  30s left"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}

	before := out.Len()
	*clock = clock.Add(200 * time.Millisecond)
	p.Show(1001)
	if out.Len() != before {
		t.Errorf("it prints more often than four times a second")
	}

	p.Phase("smoothing", nil)
	if got, want := last(out), "smoothing ..."; got != want {
		t.Errorf("a phase begins with %q, want %q", got, want)
	}
	p.Count(0, 4, "") // nothing to tell the time from
	if got, want := last(out), "smoothing [....................]   0 %"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	*clock = clock.Add(2 * time.Second)
	p.Count(3, 4, "rows")
	if got, want := last(out),
		"smoothing [###############.....]  75 %  3 of 4 rows, 2/s  1s left"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}

	p.Phase("", func() (done, total int64) { return 7, 0 }) // a pipe: no end is known
	*clock = clock.Add(4 * time.Second)
	p.Show(2000)
	if got, want := last(out), "2000 records, 500/s, 4s"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	p.Done()
	if last(out) != "" {
		t.Errorf("the line stays: %q", last(out))
	}
}

// A line that is wider than the terminal would not be replaced by the next one.
func TestProgressNarrow(t *testing.T) {
	for _, width := range []int{1, 2, 20, 60} {
		p, out, clock := onTerminal(width)
		*clock = clock.Add(time.Second)
		p.Count(1, 2, "draws")
		if got := last(out); len(got) >= width {
			t.Errorf("%d columns: %q does not fit", width, got)
		}
	}
}

// Nothing is shown where there is no terminal.
func TestProgressNoTerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := NewProgress(file, nil)
	p.Phase("reading", nil)
	p.Show(1)
	p.Count(1, 2, "draws")
	p.Done()
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("a file got %q, %v", text, err)
	}
}
