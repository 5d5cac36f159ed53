package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"
)

// demoStatus is what the live view shows at one moment.
type demoStatus struct {
	elapsed   time.Duration
	fleetTime time.Time // event time of the last fix fed
	fed       float64   // share of the fleet's fixes fed, 0 to 1
	perSecond float64   // records published in the last interval
	report    demoReport
	latest    string
}

// demoView prints the state of the demo: in place on a terminal, else a line
// now and then.
type demoView struct {
	out   io.Writer
	live  bool
	lines int // printed by the last frame
}

func newDemoView(out io.Writer) *demoView {
	file, ok := out.(interface{ Fd() uintptr })
	return &demoView{out: out, live: ok && term.IsTerminal(int(file.Fd()))}
}

// interval is how often a frame is worth printing.
func (v *demoView) interval() time.Duration {
	if v.live {
		return 250 * time.Millisecond
	}
	return 2 * time.Second
}

func (v *demoView) show(s demoStatus) {
	if !v.live {
		r := s.report
		fmt.Fprintf(v.out, "%s  in %d  out %d  dead %d  releases %d  repeats %d  |ΔX| %.0f  rms m: release %.0f, estimate %.0f, blind %.0f  %.0f/s\n",
			s.fleetTime.Format("15:04"), r.RecordsIn, r.RecordsOut, r.DeadLetters, r.Releases, r.Repeats,
			r.LocationSetMean, r.RMSEReleaseM, r.RMSEEstimateM, r.RMSEBlindM, s.perSecond)
		return
	}
	frame := v.frame(s)
	if v.lines > 0 {
		fmt.Fprintf(v.out, "\x1b[%dA", v.lines)
	}
	v.lines = len(frame)
	for _, line := range frame {
		fmt.Fprintf(v.out, "\x1b[2K%s\n", line)
	}
}

func (v *demoView) frame(s demoStatus) []string {
	const width = 40
	r := s.report
	done := int(s.fed*width + .5)
	bar := strings.Repeat("█", done) + strings.Repeat("·", width-done)
	return []string{
		fmt.Sprintf("  fleet time %s  %s %3.0f %%   %s", s.fleetTime.Format("2006-01-02 15:04:05"), bar, 100*s.fed, s.elapsed.Round(time.Second)),
		"",
		fmt.Sprintf("  records     in %-8d out %-8d dead letters %-5d users %-6d %6.0f records/s", r.RecordsIn, r.RecordsOut, r.DeadLetters, r.Users, s.perSecond),
		fmt.Sprintf("  of these    releases %-8d repeats %-8d late %d", r.Releases, r.Repeats, r.Late),
		fmt.Sprintf("  location    set |ΔX| %.1f of %d cells on average; true cell outside it: %.1f %%", r.LocationSetMean, r.cells, 100*r.DriftRatio),
		"",
		"  distance to the truth (rms)        release    estimate    blind",
		fmt.Sprintf("                                  %8s  %10s %8s", metres(r.RMSEReleaseM), metres(r.RMSEEstimateM), metres(r.RMSEBlindM)),
		"",
		"  latest      " + s.latest,
	}
}

// metres prints a distance as a person reads it.
func metres(m float64) string {
	if m >= 10000 {
		return fmt.Sprintf("%.1f km", m/1000)
	}
	return fmt.Sprintf("%.0f m", m)
}
