package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

// claim makes a folder for its owner only, or takes an empty one as it is. It refuses another one:
// the model that a service runs with, or a key, must not be replaced. The returned function removes
// the folder if nothing was written into it.
func claim(folder string, log io.Writer) (leave func(), err error) {
	entries, err := os.ReadDir(folder)
	switch {
	case err == nil && len(entries) > 0:
		return nil, cli.Usagef("the folder %s is not empty: name a new one with --out", folder)
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(folder, 0o700)
	case err == nil:
		files.WarnOpenFolder(folder, log)
	}
	if err != nil {
		return nil, files.Unwritten(folder, err)
	}
	// Figures of people's traces and the key stay out of any repository around the folder.
	if err := files.Hide(folder, log); err != nil {
		_ = os.Remove(folder) // it is empty
		return nil, err
	}
	return func() {
		if entries, err := os.ReadDir(folder); err == nil && len(entries) == 1 {
			_ = os.Remove(filepath.Join(folder, entries[0].Name()))
			_ = os.Remove(folder)
		}
	}, nil
}

// Files of a tuned folder, besides its report.
const (
	tunedConfig = "geodither.yml"
	tunedModel  = "model.avro"
	tunedKey    = "noise.key"
)

// errNoChoice ends a search for a target that no plan reaches. The report is written all the same.
var errNoChoice = errors.New(
	"no plan meets the target; the folder has the report and no config")

// deliver prints what was found and writes the folder. The config is written last: where it is, all
// else is.
func deliver(ctx context.Context, r *tune.Result, folder string, std cli.Streams) error {
	if err := printPlans(std.Out, r); err != nil {
		return err
	}
	if err := r.Report().Write(folder, func() error { return ctx.Err() }); err != nil {
		return files.Unwritten(folder, err)
	}
	in := func(name string) string { return filepath.Join(folder, name) }
	fmt.Fprintf(std.Out, "wrote %s\n", in("report.html"))
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
	if err := files.WriteWhole(in(tunedConfig), []byte(yamlOf(r))); err != nil {
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

// printPlans prints the plans and the choice, for a terminal.
func printPlans(out io.Writer, r *tune.Result) error {
	say := func(text string) {
		for _, line := range cli.Wrap(text, cli.Columns) {
			fmt.Fprintln(out, line)
		}
		fmt.Fprintln(out)
	}
	say(fmt.Sprintf("Looked at %d settings on %s in turn, and measured the best of them on more "+
		"of their days; %s held out of the choice.", len(r.Scouted),
		cli.Quantity(int64(r.Users), "user"), cli.Quantity(int64(r.Held), "user")))
	say("The best plan for each Σε a day, with the errors while somebody reports:")
	if err := r.Frontier().Text(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	say("What the same records show of the past, median and mean, if a reader waits (\"geodither " +
		"smooth\"). An attacker waits too. The last column is what all records of a day tell " +
		"about one moment, median and largest.")
	if err := r.Later().Text(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, line := range r.Words() {
		say(line)
	}
	return nil
}

// yamlOf returns the config of the choice.
func yamlOf(r *tune.Result) string {
	p := r.Promise
	var b strings.Builder
	fmt.Fprintf(&b, "# Configuration of \"geodither run -c FILE\", from \"geodither tune\". "+
		"Relative paths are relative to this file.\n# deploy/geodither.yml of the project "+
		"explains every key.\n#\n")
	for _, line := range r.Words() {
		for _, part := range cli.Wrap(line, 100) {
			fmt.Fprintf(&b, "# %s\n", part)
		}
	}
	window := (24*time.Hour + p.Step - 1) / p.Step * p.Step // in whole steps, at least a day
	delta := fmt.Sprintf("  delta: %s\n", decimal(p.Delta))
	if p.Mechanism == law.Codebook {
		delta = "" // it has no location set
	}
	fmt.Fprintf(&b, `
brokers: [localhost:9092]  # a secured cluster needs the section kafka: deploy/SETUP.md
group: geodither
# input: {preset: traccar}  # for records of another form than Avro's: schemas/RECORDS.md

topics:
  raw: fleet.raw
  sanitized: fleet.sanitized
  create: true  # all but the raw topic

model: %s
key_file: %s
state_dir: geodither-state

release:
  mechanism: %s
  epsilon: %s
%s  interval: %s
  budget:
    epsilon: %s  # %d releases a day
    window: %s
`,
		tunedModel, tunedKey, p.Mechanism, decimal(p.Epsilon), delta,
		tune.Short(p.Interval), decimal(p.DayEpsilon), p.ReleasesDay(), tune.Short(window))
	return b.String()
}

// decimal writes a number as YAML and people read it, to a billionth, the unit in which ε is
// counted.
func decimal(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 9, 64), "0"), ".")
}
