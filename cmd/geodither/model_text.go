package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Print prints the summary for a person.
func (s modelSummary) Print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `model        %s
map          %d × %d cells of %.0f m; south %.5f, west %.5f, north %.5f, east %.5f
             map distances are off by at most %.2g %%
step         %gs
matrix       %d entries (%.1f a cell); a vehicle stays in its cell with probability %.2f on average
`,
		s.ID, s.Width, s.Height, s.CellM, s.Box.South, s.Box.West, s.Box.North, s.Box.East,
		100*s.Distortion, s.StepSeconds, s.Transitions,
		float64(s.Transitions)/float64(s.Width*s.Height), s.StayMean)
	if len(s.Classes) > 1 {
		fmt.Fprintf(&b, "classes      %s\n", s.Calendar)
		for _, c := range s.Classes {
			fmt.Fprintf(&b, "             %-26s %3d h a week, %d entries, stays %.2f, %.1f "+
				"bits a step\n", c.Name, c.Hours, c.Transitions, c.StayMean, c.StepBits)
		}
	}
	b.WriteString(gapLines(s.Gaps))
	fmt.Fprintf(&b,
		"uncertainty  %.1f bits at the start (as if %.0f cells were equally likely), %.1f bits "+
			`a step
size         %s in memory%s
source       %s
made by      %s
options      %s
trained on   %s
privacy      %s
`,
		s.InitialBits, math.Exp2(s.InitialBits), s.StepBits,
		cli.ByteSize(s.MemoryBytes), onDisk(s.FileBytes),
		s.Provenance.Source, s.Provenance.Tool, s.Provenance.Options,
		s.trainedOn(),
		privacyLine(s.Provenance.Privacy))
	if s.Fit != nil {
		printFit(&b, s.Fit, s.Verdict)
	} else {
		b.WriteString(s.unmeasured())
	}
	name := "suspicious"
	for _, r := range s.Suspicious {
		fmt.Fprintf(&b, "%-12s %s: %s\n", name, r.Name, r.Text)
		name = ""
	}
	if s.Expected != nil {
		fmt.Fprintf(&b, "\n%s", s.Expected)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// unmeasured says how the fit of a model is measured. That of a private one is measured on other
// people: on its own users it would tell about them what no ε covers.
func (s modelSummary) unmeasured() string {
	if s.Private {
		return "fit          not measured: geodither model fit MODEL --in TRACES-OF-OTHERS " +
			"measures it\n"
	}
	return "fit          not measured: geodither model fit MODEL --in TRACES --held-out 0.1 " +
		"measures it\n"
}

// trainedOn sums up the traces behind the model. The file of a private model does not count them,
// which is not the same as none.
func (s modelSummary) trainedOn() string {
	if s.Private {
		return "not told: counts of the traces are no part of a private model"
	}
	r := s.Provenance.Report
	return fmt.Sprintf("%s of %s (left out: %d outside the box, %d that another user reports "+
		"too), %s; %d of %d cells were seen",
		cli.Quantity(r.Fixes, "fix"), cli.Quantity(r.Users, "user"), r.OutsideBox, r.SharedFixes,
		cli.Quantity(r.Transitions, "transition"), r.CellsSeen, s.Width*s.Height)
}

// privacyLine says what anyone who has the model may learn about the traces.
func privacyLine(p *mobility.Privacy) string {
	if p == nil {
		return "learned without differential privacy: readers of this file learn about the " +
			"traces it was trained on"
	}
	return fmt.Sprintf("learned with differential privacy: ε = %s for each user's whole trace, "+
		"of which at most %d transitions count, within %d cells;\n             releases under it "+
		"cost their own ε", p.Epsilon, p.Contribution, p.Radius)
}

// printFit prints, in figures and words, how well a model predicts people that it was not trained
// on.
func printFit(b *strings.Builder, f *mobility.Fit, verdict []string) {
	fmt.Fprintf(b, "fit          on %s and %s, in stretches of at least %d",
		cli.Quantity(f.Users, "user"), cli.Quantity(f.Steps, "step"), f.Shortest)
	if f.Held != "" {
		fmt.Fprintf(b, " (%s)", f.Held)
	}
	fmt.Fprintf(b, "\n             log-likelihood a step %.2f (popularity alone %.2f, uniform "+
		"%.2f); %.2g %% of the moves are impossible under it\n",
		f.LogLikelihood, f.LogPopularity, f.LogUniform, 100*f.Impossible)
	if f.Epsilon > 0 {
		fmt.Fprintf(b, "             %s, ε = %g, δ = %g: error of the estimate %s on average, %s "+
			"in the median; blind %s and %s\n",
			f.Mechanism, f.Epsilon, f.Delta, cli.Metres(f.Estimate.Mean),
			cli.Metres(f.Estimate.Median), cli.Metres(f.Blind.Mean), cli.Metres(f.Blind.Median))
	}
	curve := report.Table{Columns: []string{"δ", "drift", "95 % interval", "|ΔX|"}}
	for _, p := range f.Calibration {
		interval := fmt.Sprintf("%.4f to %.4f", p.Low, p.High)
		if p.Low == p.High {
			interval = "not known" // of few users, or of users who never drifted
		}
		curve.Add(p.Delta, fmt.Sprintf("%.4f", p.Drift), interval, fmt.Sprintf("%.1f", p.SetMean))
	}
	if len(curve.Rows) > 0 {
		printTable(b, &curve)
	}
	name := "verdict"
	for _, line := range verdict {
		fmt.Fprintf(b, "%-12s %s\n", name, line)
		name = ""
	}
}

func onDisk(size int64) string {
	if size == 0 {
		return ""
	}
	return ", " + cli.ByteSize(size) + " on disk"
}

// printTable prints a table below the column of names.
func printTable(b *strings.Builder, t *report.Table) {
	var text strings.Builder
	_ = t.Text(&text) // a builder has no errors
	for line := range strings.Lines(text.String()) {
		fmt.Fprintf(b, "%13s%s", "", line)
	}
}

// gapLines are the lines of "model inspect" on the law of gaps.
func gapLines(rows []modelGap) string {
	if len(rows) == 0 {
		return "gaps         none learned: a gap of so many steps is as many moves\n"
	}
	var b strings.Builder
	for i, g := range rows {
		name := ""
		if i == 0 {
			name = "gaps"
		}
		fmt.Fprintf(&b, "%-12s %-18s %s\n", name, g.steps(), g.shares())
	}
	fmt.Fprintf(&b, "%13sused only where every report leaves a record: not with \"between: "+
		"skip\",\n%13snor with a budget that suppresses\n", "", "")
	return b.String()
}
