package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress shows how far a long run has come, on a terminal only: a bar, how
// much is done, how fast, and the time that is left. Show and count may be
// called from several goroutines.
type progress struct {
	out   io.Writer
	live  bool
	now   func() time.Time
	width func() int // of the terminal, in columns

	mu     sync.Mutex
	name   string                     // of the phase; empty: there is only one
	so     func() (done, total int64) // bytes; nil if there are none to count
	began  time.Time                  // the phase
	shown  time.Time
	marked bool // something stands on the terminal
}

// newProgress watches a count of bytes, or with nil the items alone.
func newProgress(out io.Writer, so func() (done, total int64)) *progress {
	const usual = 80
	p := &progress{out: out, so: so, now: time.Now, width: func() int { return usual }, began: time.Now()}
	file, ok := out.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return p
	}
	p.live = true
	p.width = func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil || width < 1 {
			return usual
		}
		return width
	}
	return p
}

// phase begins another part of the run, of whose bytes there are so many.
func (p *progress) phase(name string, so func() (done, total int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.so, p.began, p.shown = name, so, p.now(), time.Time{}
}

// show prints at most four times a second how much is done, in bytes or, where
// their total is not known, in items.
func (p *progress) show(items int64) {
	if !p.due() {
		return
	}
	defer p.mu.Unlock()
	if p.so != nil {
		if done, total := p.so(); done > 0 && total > 0 {
			const mega = 1e6
			elapsed := p.now().Sub(p.began).Seconds()
			p.print(done, total, fmt.Sprintf("%.1f of %.1f MB, %.1f MB/s", float64(done)/mega, float64(total)/mega, float64(done)/mega/max(elapsed, 1e-3)))
			return
		}
	}
	elapsed := p.now().Sub(p.began)
	p.line(fmt.Sprintf("%d fixes, %.0f/s, %s", items, float64(items)/max(elapsed.Seconds(), 1e-3), elapsed.Round(time.Second)))
}

// count prints at most four times a second how many units of the total are
// done; without a unit only their share.
func (p *progress) count(done, total int64, unit string) {
	if total <= 0 || !p.due() {
		return
	}
	defer p.mu.Unlock()
	if unit != "" {
		unit = fmt.Sprintf("%d of %d %s, %.0f/s", done, total, unit, float64(done)/max(p.now().Sub(p.began).Seconds(), 1e-3))
	}
	p.print(done, total, unit)
}

// reporter returns what shows the progress of work that asks whether to go on.
func (p *progress) reporter(ctx context.Context, unit string) func(done, total int64) error {
	return func(done, total int64) error {
		if err := ctx.Err(); err != nil {
			return err // and nothing more is shown
		}
		p.count(done, total, unit)
		return nil
	}
}

// due reports whether it is time to print, and if so holds the lock.
func (p *progress) due() bool {
	if !p.live || !p.mu.TryLock() { // whoever has it is about to print
		return false
	}
	if p.now().Sub(p.shown) < 250*time.Millisecond {
		p.mu.Unlock()
		return false
	}
	return true
}

// print prints a share as a bar, with more about it and the time that is left,
// at the rate so far.
func (p *progress) print(done, total int64, more string) {
	const cells = 20
	share := min(1, max(0, float64(done)/float64(total)))
	full := int(share * cells)
	text := fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*share)
	if more != "" {
		text += "  " + more
	}
	if done > 0 {
		left := float64(p.now().Sub(p.began)) * (1 - share) / share
		text += fmt.Sprintf("  %s left", time.Duration(left).Round(time.Second))
	}
	p.line(text)
}

// line replaces what stands on the terminal. A line that does not fit would stay
// there when the next one comes.
func (p *progress) line(text string) {
	if p.name != "" {
		text = p.name + " " + text
	}
	if most := p.width() - 1; len(text) > most {
		text = text[:max(most, 0)]
	}
	p.shown, p.marked = p.now(), true
	fmt.Fprint(p.out, "\r\x1b[2K"+text)
}

// announce shows a line until there is something to count.
func (p *progress) announce(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.line(text)
	}
}

// done clears the line.
func (p *progress) done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.marked {
		p.marked = false
		fmt.Fprint(p.out, "\r\x1b[2K")
	}
}
