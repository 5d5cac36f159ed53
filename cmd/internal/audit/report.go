package audit

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/geodither/geodither/mechanism/law"
)

// Report is what an audit has found. It holds no place and no user.
type Report struct {
	Mechanism string  `json:"mechanism"`
	Epsilon   float64 `json:"epsilon"`
	Delta     float64 `json:"delta"`
	ModelID   string  `json:"model_id"`
	// Settings are the Facts of what was audited.
	Settings map[string]string `json:"settings"`
	Seed     uint64            `json:"seed"`
	// Records is the number of raw records that the service's code was fed.
	Records int64 `json:"records"`
	// Situations is the number of different moments from which releases were drawn.
	Situations int `json:"situations"`
	// Bound exceeds the true ε with a probability of at most 1 - Confidence.
	Bound      Bound    `json:"bound"`
	Confidence float64  `json:"confidence"`
	Checks     []*Check `json:"checks"`
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

// Bound is a lower bound on ε, from right and wrong guesses between two places.
type Bound struct {
	Epsilon float64 `json:"epsilon"`
	Hits    int64   `json:"hits"`
	Misses  int64   `json:"misses"`
}

// Print prints the report for a person.
func (r *Report) Print(out io.Writer) error {
	verdict := "nothing found"
	if n := len(r.Findings); n == 1 {
		verdict = "1 finding"
	} else if n > 1 {
		verdict = fmt.Sprintf("%d findings", n)
	}
	settings := fmt.Sprintf("%s at ε = %g", r.Mechanism, r.Epsilon)
	if r.Mechanism != law.Codebook {
		settings += fmt.Sprintf(", δ = %g", r.Delta)
	}
	fmt.Fprintf(out, "verdict  %s: %s on model %s\n", verdict, settings, r.ModelID)
	for _, finding := range r.Findings {
		fmt.Fprintf(out, "finding  %s\n", finding)
	}
	fmt.Fprintf(out, "true ε   at least %.4f with confidence %g: %d right and %d wrong guesses\n",
		r.Bound.Epsilon, r.Confidence, r.Bound.Hits, r.Bound.Misses)
	fmt.Fprintf(out, "tried    %d raw records in %d situations, in %s\n\n", r.Records,
		r.Situations, time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		result := "passed"
		switch {
		case c.Failures > 0:
			result = "FAILED"
		case c.Trials == 0:
			result = "not tried"
		}
		fmt.Fprintf(table, "%s\t%s\t%d trials\t%s\n", c.Name, result, c.Trials, c.Says)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	meaning := "The guarantee does not hold for what this program publishes with these settings."
	if r.Passed {
		meaning = "Nothing contradicts the guarantee. An attack cannot prove it: " +
			"mechanism/PROOFS.md\nhas the proofs, and the faults that only geodither's tests find."
	}
	_, err := fmt.Fprintf(out, "\n%s\nThe same report again: %s\n", meaning, r.Again)
	return err
}
