package main

import (
	"fmt"
	"io"
	"time"

	"golang.org/x/term"
)

// progress shows how far a long run has come, on a terminal only.
type progress struct {
	out    io.Writer
	live   bool
	so     func() (done, total int64) // bytes; nil if there are none to count
	began  time.Time
	shown  time.Time
	marked bool
}

// newProgress watches a count of bytes, or with nil the items alone.
func newProgress(out io.Writer, so func() (done, total int64)) *progress {
	file, ok := out.(interface{ Fd() uintptr })
	return &progress{out: out, live: ok && term.IsTerminal(int(file.Fd())), so: so, began: time.Now()}
}

// show prints at most four times a second how much is done, in bytes or, where
// their total is not known, in items.
func (p *progress) show(items int64) {
	if !p.live || time.Since(p.shown) < 250*time.Millisecond {
		return
	}
	p.shown, p.marked = time.Now(), true
	var done, total int64
	if p.so != nil {
		done, total = p.so()
	}
	elapsed := time.Since(p.began)
	if total <= 0 || done <= 0 {
		fmt.Fprintf(p.out, "\r\x1b[2K%d fixes, %s", items, elapsed.Round(time.Second))
		return
	}
	share := min(1, float64(done)/float64(total))
	left := time.Duration(float64(elapsed) * (1 - share) / share)
	fmt.Fprintf(p.out, "\r\x1b[2K%3.0f %%  %.1f of %.1f MB  %s left", 100*share, float64(done)/1e6, float64(total)/1e6, left.Round(time.Second))
}

// done clears the line.
func (p *progress) done() {
	if p.marked {
		p.marked = false
		fmt.Fprint(p.out, "\r\x1b[2K")
	}
}
