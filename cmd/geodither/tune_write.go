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

	"github.com/geodither/geodither/mechanism/evaluation/tune"
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
func (f *tuneFlags) deliver(ctx context.Context, r *tune.Result, std streams) error {
	printTuned(std.out, r)
	if err := os.MkdirAll(f.out, 0o700); err != nil {
		return err
	}
	// What is measured of people's traces stays out of any repository around it, and so does the key.
	if err := os.WriteFile(filepath.Join(f.out, ".gitignore"), []byte("*\n"), 0o600); err != nil {
		return err
	}
	if err := r.Report().Write(f.out, func() error { return ctx.Err() }); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(f.out, name) }
	fmt.Fprintf(std.out, "wrote %s\n", in("report.html"))
	switch {
	case r.Promise == nil && r.Options.TargetKM == 0 && r.Options.TargetEpsilonDay == 0:
		return nil
	case r.Promise == nil:
		return errNoChoice
	}
	model, err := prepare(ctx, r.Model, in(tunedModel))
	if err != nil {
		return err
	}
	defer model.discard()
	if err := writeKey(in(tunedKey)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := model.commit(); err != nil {
		return err
	}
	if err := writeNew(in(tunedConfig), tunedYAML(r)); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "wrote %s, %s and %s, which is secret\nnext: put your brokers and topics into the config, then\n  geodither doctor -c %s\n  geodither run -c %s\n",
		in(tunedConfig), in(tunedModel), in(tunedKey), in(tunedConfig), in(tunedConfig))
	return nil
}

// printTuned is the frontier and the choice, for a terminal.
func printTuned(out io.Writer, r *tune.Result) {
	fmt.Fprintf(out, "Looked at %d settings on %s in turn, and measured %d of them on more of their fixes; %s held out of the choice\n",
		len(r.Scouted), quantity(int64(r.Users), "user"), len(r.Measured), quantity(int64(r.Held), "user"))
	if len(r.Frontier) > 0 {
		fmt.Fprint(out, "\nWhat nothing beats: whatever costs less has a larger error. \"within\" is what of ε a day tells likely places so far apart from each other.\n"+
			"   ε a day  median error (95 %)            blind      cell     step  release every      ε     δ   within 200 m, 1 km\n")
	}
	rows := thinned(r.Frontier)
	for i := range rows {
		o := &rows[i]
		fmt.Fprintf(out, "%10s  %-26s %9s %9s %8s %14s %6s %5s   %s, %s\n",
			tune.Number(o.EpsilonDay()), o.Error(),
			tune.Length(o.BlindKM), tune.Length(o.CellM/1000), tune.Short(o.Step), tune.Short(o.Interval), tune.Number(o.Epsilon), tune.Number(o.Delta),
			tune.Number(o.Day200M()), tune.Number(o.Day1KM()))
	}
	fmt.Fprintln(out)
	for _, line := range r.Words() {
		fmt.Fprintln(out, line)
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
		for _, part := range wrapped(line, 100) {
			fmt.Fprintf(&b, "# %s\n", part)
		}
	}
	// In whole steps, at least a day.
	window := (24*time.Hour + p.Step - 1) / p.Step * p.Step
	releases := int64((window + p.Interval - 1) / p.Interval)
	fmt.Fprintf(&b, `
brokers: [localhost:9092]
group: geodither

topics:
  raw: fleet.raw
  sanitized: fleet.sanitized
  create: true
  partitions: 4

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
    epsilon: %s  # %d releases
    window: %s
    spent: predict
`, tunedModel, tunedKey, r.Options.Release.Mechanism, decimal(p.Epsilon), decimal(p.Delta), tune.Short(p.Interval),
		decimal(float64(releases)*p.Epsilon), releases, tune.Short(window))
	return b.String()
}

// decimal writes a number as YAML and people read it, to a billionth, which is what
// ε is counted in.
func decimal(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 9, 64), "0"), ".")
}

// wrapped breaks a text into lines.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// writeNew writes a file that is not there yet.
func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
