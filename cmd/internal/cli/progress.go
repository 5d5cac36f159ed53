package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress shows on a terminal, and nowhere else, how far a long run has come: a bar, how much is
// done, how fast, and the time that is left. Several goroutines may call it.
type Progress struct {
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

// NewProgress makes a progress line on out. so says how many bytes of how many are done; with nil
// only items are counted.
func NewProgress(out io.Writer, so func() (done, total int64)) *Progress {
	width, ok := Terminal(out)
	if !ok {
		return &Progress{out: out, so: so, now: time.Now, began: time.Now()}
	}
	p := ProgressOn(out, time.Now, width)
	p.so = so
	return p
}

// Terminal returns what gives the width of a terminal in columns, and whether out is one.
func Terminal(out io.Writer) (width func() int, ok bool) {
	file, ok := out.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, false
	}
	return func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil || width < 1 {
			return Columns + 1
		}
		return width
	}, true
}

// ProgressOn makes a progress line on a terminal that is so many columns wide.
func ProgressOn(out io.Writer, now func() time.Time, width func() int) *Progress {
	return &Progress{out: out, live: true, now: now, width: width, began: now()}
}

// Phase starts another part of the run, with a rate and a remaining time of its own. It shows the
// name at once: the first thing to count may take long.
func (p *Progress) Phase(name string, so func() (done, total int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.so, p.began = name, so, p.now()
	if p.live && name != "" {
		p.line("...")
	}
	p.shown = time.Time{}
}

// Show prints, at most four times a second, how much is done: in bytes, or in items where the
// number of bytes is not known.
func (p *Progress) Show(items int64) {
	if !p.due() {
		return
	}
	defer p.mu.Unlock()
	if p.so != nil {
		if done, total := p.so(); done > 0 && total > 0 {
			const mega = 1e6
			elapsed := p.now().Sub(p.began).Seconds()
			rate := float64(done) / mega / max(elapsed, 1e-3)
			p.print(done, total, fmt.Sprintf("%.1f of %.1f MB, %.1f MB/s",
				float64(done)/mega, float64(total)/mega, rate))
			return
		}
	}
	elapsed := p.now().Sub(p.began)
	rate := float64(items) / max(elapsed.Seconds(), 1e-3)
	p.line(fmt.Sprintf("%d records, %.0f/s, %s", items, rate, elapsed.Round(time.Second)))
}

// Count prints, at most four times a second, how many units of the total are done; without a
// unit it prints their share alone.
func (p *Progress) Count(done, total int64, unit string) {
	if total <= 0 || !p.due() {
		return
	}
	defer p.mu.Unlock()
	if unit != "" {
		rate := float64(done) / max(p.now().Sub(p.began).Seconds(), 1e-3)
		unit = fmt.Sprintf("%d of %d %s, %.0f/s", done, total, unit, rate)
	}
	p.print(done, total, unit)
}

// Counter returns a function that shows how many units of the total are done.
func (p *Progress) Counter(unit string) func(done, total int64) {
	return func(done, total int64) { p.Count(done, total, unit) }
}

// Reporter returns a function for work that asks after each piece whether to go on: it shows how
// much is done, and returns the context's error once the context has ended.
func (p *Progress) Reporter(ctx context.Context, unit string) func(done, total int64) error {
	return func(done, total int64) error {
		if err := ctx.Err(); err != nil {
			return err // and nothing more is shown
		}
		p.Count(done, total, unit)
		return nil
	}
}

// due reports whether it is time to print. If it is, the caller holds the lock.
func (p *Progress) due() bool {
	if !p.live || !p.mu.TryLock() { // its holder is about to print
		return false
	}
	if p.now().Sub(p.shown) < 250*time.Millisecond {
		p.mu.Unlock()
		return false
	}
	return true
}

// print prints a share as a bar, followed by more text and the time that is left at the rate so
// far.
func (p *Progress) print(done, total int64, more string) {
	const cells = 20
	share := min(1, max(0, float64(done)/float64(total)))
	full := int(share * cells)
	bar := strings.Repeat("#", full) + strings.Repeat(".", cells-full)
	text := fmt.Sprintf("[%s] %3.0f %%", bar, 100*share)
	if more != "" {
		text += "  " + more
	}
	if done > 0 {
		left := float64(p.now().Sub(p.began)) * (1 - share) / share
		text += fmt.Sprintf("  %s left", time.Duration(left).Round(time.Second))
	}
	p.line(text)
}

// line replaces the line on the terminal. It cuts a text that does not fit: a second line would
// stay there when the next text comes.
func (p *Progress) line(text string) {
	if p.name != "" {
		text = p.name + " " + text
	}
	if most := p.width() - 1; len(text) > most {
		text = text[:max(most, 0)]
	}
	p.shown, p.marked = p.now(), true
	fmt.Fprint(p.out, "\r\x1b[2K"+text)
}

// Announce says in a line that stays what takes long, where no terminal shows a phase.
func (p *Progress) Announce(text string) {
	if !p.live {
		fmt.Fprintln(p.out, text)
	}
}

// Done clears the line.
func (p *Progress) Done() {
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
