package audit

import "fmt"

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
	days, exponents, periods, law, streams, attack                          Check
	fed                                                                     int64
}

// texts are the names of the checks, and what holds if they pass, in the order of list.
var texts = [...][2]string{
	{"places", "cells with one surrogate or one vote, and any place within a cell, give the same " +
		"records, states, dead letters and counters byte for byte"},
	{"border", "a fix far outside the map has the effect, byte for byte, of one in the cell that " +
		"it is clamped to; as a dead letter it leaves no record, no state and no trace of how far"},
	{"equal releases", "after equal releases records and states are equal byte for byte, " +
		"whatever the truth was"},
	{"rules", "intervals, hours, budgets, repeats and lateness look at public facts alone"},
	{"retries", "another instance gives the same bytes for the same record and state"},
	{"records", "an observer computes every field of the record, its key, its timestamp and the " +
		"state from the releases alone, byte for byte"},
	{"account", "the ε of the records adds up to what states and counters say, and no window " +
		"exceeds its budget"},
	{"inference", "location sets hold their mass, releases lie where all places of the set can " +
		"reach, and the posterior is that of Bayes' rule under the law by its definition"},
	{"points", "a release has the very bits of a point of the lattice or of the codebook, which " +
		"all places share; where there is one place only, it follows from public facts"},
	{"days", "a day whose key was destroyed has no releases, and later days keep theirs byte for " +
		"byte"},
	{"exponents", "K and all pairs of places, or the votes of all cells, are as stated in whole " +
		"numbers, and no likelihoods differ by more than ε"},
	{"periods", "noise has the stated size in every n-th step, release and user, in every hour, " +
		"and for each user"},
	{"law", "noise, or how often each code point is drawn, has the stated law: size, direction, " +
		"tails and independence"},
	{"streams", "no two releases share their noise, whichever fact differs"},
	{"attack", "an attacker's guesses between two places are right at most e^ε times as often as " +
		"wrong"},
}

// newChecks returns the checks before anything was counted.
func newChecks() *checks {
	c := new(checks)
	for i, check := range c.list() {
		check.Name, check.Says = texts[i][0], texts[i][1]
	}
	return c
}

func (c *checks) list() []*Check {
	return []*Check{
		&c.places, &c.border, &c.equal, &c.rules, &c.retry, &c.records, &c.account,
		&c.inference, &c.point, &c.days, &c.exponents, &c.periods, &c.law, &c.streams, &c.attack,
	}
}

func (c *checks) add(o *checks) {
	mine, others := c.list(), o.list()
	for i := range mine {
		mine[i].add(others[i])
	}
	c.fed += o.fed
}
