package audit

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/law"
)

// Report is what the audit of a service has found. It holds no place and no user.
type Report struct {
	Checks []*Check `json:"checks"`
	// Records is the number of raw records that the subject was fed.
	Records int64 `json:"records"`
	// Tests is the number of statistical tests. All of them together raise a false alarm with
	// a probability of at most 1 - Confidence.
	Tests      int     `json:"tests"`
	Confidence float64 `json:"confidence"`
	// Bound is a lower bound on the true ε at AttackConfidence, from Hits right and Misses
	// wrong guesses between two places of one location set.
	Bound            float64 `json:"bound"`
	AttackConfidence float64 `json:"attack_confidence"`
	Hits             int64   `json:"hits"`
	Misses           int64   `json:"misses"`
	Passed           bool    `json:"passed"`
	// Settings are the Facts of what was audited. Older reports have none.
	Settings map[string]string `json:"settings,omitempty"`
}

// Check is one kind of test of the service.
type Check struct {
	Name string `json:"name"`
	// Says states what holds if the check passes.
	Says string `json:"says"`
	// Trials is the number of comparisons, or of releases that were tested.
	Trials int64 `json:"trials"`
	// Power describes what the check would have found.
	Power    string   `json:"power"`
	Failures int64    `json:"failures"`
	Details  []string `json:"details,omitempty"`
}

// mostDetails bounds the different failures that a check describes.
const mostDetails = 6

// fail counts a failure, and keeps its description if it is new.
func (c *Check) fail(format string, args ...any) {
	c.Failures++
	detail := fmt.Sprintf(format, args...)
	for _, known := range c.Details {
		if known == detail {
			return
		}
	}
	if len(c.Details) < mostDetails {
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

// checks are all checks of an audit, or what one goroutine has counted of them.
type checks struct {
	places, border, equal, rules, retry, records, account, inference, point Check
	law, periods, streams, attack                                           Check
	fed                                                                     int64
}

// newChecks returns the checks under settings, before anything was counted.
func newChecks(s Settings) *checks {
	c := checksOfNoise()
	if !s.coded() {
		return c
	}
	c.places.Name, c.places.Says = "votes", "cells that vote for one code point, and any place "+
		"within a cell, give the same records, states, dead letters and counters byte for byte"
	if s.Release.Near != (law.Near{}) { // each cell has a law of its own
		c.places.Says = "any place within a cell gives the same records, states, dead letters " +
			"and counters byte for byte"
	}
	c.inference.Says = "the posterior is that of Bayes' rule, with votes by their definition"
	c.point.Name, c.point.Says = "code points", "each release has the very bits of a code point "+
		"that follows from public facts, and of a codebook of one point all follows from them"
	c.law.Says = "code points are drawn by the stated law: the own one, others by distance, and " +
		"independently"
	c.periods.Says = "code points are drawn by the stated law in every n-th step, release and user"
	c.streams.Says = "releases of one record from two places do not share their noise"
	return c
}

func checksOfNoise() *checks {
	return &checks{
		places: Check{
			Name: "surrogates", Says: "cells with one surrogate, and any place within a cell, " +
				"give the same records, states, dead letters and counters byte for byte",
		},
		border: Check{
			Name: "border",
			Says: "a fix far outside the map has the effect, byte for byte, of one " +
				"in the cell that it is clamped to; as a dead letter it leaves no record, " +
				"no state and no trace of how far away it was",
		},
		equal: Check{
			Name: "equal releases", Says: "after equal releases records and states are equal " +
				"byte for byte, whatever the truth was",
		},
		rules: Check{
			Name: "rules", Says: "intervals, adaptive releases, budgets, repeats and lateness " +
				"look at public facts alone",
		},
		retry: Check{
			Name: "retries",
			Says: "another instance gives the same bytes for the same record and state",
		},
		records: Check{
			Name: "records", Says: "an observer computes every field of the record, its key, " +
				"its timestamp and the state from the releases alone, byte for byte",
		},
		account: Check{
			Name: "account",
			Says: "the ε of the records adds up to what states and counters say, " +
				"and no window exceeds its budget",
		},
		inference: Check{
			Name: "inference", Says: "location sets hold their mass, releases lie where " +
				"all places of the set can reach, and the posterior is that of Bayes' rule with " +
				"K built by brute force",
		},
		point: Check{
			Name: "single cells", Says: "a location set of one cell is released as that cell",
		},
		periods: Check{
			Name: "periods", Says: "noise has the stated size in every n-th step, release and user",
		},
		law: Check{
			Name: "law", Says: "noise has the stated law: size, direction, tails and independence",
		},
		streams: Check{Name: "streams", Says: "no two releases share their noise"},
		attack: Check{
			Name: "attack", Says: "an attacker's guesses between two places are right at most " +
				"e^ε times as often as wrong",
		},
	}
}

func (c *checks) list() []*Check {
	return []*Check{
		&c.places, &c.border, &c.equal, &c.rules, &c.retry, &c.records, &c.account,
		&c.inference, &c.point, &c.periods, &c.law, &c.streams, &c.attack,
	}
}

func (c *checks) add(o *checks) {
	mine, others := c.list(), o.list()
	for i := range mine {
		mine[i].add(others[i])
	}
	c.fed += o.fed
}
