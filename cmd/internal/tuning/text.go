package tuning

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/law"
)

// printResult prints the plans and the choice, for a terminal.
func printResult(out io.Writer, r *tune.Result) {
	say := func(text string) {
		for _, line := range cli.Wrap(text, cli.Columns) {
			fmt.Fprintln(out, line)
		}
	}
	say(fmt.Sprintf("Looked at %d settings on %s in turn, and measured the best of them on more "+
		"of their days; %s held out of the choice.", len(r.Scouted),
		cli.Quantity(int64(r.Users), "user"), cli.Quantity(int64(r.Held), "user")))
	fmt.Fprintln(out)
	say("The best plan for each Σε a day, with the errors while somebody reports:")
	fmt.Fprintln(out)
	printPlans(out, r.Plans)
	for _, line := range r.Words() {
		fmt.Fprintln(out)
		say(line)
	}
}

// printPlans prints a row for the model alone, and one for each plan.
func printPlans(out io.Writer, plans []tune.Outcome) {
	const columns = "%6s  %-20s %8s %8s %5s  %s\n"
	fmt.Fprintf(out, columns, "Σε", "releases", "median", "mean", "gain", "good for")
	for i := range plans {
		p := &plans[i]
		if i == 0 {
			fmt.Fprintf(out, columns, "0", "the model alone", tune.Length(p.BlindKM),
				tune.Length(p.BlindMeanKM), "-", "nothing of one user")
		}
		fmt.Fprintf(out, columns, tune.Number(p.DayEpsilon), p.Plan(), tune.Length(p.MedianKM),
			tune.Length(p.MeanKM), fmt.Sprintf("%.0f %%", 100*p.Gain()), p.GoodFor())
	}
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
    epsilon: %s  # %d releases a day
    window: %s
    spent: predict
`,
		ModelFile, KeyFile, p.Mechanism, decimal(p.Epsilon), delta,
		tune.Short(p.Interval), decimal(p.DayEpsilon), p.ReleasesDay(), tune.Short(window))
	return b.String()
}

// decimal writes a number as YAML and people read it, to a billionth, the unit in which ε is
// counted.
func decimal(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 9, 64), "0"), ".")
}
