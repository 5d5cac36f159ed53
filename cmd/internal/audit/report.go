package audit

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/geodither/geodither/mechanism/law"
)

// Check is one kind of comparison.
type Check struct {
	Name string `json:"name"`
	// Says states what holds if the check passes.
	Says string `json:"says"`
	// Trials is the number of comparisons.
	Trials   int64    `json:"trials"`
	Failures int64    `json:"failures"`
	Details  []string `json:"details,omitempty"`
}

// mostDetails bounds the different failures that a check describes.
const mostDetails = 6

// fail counts a failure, and keeps its description if it is new.
func (c *Check) fail(format string, args ...any) {
	c.Failures++
	detail := fmt.Sprintf(format, args...)
	if len(c.Details) < mostDetails && !slices.Contains(c.Details, detail) {
		c.Details = append(c.Details, detail)
	}
}

// add adds what another goroutine has counted.
func (c *Check) add(o *Check) {
	c.Trials += o.Trials
	failures := c.Failures + o.Failures
	for _, detail := range o.Details {
		c.fail("%s", detail)
	}
	c.Failures = failures
}

// finding describes the failures of a check.
func (c *Check) finding() string {
	return fmt.Sprintf("%s: %d of %d trials (%s)", c.Name, c.Failures, c.Trials,
		strings.Join(c.Details, "; "))
}

// checks are all checks of an audit, or what one duel has counted of them.
type checks struct{ sweep, rules, equal, places, attack Check }

func newChecks() checks {
	return checks{
		sweep: Check{Name: "sweep", Says: "the votes and weights, or surrogates and likelihoods, " +
			"of all cells are as stated, and differ by e^ε at most"},
		rules: Check{Name: "rules", Says: "whether a release is drawn, and all bytes without " +
			"one, do not depend on the place"},
		equal: Check{Name: "equal releases", Says: "records, states, dead letters and counters " +
			"beside equal releases are equal byte for byte"},
		places: Check{Name: "places", Says: "cells with one vote or one surrogate have the same " +
			"bytes, under the same noise"},
		attack: Check{Name: "attack", Says: "guesses between two places are right at most e^ε " +
			"times as often as wrong"},
	}
}

func (c *checks) list() []*Check {
	return []*Check{&c.sweep, &c.rules, &c.equal, &c.places, &c.attack}
}

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

// bounded returns the lower bound on ε that guesses give.
func bounded(hits, misses int64, alpha float64) Bound {
	epsilon := min(epsilonLowerBound(hits, misses, alpha), math.MaxFloat64)
	return Bound{Epsilon: epsilon, Hits: hits, Misses: misses}
}

// newReport adds up what the duels have found, in their order.
func newReport(s Settings, o Options, duels []*duel) *Report {
	r := &Report{
		Mechanism: s.Release.Mechanism, Epsilon: s.Release.Epsilon, Delta: s.Release.Delta,
		ModelID: s.Model.ID(), Settings: s.Facts(), Seed: o.Seed, Confidence: Confidence,
		Findings: []string{}, // an array in JSON
	}
	sum := newChecks()
	r.Checks = sum.list()
	hits, misses := int64(0), int64(0)
	for _, d := range duels {
		for i, c := range d.checks.list() {
			r.Checks[i].add(c)
		}
		hits, misses = hits+d.hits, misses+d.misses
		r.Records, r.Situations = r.Records+d.records, r.Situations+d.situations
	}
	r.Bound = bounded(hits, misses, 1-Confidence)
	if sum.attack.Trials = hits + misses; r.Bound.Epsilon > r.Epsilon {
		sum.attack.fail("the true ε is at least %.4f", r.Bound.Epsilon)
	}
	for _, c := range r.Checks {
		if c.Failures > 0 {
			r.Findings = append(r.Findings, c.finding())
		}
	}
	r.Passed = len(r.Findings) == 0
	return r
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
