package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/noise"
)

// Files of a tuned folder.
const (
	tunedConfig = "geodither.yml"
	tunedModel  = "model.avro"
	tunedKey    = "noise.key"
)

// errNoChoice ends a search for a target that nothing reaches: the frontier is there,
// and no config.
var errNoChoice = errors.New("no setting meets the target; the folder has the frontier and no config")

// deliver prints what was found and writes the folder, the config last: where it
// is, all else is.
func (f *tuneFlags) deliver(ctx context.Context, r *tune.Result, std cli.Streams) error {
	printTuned(std.Out, r)
	if err := r.Report().Write(f.out, func() error { return ctx.Err() }); err != nil {
		return files.Unwritten(f.out, err)
	}
	in := func(name string) string { return filepath.Join(f.out, name) }
	fmt.Fprintf(std.Out, "\nwrote %s\n", in("report.html"))
	switch {
	case r.Promise == nil && r.Options.TargetKM == 0 && r.Options.TargetEpsilonDay == 0:
		return nil
	case r.Promise == nil:
		return errNoChoice
	}
	model, err := files.Prepare(ctx, in(tunedModel), r.Model)
	if err != nil {
		return err
	}
	defer model.Discard()
	if err := files.WriteKey(in(tunedKey), noise.NewKey()); err != nil {
		return files.Unwritten(in(tunedKey), err)
	}
	if err := model.Commit(); err != nil {
		return err
	}
	if err := files.WriteWhole(in(tunedConfig), []byte(tunedYAML(r))); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, `wrote %s
wrote %s
wrote %s: keep it as secret as the traces
next: put your brokers, group and topics into the config. Stop what runs in that
group under other settings first: both would release the same fixes. Then
  geodither doctor -c %s
  geodither run -c %s
`, in(tunedConfig), in(tunedModel), in(tunedKey), in(tunedConfig), in(tunedConfig))
	return nil
}

// printTuned is the frontier and the choice, for a terminal.
func printTuned(out io.Writer, r *tune.Result) {
	say := func(text string) {
		for _, line := range cli.Wrap(text, cli.Columns) {
			fmt.Fprintln(out, line)
		}
	}
	say(fmt.Sprintf("Looked at %d settings on %s in turn, and measured %d of them on more of their fixes; %s held out of the choice.",
		len(r.Scouted), cli.Quantity(int64(r.Users), "user"), len(r.Measured), cli.Quantity(int64(r.Held), "user")))
	if rows := thinned(r.Frontier); len(rows) > 0 {
		fmt.Fprintln(out)
		say(`What nothing beats: whatever costs less has a larger error. "200 m" is what of ε a day tells likely places so far apart from each other.`)
		const columns = "%8s %7s  %-22s %8s %6s %5s %5s %5s %4s\n"
		fmt.Fprintf(out, columns, "ε a day", "200 m", "median error (95 %)", "blind", "cell", "step", "every", "ε", "δ")
		for i := range rows {
			o := &rows[i]
			fmt.Fprintf(out, columns, tune.Number(o.EpsilonDay()), tune.Number(o.Day200M()), o.Band(), tune.Length(o.BlindKM),
				tune.Length(o.CellM/1000), tune.Short(o.Step), tune.Short(o.Interval), tune.Number(o.Epsilon), tune.Number(o.Delta))
		}
	}
	for _, line := range r.Words() {
		fmt.Fprintln(out)
		say(line)
	}
}

// thinned returns about twenty of many rows, with the first and the last.
func thinned(rows []tune.Outcome) (some []tune.Outcome) {
	const most = 20
	if len(rows) <= most {
		return rows
	}
	for i := range most {
		some = append(some, rows[i*(len(rows)-1)/(most-1)])
	}
	return some
}

// tunedYAML is the config.
func tunedYAML(r *tune.Result) string {
	p := r.Promise
	var b strings.Builder
	fmt.Fprintf(&b, "# Configuration of \"geodither run -c FILE\", from \"geodither tune\". Relative paths are relative to this file.\n"+
		"# deploy/geodither.yml of the project explains every key.\n#\n")
	for _, line := range r.Words() {
		for _, part := range cli.Wrap(line, 100) {
			fmt.Fprintf(&b, "# %s\n", part)
		}
	}
	window := (24*time.Hour + p.Step - 1) / p.Step * p.Step // in whole steps, at least a day
	fmt.Fprintf(&b, `
brokers: [localhost:9092]
group: geodither

topics:
  raw: fleet.raw
  sanitized: fleet.sanitized
  create: true  # all but the raw topic

encoding:
  raw: avro
  sanitized: avro

model: %s
key_file: %s
state_dir: geodither-state

release:
  mechanism: %s
  epsilon: %s
  delta: %s
  interval: %s
  budget:
    epsilon: %s  # %d releases at this interval: not spent before the window ends
    window: %s
    spent: predict
`, tunedModel, tunedKey, r.Options.Release.Mechanism, decimal(p.Epsilon), decimal(p.Delta), tune.Short(p.Interval),
		decimal(p.EpsilonDay()), p.ReleasesDay(), tune.Short(window))
	return b.String()
}

// decimal writes a number as YAML and people read it, to a billionth, which is what
// ε is counted in.
func decimal(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 9, 64), "0"), ".")
}
