package experiment

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
)

// Verdict is what the measurements say of a claim.
type Verdict string

// The verdicts. Of a single comparison: Holds and Fails if its whole confidence interval lies on
// the claimed or on the other side, Undecided else.
const (
	Holds     Verdict = "holds"
	Fails     Verdict = "fails"
	Depends   Verdict = "depends"
	Undecided Verdict = "undecided"
	Untested  Verdict = "not tested"
)

// comparison is one number that a claim says is above 0.
type comparison struct {
	where string // the data and the model
	what  string
	// over and by are the clusters' sums and weights, as in Ratio; the claim is that Σ over / Σ
	// by > 0.
	over, by []float64
}

// band returns the number with its interval at a confidence.
func (c *comparison) band(confidence float64) study.Band {
	return study.Signed(c.over, c.by, confidence)
}

// verdict of a single comparison. Where there is no interval nothing is decided.
func (c *comparison) verdict(confidence float64) Verdict {
	switch b := c.band(confidence); {
	case b.Low > 0:
		return Holds
	case b.High < 0:
		return Fails
	}
	return Undecided
}

// linear makes a comparison of sums of tallies: Σ weights[j]·(Σ quantity of tallies[j]) +
// constant·timestamps, for each user. The tallies are of the same users in one order and of the
// same numbers of timestamps.
func linear(
	where, what string, constant float64, weights []float64, tallies [][]study.Tally,
	quantity func(*study.Tally) float64,
) comparison {
	c := comparison{where: where, what: what}
	for i := range tallies[0] {
		n := float64(tallies[0][i].N)
		over := float64(constant * n)
		for j, w := range weights {
			over += float64(w * quantity(&tallies[j][i]))
		}
		c.over, c.by = append(c.over, over), append(c.by, n)
	}
	return c
}

// claim is a sentence of the paper that can be tested.
type claim struct {
	sentence string
	rule     string // what is compared, in words
	reason   string // what theory lets expect, true whatever is measured
	// comparisons must hold together. They are in the order of where.
	comparisons []comparison
	// strict: only all comparisons of a where together are the claim, such as not shrinking and not
	// growing, or a setting each of those that everywhere means; a single one that fails refutes
	// it.
	strict bool
	// numbers say, for each where, what was measured.
	numbers map[string]string
	// given is a verdict that does not come from comparisons.
	given Verdict
}

// level of each comparison, so that all intervals of the claim hold together with about 95 %
// confidence (Bonferroni).
func (c *claim) level() float64 { return 1 - (1-study.Level)/float64(max(1, len(c.comparisons))) }

// score counts the comparisons of a where, of all for "".
func (c *claim) score(where string) (hold, fail, open int) {
	for i := range c.comparisons {
		if at := &c.comparisons[i]; where == "" || at.where == where {
			switch at.verdict(c.level()) {
			case Holds:
				hold++
			case Fails:
				fail++
			default:
				open++
			}
		}
	}
	return hold, fail, open
}

// verdict sums the comparisons of a where up, of all for "". It holds if none fails and at least
// half of them hold, it fails if none holds and at least half fail, it depends if some hold and
// some fail, and is undecided otherwise.
func (c *claim) verdict(where string) Verdict {
	if c.given != "" {
		return c.given
	}
	if c.strict {
		return c.together(where)
	}
	return summed(c.score(where))
}

// together is the verdict of a strict claim: over all, that of its wheres summed up, but that it
// holds only if it does at each of them.
func (c *claim) together(where string) Verdict {
	hold, fail, open := c.score(where)
	if where != "" {
		switch {
		case fail > 0:
			return Fails
		case open > 0:
			return Undecided
		}
		return summed(hold, fail, open)
	}
	hold, fail, open = 0, 0, 0
	for _, where := range c.wheres() {
		switch c.together(where) {
		case Holds:
			hold++
		case Fails:
			fail++
		default:
			open++
		}
	}
	if fail == 0 && open > 0 {
		return Undecided
	}
	return summed(hold, fail, open)
}

func summed(hold, fail, open int) Verdict {
	switch {
	case hold+fail+open == 0:
		return Untested
	case hold > 0 && fail > 0:
		return Depends
	case hold > 0 && hold >= open:
		return Holds
	case fail > 0 && fail >= open:
		return Fails
	}
	return Undecided
}

// wheres are the data and models that the claim was tested on.
func (c *claim) wheres() (list []string) {
	seen := map[string]bool{}
	for _, at := range c.comparisons {
		if !seen[at.where] {
			seen[at.where] = true
			list = append(list, at.where)
		}
	}
	return list
}

// counted says how many comparisons hold, fail and decide nothing.
func (c *claim) counted(where string) string {
	hold, fail, open := c.score(where)
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{hold, "hold"}, {fail, "fail"}, {open, "undecided"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}
