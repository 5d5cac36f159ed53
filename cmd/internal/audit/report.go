package audit

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/geodither/geodither/mechanism/law"
)

// Report is what an audit has found. It holds no place and no user: of a situation it has sizes and
// shapes.
type Report struct {
	Mechanism string  `json:"mechanism"`
	Epsilon   float64 `json:"epsilon"`
	Delta     float64 `json:"delta"`
	ModelID   string  `json:"model_id"`
	// Settings are the Facts of what was audited.
	Settings map[string]string `json:"settings"`
	Seed     uint64            `json:"seed"`
	// Records is the number of raw records that the subject was fed.
	Records int64 `json:"records"`
	// Tests is the number of statistical tests. All of them and the attack together raise a false
	// alarm with a probability of at most 1 - Confidence.
	Tests      int     `json:"tests"`
	Confidence float64 `json:"confidence"`
	// Bound is the greatest lower bound on the true ε.
	Bound Bound `json:"bound"`

	Situations []SituationReport `json:"situations"`
	Visits     int               `json:"visits"`         // records of users who were followed
	Met        int               `json:"situations_met"` // different ones among them
	Simulated  bool              `json:"simulated"`
	Checks     []*Check          `json:"checks"`
	// Untested are the facts of a release of which it was not tested whether the noise depends on
	// them: changing one changes nothing on this map, or a fix was not released.
	Untested []string `json:"untested_facts,omitempty"`
	// Passed says that nothing was found. It does not say that the service is private: no attack
	// can show that. Findings are the faults, in words.
	Passed   bool     `json:"passed"`
	Findings []string `json:"findings"`

	// What the command adds: how to get the same report, how long it took, which geodither ran the
	// audit, and when it ended.
	Again   string     `json:"command"`
	Seconds float64    `json:"seconds"`
	Program string     `json:"program,omitempty"`
	Time    *time.Time `json:"time,omitempty"`
}

// Bound is a lower bound on ε at the report's confidence, from right and wrong guesses between two
// places of a situation.
type Bound struct {
	Epsilon   float64 `json:"epsilon"`
	Situation string  `json:"situation"`
	Hits      int64   `json:"hits"`
	Misses    int64   `json:"misses"`
}

// raise makes b the greater one of two bounds.
func (b *Bound) raise(other Bound, situation string) {
	if other.Epsilon > b.Epsilon || b.Situation == "" {
		*b = other
		b.Situation = situation
	}
}

// SituationReport describes a location set or a codebook without saying where it lies.
type SituationReport struct {
	Name    string  `json:"name"`
	Cells   int     `json:"cells"`             // of the location set, or of a codebook's prior
	Points  int     `json:"points,omitempty"`  // code points
	Corners int     `json:"corners,omitempty"` // of K
	Bound   float64 `json:"bound"`             // on the true ε
}

func (at *situation) describe(b Bound) SituationReport {
	r := SituationReport{Name: at.name, Cells: len(at.law.cells), Bound: b.Epsilon}
	if at.law.code != nil {
		r.Points = at.law.code.size()
	} else {
		r.Corners = len(at.law.k.corners)
	}
	return r
}

// Print prints the report for a person.
func (r *Report) Print(out io.Writer) error {
	verdict := "nothing found"
	if !r.Passed {
		verdict = fmt.Sprintf("%d findings", len(r.Findings))
		if len(r.Findings) == 1 {
			verdict = "1 finding"
		}
	}
	settings := fmt.Sprintf("%s at ε = %g", r.Mechanism, r.Epsilon)
	if r.Mechanism != law.Codebook {
		settings += fmt.Sprintf(", δ = %g", r.Delta)
	}
	fmt.Fprintf(out, "verdict      %s: %s on model %s\n", verdict, settings, r.ModelID)
	for _, finding := range r.Findings {
		fmt.Fprintf(out, "finding      %s\n", finding)
	}
	fmt.Fprintf(out, "true ε       at least %.4f with confidence %g; stated is %g\n",
		r.Bound.Epsilon, r.Confidence, r.Epsilon)
	fmt.Fprintf(out, "             %s: %d right guesses, %d wrong ones\n", r.Bound.Situation,
		r.Bound.Hits, r.Bound.Misses)
	fmt.Fprintf(out, "tried        %d raw records in %s through the code that \"run\" and "+
		"\"sanitize\" use, %d statistical tests\n\n", r.Records,
		time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond), r.Tests)
	if len(r.Untested) > 0 {
		fmt.Fprintf(out, "not tested   whether noise depends on: %s\n\n",
			strings.Join(r.Untested, ", "))
	}
	if err := r.printChecks(out); err != nil {
		return err
	}
	if err := r.printSituations(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nWhat it means: %s\nThe same report again: %s\n", r.meaning(),
		r.Again)
	return err
}

// printChecks prints what was looked at, and what that would have found.
func (r *Report) printChecks(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		verdict := "passed"
		switch {
		case c.Failures > 0:
			verdict = "FAILED"
		case c.Trials == 0:
			verdict = "not tried"
		}
		fmt.Fprintf(table, "%s\t%s\t%d trials\t%s\n", c.Name, verdict, c.Trials, c.Says)
		fmt.Fprintf(table, "\t\t\twould find: %s\n", c.Power)
	}
	return table.Flush()
}

func (r *Report) printSituations(out io.Writer) error {
	sets, sizes, tracks := "location sets", "corners of K", "traces"
	if r.Mechanism == law.Codebook {
		sets, sizes = "codebooks", "code points"
	}
	if r.Simulated {
		tracks = "simulated traces"
	}
	fmt.Fprintf(out, "\n%d %s met in %d steps of %s; attacked, with those of forced shapes:\n",
		r.Met, sets, r.Visits, tracks)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "situation\tcells\t%s\tbound\t\n", sizes)
	for _, s := range r.Situations {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.3f\t\n", s.Name, s.Cells, s.Points+s.Corners, s.Bound)
	}
	return table.Flush()
}

// meaning says what follows, and what does not.
func (r *Report) meaning() string {
	limits := "a lower bound never proves privacy: mechanism/PROOFS.md does, for the lattice and " +
		"the codebook to the last bit."
	if r.Passed {
		return fmt.Sprintf("an observer who knows all but the key multiplied the odds of a place "+
			"by at least e^%.2f in this attack, with confidence %g, which e^ε = %.2f allows. "+
			"Nothing contradicts the guarantee, but %s", r.Bound.Epsilon, r.Confidence,
			math.Exp(r.Epsilon), limits)
	}
	return "the guarantee does not hold for what this program publishes with these settings, as " +
		"the findings say. What has no finding is not proved either: " + limits
}
