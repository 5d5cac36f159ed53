package experiment

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
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

// term is a weighted quantity of what was measured.
type term struct {
	weight float64
	score  score
	what   string // at which point, in words
	sample study.Sample
}

// comparison is a number that a claim says is above 0: the mean, over timestamps, of a constant
// plus its terms. Their samples have the same clusters in the same order, and as many timestamps of
// each.
type comparison struct {
	where    string // the data and the model
	what     string
	constant float64
	terms    []term
}

// band returns the number with its interval at a confidence.
func (c *comparison) band(confidence float64) report.Band {
	var over, by []float64
	for i, first := range c.terms[0].sample {
		sum := float64(c.constant * first.N)
		for _, t := range c.terms {
			sum += float64(t.weight * t.sample[i].Of[t.score.quantity])
		}
		over, by = append(over, sum), append(by, first.N)
	}
	return study.Signed(over, by, confidence)
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

// numbers are what was measured, of the first and the last term.
func (c *comparison) numbers() string {
	var words []string
	for i, t := range c.terms {
		if i == 0 || i == len(c.terms)-1 {
			words = append(words, fmt.Sprintf("%s %s", t.what, t.score.of(t.sample)))
		}
	}
	return strings.Join(words, ", ")
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

// count is how many comparisons hold, fail and decide nothing.
type count struct{ hold, fail, open int }

func (n *count) add(v Verdict) {
	switch v {
	case Holds:
		n.hold++
	case Fails:
		n.fail++
	default:
		n.open++
	}
}

// verdict sums comparisons up. They hold if none fails and at least half of them hold, they fail if
// none holds and at least half fail, it depends if some hold and some fail, and is undecided
// otherwise.
func (n count) verdict() Verdict {
	switch {
	case n == count{}:
		return Untested
	case n.hold > 0 && n.fail > 0:
		return Depends
	case n.hold > 0 && n.hold >= n.open:
		return Holds
	case n.fail > 0 && n.fail >= n.open:
		return Fails
	}
	return Undecided
}

// String names what there is any of.
func (n count) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{n.hold, "hold"}, {n.fail, "fail"}, {n.open, "undecided"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// counted counts the comparisons of a where, of all for "".
func (c *claim) counted(where string) (n count) {
	for i := range c.comparisons {
		if at := &c.comparisons[i]; where == "" || at.where == where {
			n.add(at.verdict(c.level()))
		}
	}
	return n
}

// verdict sums the comparisons of a where up, of all for "".
func (c *claim) verdict(where string) Verdict {
	n := c.counted(where)
	switch {
	case c.given != "":
		return c.given
	case !c.strict:
		return n.verdict()
	case where == "":
		return c.everywhere()
	case n.fail > 0:
		return Fails
	case n.open > 0:
		return Undecided
	}
	return n.verdict()
}

// everywhere is the verdict of a strict claim: it holds only if it does at each where.
func (c *claim) everywhere() Verdict {
	var n count
	seen := map[string]bool{}
	for _, at := range c.comparisons {
		if !seen[at.where] {
			seen[at.where] = true
			n.add(c.verdict(at.where))
		}
	}
	if n.fail == 0 && n.open > 0 {
		return Undecided
	}
	return n.verdict()
}
