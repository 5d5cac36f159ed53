package audit

import (
	"fmt"
	"slices"
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
