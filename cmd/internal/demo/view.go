package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// status is what the live view shows at one moment.
type status struct {
	elapsed   time.Duration
	fleetTime time.Time // event time of the last fix fed
	answered  float64   // share of the fleet's fixes, 0 to 1
	perSecond float64   // records published in the last interval
	report    Report
	latest    string // record
	drawn     string // latest release
}

// view prints the state of the demo: in place on a terminal, else a line
// now and then.
type view struct {
	out   io.Writer
	live  bool
	width func() int // of the terminal, in columns
	lines int        // printed by the last frame
}

func newView(out io.Writer) *view {
	width, live := cli.Terminal(out)
	return &view{out: out, live: live, width: width}
}

// interval is how often a frame is worth printing.
func (v *view) interval() time.Duration {
	if v.live {
		return 250 * time.Millisecond
	}
	return 2 * time.Second
}

func (v *view) show(s status) {
	if !v.live {
		r := s.report
		fmt.Fprintf(v.out, "%s  out %d  releases %d  estimate %.0f m  model %.0f m  %.0f/s\n",
			s.fleetTime.Format("15:04"), r.RecordsOut, r.Releases, r.MedianEstimateM,
			r.MedianBlindM, s.perSecond)
		return
	}
	frame := v.frame(s)
	if v.lines > 0 {
		fmt.Fprintf(v.out, "\x1b[%dA", v.lines)
	}
	v.lines = len(frame)
	width := v.width()
	for _, line := range frame {
		fmt.Fprintf(v.out, "\x1b[2K%s\n", clip(line, width-1))
	}
}

// clip cuts a line to a number of columns: a line that wraps would be drawn over
// at the next frame.
func clip(line string, columns int) string {
	if runes := []rune(line); len(runes) > columns {
		return string(runes[:max(columns, 0)])
	}
	return line
}

func (v *view) frame(s status) []string {
	const width = 30
	r := s.report
	done := int(s.answered * width) // full, and 100 %, where all is answered and not before
	bar := strings.Repeat("█", done) + strings.Repeat("·", width-done)
	return []string{
		fmt.Sprintf("  fleet time %s  %s %3d %%   %s", s.fleetTime.Format("2006-01-02 15:04:05"),
			bar, int(100*s.answered), s.elapsed.Round(time.Second)),
		"",
		fmt.Sprintf("  records     in %-8d out %-8d dead letters %-5d %s",
			r.RecordsIn, r.RecordsOut, r.DeadLetters, s.pace()),
		fmt.Sprintf("  of these    releases %-7d repeats %-7d predicted %-5d users %d",
			r.Releases, r.Repeats, r.Predictions, r.Users),
		fmt.Sprintf("  spent       Σε %s a vehicle on average; limit: %s",
			cli.Sum(r.spent()), cmp.Or(r.limits, "none")),
		"",
		"  distance to the truth (median)     release    estimate    model alone",
		fmt.Sprintf("                                  %8s  %10s  %13s",
			cli.Metres(r.MedianReleaseM), cli.Metres(r.MedianEstimateM),
			cli.Metres(r.MedianBlindM)),
		"",
		"  release     " + s.drawn,
		"  record      " + s.latest,
	}
}

// pace is the rate of records, which a feed at a multiple of the fleet's pace decides.
func (s status) pace() string {
	if s.report.Speed > 0 {
		return fmt.Sprintf("fed at %.0f/s", s.perSecond)
	}
	return fmt.Sprintf("%.0f records/s", s.perSecond)
}
