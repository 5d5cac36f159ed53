package attack

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	serviceaudit "github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/law"
)

// Report is what "geodither audit" prints: what the audit of the mechanism has found and where its
// location sets come from, and what the audit of the service has found.
type Report struct {
	*audit.Report
	Service   *serviceaudit.Report `json:"service"`
	Visits    int                  `json:"visits"`         // steps that were followed
	Met       int                  `json:"situations_met"` // location sets among them
	Simulated bool                 `json:"simulated"`
	Again     string               `json:"command"`
	Seconds   float64              `json:"seconds"`
	// Program and Time say which geodither ran the audit, and when it ended. Older reports have
	// neither.
	Program string     `json:"program,omitempty"`
	Time    *time.Time `json:"time,omitempty"`
}

// Print prints the report for a person.
func (r Report) Print(out io.Writer) error {
	verdict := "nothing found"
	if !r.Passed {
		verdict = fmt.Sprintf("%d findings", len(r.Findings))
		if len(r.Findings) == 1 {
			verdict = "1 finding"
		}
	}
	tracks := "traces"
	if r.Simulated {
		tracks = "simulated traces"
	}
	a := r.Attack
	settings := fmt.Sprintf("%s at ε = %g", r.Mechanism, r.Epsilon)
	if r.Mechanism != law.Codebook {
		settings += fmt.Sprintf(", δ = %g", r.Delta)
	}
	fmt.Fprintf(out, "verdict      %s: %s on model %s\n", verdict, settings, r.ModelID)
	for _, finding := range r.Findings {
		fmt.Fprintf(out, "finding      %s\n", finding)
	}
	fmt.Fprintf(out, "true ε       at least %.4f with confidence %g; stated is %g\n",
		a.Bound, r.Confidence, r.Epsilon)
	fmt.Fprintf(out, "attack       %d draws in %s; the strongest: %s, places %s, event %q\n",
		r.Draws, time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond),
		a.Worst.Situation, a.Worst.Places, a.Worst.Event)
	fmt.Fprintf(out, "             %s\n", guesses(a.Worst))
	if near := a.Near; near != nil {
		fmt.Fprintf(out, "near places  at least %.4f with confidence %g; promised is %.4f, the "+
			"logarithm of the near factor\n", near.Bound, r.Confidence, a.NearLimit)
	}
	fmt.Fprintf(out, "low bits     %s\n", r.bits())
	fmt.Fprintf(out, "repeat       %s: the same facts give the same bytes\n", passes(r.Repeat))
	if r.Law == nil {
		fmt.Fprintf(out, "separation   %s: another key, user, cell, step, number, set, ε, "+
			"mechanism or model gives other noise\n", passes(r.Separation))
		fmt.Fprintf(out, "surrogates   %s: any cell of the map is published as the nearest one of "+
			"the set is, with its estimate and radius\n", passes(r.Surrogates))
	} else {
		truth, same := "vote", "cells that vote for one code point"
		if a.Near != nil { // each cell has a law of its own
			truth, same = "cell", "all places of one cell"
		}
		fmt.Fprintf(out, "separation   %s: another key, user, %s, step, number, codebook, ε or "+
			"model gives other noise\n", passes(r.Separation), truth)
		fmt.Fprintf(out, "votes        %s: %s are published the same, with their estimate and "+
			"radius\n", passes(r.Surrogates), same)
		fmt.Fprintf(out, "law          %s: code points are drawn with the stated probabilities\n",
			passes(*r.Law))
	}
	fmt.Fprintf(out, "estimates    %s: equal releases have the same estimate, radius and kind "+
		"beside them\n", passes(r.Estimates))
	switch {
	case r.Ratio == nil:
	case r.Law != nil:
		fmt.Fprintf(out, "weights      %d comparisons in whole numbers, of all cells of the map; "+
			"two cells differ by %.9g ε at most, %d by more than ε or otherwise than stated\n",
			r.Ratio.Comparisons, r.Ratio.Worst, r.Ratio.Failures)
	default:
		how := "with a tolerance of 1e-9"
		if r.Ratio.Exact {
			how = "K and the places in whole numbers"
		}
		fmt.Fprintf(out, "exponents    %d comparisons, %s; they differ by %.9g ε at most, %d by "+
			"more than ε\n", r.Ratio.Comparisons, how, r.Ratio.Worst, r.Ratio.Failures)
	}
	sets := "location sets"
	if r.Law != nil {
		sets = "codebooks"
	}
	fmt.Fprintf(out, "\n%d %s met in %d steps of %s; attacked:\n", r.Met, sets, r.Visits, tracks)
	if err := r.table(out); err != nil {
		return err
	}
	if err := printService(out, r.Service, r.Epsilon); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `
What it means: %s
The same report again: %s
`, r.meaning(), r.Again)
	return err
}

// meaning says what follows, and what does not.
func (r Report) meaning() string {
	limits := "a lower bound never proves privacy: mechanism/PROOFS.md does, for the lattice and " +
		"the codebook to the last bit."
	if r.Passed {
		return fmt.Sprintf("an observer who knows all but the key multiplied the odds of a place "+
			"by at least e^%.2f, with confidence %g (seen: %s), in this attack, which e^ε = %.2f "+
			"allows. Nothing contradicts the guarantee, but %s",
			r.Attack.Bound, r.Confidence, r.seen(), math.Exp(r.Epsilon), limits)
	}
	return "the guarantee does not hold for what this program publishes with this mechanism, as " +
		"the findings say. What has no finding is not proved either: " + limits
}

// seen is the odds of the strongest test's draws, beside the bound that follows.
func (r Report) seen() string {
	w := r.Attack.Worst
	if w.Hits == 0 || w.Misses == 0 {
		return fmt.Sprintf("%d right, %d wrong", w.Hits, w.Misses)
	}
	return fmt.Sprintf("e^%.2f", w.Estimate)
}

func (r Report) bits() string {
	switch {
	case r.Law != nil:
		return fmt.Sprintf("%d of %d releases are code points that all places share, to the "+
			"last bit", r.Bits.Draws-r.Bits.OffLattice, r.Bits.Draws)
	case r.Bits.Lattice && r.Bits.OffLattice == 0:
		return fmt.Sprintf("%d of %d releases lie on the lattice that all places share, to "+
			"the last bit", r.Bits.Draws, r.Bits.Draws)
	case r.Bits.Lattice:
		return fmt.Sprintf("%d of %d releases lie beside the lattice that all places share",
			r.Bits.OffLattice, r.Bits.Draws)
	}
	return fmt.Sprintf("%d of %d releases (%.2g %%) cannot come from the other place, "+
		"with certainty", r.Bits.Certain, r.Bits.Draws, 100*r.Bits.Share())
}

// guesses says what the strongest test saw. Without both right and wrong guesses
// there is no ratio to take the logarithm of.
func guesses(r audit.AttackResult) string {
	switch {
	case r.Hits == 0 && r.Misses == 0:
		return fmt.Sprintf("no guess in %d draws", r.Draws)
	case r.Misses == 0:
		return fmt.Sprintf("%d right guesses and no wrong one in %d draws", r.Hits, r.Draws)
	case r.Hits == 0:
		return fmt.Sprintf("no right guess and %d wrong ones in %d draws", r.Misses, r.Draws)
	}
	return fmt.Sprintf("%d right guesses, %d wrong ones in %d draws: ln of their ratio is %.4f",
		r.Hits, r.Misses, r.Draws, r.Estimate)
}

func passes(c audit.CheckReport) string {
	if c.Failures == 0 {
		return fmt.Sprintf("passed, %d trials", c.Trials)
	}
	return fmt.Sprintf("FAILED in %d of %d trials (%s)",
		c.Failures, c.Trials, strings.Join(c.Details, "; "))
}

func (r Report) table(out io.Writer) error {
	best := map[string]float64{}
	for _, s := range r.Attack.Survey {
		best[s.Situation] = max(best[s.Situation], s.Bound)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if r.Law != nil {
		fmt.Fprintln(table, "codebook\tcode points\tcells\tsurvey's bound\t")
		for _, s := range r.Situations {
			fmt.Fprintf(table, "%s\t%d\t%d\t%.3f\t\n", s.Name, s.Points, s.Cells, best[s.Name])
		}
		if err := table.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprint(out, "cells: those that the prior holds possible; all cells of the "+
			"map vote\nthe more code points, the fewer releases speak for one of two places: "+
			"the survey's bound is lower, ε is not\n")
		return err
	}
	fmt.Fprintln(table, "hull\tcells\tvertices\twidth km\tarea km²\tsurvey's bound\t")
	for _, s := range r.Situations {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.2f\t%.2f\t%.3f\t\n",
			s.Name, s.Cells, s.Vertices, s.WidthKM, s.AreaKM2, best[s.Name])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(out,
		"width: the greatest distance of two cells of the set; the hull of their differences "+
			"spans twice as much, so up to twice the map\n"+
			"area: of that hull of differences, four to six times the area of the set's own hull; "+
			"0 on a line\n"+
			"fat, thin: whether the hull's shorter axis is at least a third of its longer one "+
			"(axes of inertia), or less; line, point: it has no area\n")
	return err
}

// serviceFindings are the failed checks, in words.
func serviceFindings(r *serviceaudit.Report) []string {
	var findings []string
	for _, c := range r.Checks {
		if c.Failures > 0 {
			findings = append(findings, fmt.Sprintf("the service fails the check %q, %d times in "+
				"%d trials: %s", c.Name, c.Failures, c.Trials, strings.Join(c.Details, "; ")))
		}
	}
	return findings
}

// printService prints one line a check: what was looked at, and what that would have found.
func printService(out io.Writer, r *serviceaudit.Report, epsilon float64) error {
	fmt.Fprintf(out, "\nservice      %d raw records were fed to the code that \"run\" and "+
		"\"sanitize\" use; %d statistical tests, all together at confidence %.6g\n", r.Records,
		r.Tests, r.Confidence)
	fmt.Fprintf(out, "true ε       at least %.4f with confidence %.6g, from %d right guesses and "+
		"%d wrong ones at these records; stated is %g\n\n",
		r.Bound, r.AttackConfidence, r.Hits, r.Misses, epsilon)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		verdict := "passed"
		if c.Failures > 0 {
			verdict = "FAILED"
		}
		fmt.Fprintf(table, "%s\t%s\t%d trials\t%s\n", c.Name, verdict, c.Trials, c.Says)
		fmt.Fprintf(table, "\t\t\twould find: %s\n", c.Power)
	}
	return table.Flush()
}
