package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/countfiles"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/service"
)

func newDoctor(std cli.Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor -c FILE",
		Short: "Check a config, its model and key, the brokers and topics, and what " +
			"error to expect",
		Long: `Check whether "geodither run" would work with a config: settings, files, brokers, rights, topics,
the first raw records, running instances, and the account of ε. It changes nothing. If nothing has
failed, it simulates what error to expect, which takes a while.

Each line begins with ok, warning, failure, or unchecked. The exit code is 1 if something would stop
the service or keep it from publishing.`,
		Example: `  geodither doctor -c geodither.yml
  geodither doctor -c geodither.yml --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			ctx, bar := cmd.Context(), cli.NewProgress(std.Err, nil)
			defer bar.Done()
			d := checkup{findings: []checks.Finding{}, tracks: std.Tracks, bar: bar}
			if !asJSON {
				// What fails because of an interrupt is no finding.
				d.out, d.over = std.Out, func() bool { return ctx.Err() != nil }
			}
			// A model may be large, and the doctor changes nothing that could stay half done.
			if err := cli.Interruptibly(ctx, func() error {
				d.examine(ctx, path, bar)
				return ctx.Err()
			}); err != nil {
				d.leave()
				return err
			}
			bar.Done()
			if err := errors.Join(d.failure, d.finish(std.Out, asJSON)); err != nil {
				return err
			}
			if n := d.count(checks.Failure); n > 0 {
				return fmt.Errorf("%d of %d checks failed, %d could not be made", n,
					len(d.findings), d.count(checks.Unchecked))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// checkup is what one examination has found.
type checkup struct {
	findings []checks.Finding
	expected *expect.Summary
	tracks   int // of expect.Options

	bar  *cli.Progress // nil: none
	mu   sync.Mutex
	out  io.Writer   // gets each finding as soon as it is known; nil: nobody does
	over func() bool // nothing more is to be printed
	// failure is of writing to out.
	failure error
}

func (d *checkup) add(check, level, format string, args ...any) {
	d.tell(checks.Finding{Check: check, Level: level, Detail: fmt.Sprintf(format, args...)})
}

// tell keeps a finding and prints it: on a terminal in lines that fit, elsewhere on one that can be
// searched. A detail of several lines, such as a config's errors, is indented as one.
func (d *checkup) tell(f checks.Finding) {
	d.findings = append(d.findings, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	// What could not be looked at because of a failure would hide that failure: the error at the
	// end has their number, and --json has all.
	if d.out == nil || d.over() ||
		f.Level == checks.Unchecked && strings.HasPrefix(f.Detail, "not checked, because") {
		return
	}
	d.bar.Done()
	const margin = 24
	lines, level := strings.Split(f.Detail, "\n"), fmt.Sprintf("%-9s", f.Level)
	if width, ok := cli.Terminal(d.out); ok {
		var fit []string
		for _, line := range lines {
			fit = append(fit, cli.Wrap(line, max(width()-margin-1, margin))...)
		}
		lines = fit
		if os.Getenv("NO_COLOR") == "" {
			level = "\x1b[" + colours[f.Level] + "m" + level + "\x1b[m"
		}
	}
	_, err := fmt.Fprintf(d.out, "%s  %-11s  %s\n", level, f.Check,
		strings.Join(lines, "\n"+strings.Repeat(" ", margin)))
	d.failure = errors.Join(d.failure, err)
}

// colours are those of levels on a terminal.
var colours = map[string]string{
	checks.OK: "32", checks.Warning: "33", checks.Failure: "31;1", checks.Unchecked: "36",
}

// leave ends the telling, whatever the examination is still at.
func (d *checkup) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out = nil
}

func (d *checkup) examine(ctx context.Context, path string, bar *cli.Progress) {
	options, file, err := config.Service(path)
	if err == nil {
		options.Logger, err = file.Log.Logger(io.Discard)
	}
	if err != nil {
		d.add("config", checks.Failure, "%v", err)
		return
	}
	d.add("config", checks.OK, "%s can be read", path)
	m := options.Model
	d.add("model", checks.OK, "%s: %d × %d cells of %.0f m, step %v",
		m.ID(), m.Grid.Width(), m.Grid.Height(), 1000*m.Grid.CellKM(), m.Step)
	d.starts(options.Later)
	service.Examine(ctx, options, file.Beside(), d.tell)
	if sums, err := countfiles.Spent(file.KeyFile); err != nil {
		d.add("counts", checks.Failure, "%v", err)
	} else if sums != nil {
		service := ""
		if file.CountsUsers() {
			service = ", and beside that what \"counts serve\" publishes"
		}
		d.add("counts", checks.OK, "the key's ledger has %d published days: ε of a user's day is "+
			"at most %g, of 31 days %g%s", sums.Days, sums.MostInADay, sums.MostIn31, service)
	}
	d.counts(ctx, file, options)
	switch {
	case ctx.Err() != nil:
	case d.count(checks.Failure) > 0: // it takes long, and what has failed comes first
		d.add("expectation", checks.Unchecked, "not checked, because a check has failed")
	default:
		d.simulate(ctx, options, bar)
	}
}

// counts looks at the services that count, where the config speaks of them.
func (d *checkup) counts(ctx context.Context, file config.File, first service.Options) {
	if !file.CountsUsers() {
		return
	}
	failed := d.count(checks.Failure) > 0 // brokers or topics are missing, say
	n, err := file.Counting()
	if err != nil {
		d.add("counts", checks.Failure, "%v", err)
	} else {
		for _, o := range []service.Options{n.Windows, n.Totals} {
			service.ExamineCounting(ctx, o, n.Count, d.tell)
		}
	}
	if failed || err != nil {
		d.add("fleet", checks.Unchecked, "not checked, because a check has failed")
		return
	}
	s := n.Settings
	checks.Fleet(ctx, first.Start(), s.Zones.Count()-1, float64(s.PerDay)/s.Epsilon, d.tell)
}

// starts says which version of the model is due now. The clock decides nothing: fixes
// have times of their own.
func (d *checkup) starts(later []*engine.Version) {
	if len(later) == 0 {
		return
	}
	now, due := time.Now(), "the first version"
	for _, v := range later {
		if !v.ID.Start().After(now) {
			due = v.ID.String()
		}
	}
	d.add("models", checks.OK, "%d later versions; a fix of this moment has %s", len(later), due)
}

// simulating announces a simulation of the error, and returns what it reports to.
func simulating(ctx context.Context, bar *cli.Progress) func(done, total int64) error {
	bar.Announce("simulating what error to expect ...")
	bar.Phase("simulating", nil)
	return bar.Reporter(ctx, "steps")
}

// simulate says what the releases are worth. It is no failure if that is nothing:
// it is the user's decision.
func (d *checkup) simulate(ctx context.Context, o service.Options, bar *cli.Progress) {
	x, err := expect.Simulate(ctx, o.Model, o.Release,
		expect.Options{Tracks: d.tracks, Seed: expect.Seed, Progress: simulating(ctx, bar)})
	if err != nil {
		d.add("expectation", checks.Failure, "%v", err)
		return
	}
	s := x.Summary()
	d.expected = &s
	level, advice := checks.OK, s.LittleGain()
	if advice != "" {
		level, advice = checks.Warning, "\n"+advice
	}
	d.add("expectation", level, "%s. Later records show more of the past: \"geodither sanitize "+
		"--report\" measures it%s", s.Verdict(), advice)
}

func (d *checkup) count(level string) (n int) {
	for _, f := range d.findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// finish prints what comes after the last finding; as JSON, everything.
func (d *checkup) finish(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			OK        bool             `json:"ok"`
			Warnings  int              `json:"warnings"`
			Unchecked int              `json:"unchecked"`
			Findings  []checks.Finding `json:"findings"`
			Expected  *expect.Summary  `json:"expected,omitempty"`
		}{
			d.count(checks.Failure) == 0, d.count(checks.Warning), d.count(checks.Unchecked),
			d.findings, d.expected,
		})
	}
	if d.expected == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "\nno check failed; %s, %d unchecked (--json names all)\n\n%s",
		cli.Quantity(int64(d.count(checks.Warning)), "warning"), d.count(checks.Unchecked),
		d.expected.Figures())
	return err
}
