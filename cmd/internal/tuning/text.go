package tuning

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/law"
)

// printResult prints the frontier and the choice, for a terminal.
func printResult(out io.Writer, r *tune.Result) {
	say := func(text string) {
		for _, line := range cli.Wrap(text, cli.Columns) {
			fmt.Fprintln(out, line)
		}
	}
	say(fmt.Sprintf("Looked at %d settings on %s in turn, and measured %d of them on more of "+
		"their fixes; %s held out of the choice.",
		len(r.Scouted), cli.Quantity(int64(r.Users), "user"), len(r.Measured),
		cli.Quantity(int64(r.Held), "user")))
	if len(r.Frontier) > 0 {
		fmt.Fprintln(out)
		say(`The best settings: whatever costs less has a larger error. "200 m" is the part of ε ` +
			`a day that tells likely places 200 m apart from each other.`)
		for _, mechanism := range r.Options.Mechanisms {
			printFrontier(out, mechanism, thinned(slices.DeleteFunc(slices.Clone(r.Frontier),
				func(o tune.Outcome) bool { return o.Mechanism != mechanism })))
		}
	}
	for _, line := range r.Words() {
		fmt.Fprintln(out)
		say(line)
	}
}

// printFrontier prints the best settings of one mechanism.
func printFrontier(out io.Writer, mechanism string, rows []tune.Outcome) {
	if len(rows) == 0 {
		return
	}
	const columns = "%8s %7s  %-22s %8s %6s %5s %5s %5s %4s\n"
	fmt.Fprintf(out, "\n%s:\n", mechanism)
	fmt.Fprintf(out, columns, "ε a day", "200 m", "median error (95 %)", "blind", "cell",
		"step", "every", "ε", "δ")
	for i := range rows {
		o := &rows[i]
		delta := tune.Number(o.Delta)
		if mechanism == law.Codebook {
			delta = "-"
		}
		fmt.Fprintf(out, columns,
			tune.Number(o.EpsilonDay()), tune.Number(o.Day200M()), o.Band(),
			tune.Length(o.BlindKM), tune.Length(o.CellM/1000), tune.Short(o.Step),
			tune.Short(o.Interval), tune.Number(o.Epsilon), delta)
	}
}

// thinned returns fifteen of many rows, with the first and the last one.
func thinned(rows []tune.Outcome) (some []tune.Outcome) {
	const most = 15
	if len(rows) <= most {
		return rows
	}
	for i := range most {
		some = append(some, rows[i*(len(rows)-1)/(most-1)])
	}
	return some
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
%s  interval: %s
  budget:
    epsilon: %s  # %d releases at this interval: not spent before the window ends
    window: %s
    spent: predict
`,
		ModelFile, KeyFile, p.Mechanism, decimal(p.Epsilon), delta,
		tune.Short(p.Interval), decimal(p.EpsilonDay()), p.ReleasesDay(), tune.Short(window))
	return b.String()
}

// decimal writes a number as YAML and people read it, to a billionth, the unit in which ε is
// counted.
func decimal(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 9, 64), "0"), ".")
}
