package experiment

import (
	"fmt"
	"math"
	"strings"

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
	sample Sample
}

func (t term) times(factor float64) term {
	t.weight *= factor
	return t
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
	return Signed(over, by, confidence)
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
	first, last := c.terms[0], c.terms[len(c.terms)-1]
	text := first.what + " " + first.score.of(first.sample).String()
	if len(c.terms) > 1 {
		text += ", " + last.what + " " + last.score.of(last.sample).String()
	}
	return text
}

// claim is a sentence of the paper that can be tested.
type claim struct {
	sentence string
	rule     string // what is compared, in words
	// strict: only all comparisons of a where together are the claim, such as not shrinking and not
	// growing, or a setting each of those that everywhere means; a single one that fails refutes
	// it.
	strict bool
	// of returns the comparisons on a case; none if the sentence says nothing of it.
	of func(prover, Case) []comparison
}

// prover reads what comparisons are made of.
type prover struct{ *Page }

// tested is a claim with its comparisons.
type tested struct {
	claim
	// comparisons must hold together. They are in the order of where.
	comparisons []comparison
}

// level of each comparison, so that all intervals of the claim hold together with about 95 %
// confidence (Bonferroni).
func (c *tested) level() float64 { return 1 - (1-Level)/float64(max(1, len(c.comparisons))) }

// count is how many comparisons hold, fail and decide nothing.
type count map[Verdict]int

// verdict sums comparisons up. They hold if none fails and at least half of them hold, they fail if
// none holds and at least half fail, it depends if some hold and some fail, and is undecided
// otherwise. Strictly, one that decides nothing leaves all undecided unless one fails.
func (n count) verdict(strict bool) Verdict {
	hold, fail, open := n[Holds], n[Fails], n[Undecided]
	switch {
	case hold+fail+open == 0:
		return Untested
	case strict && fail == 0 && open > 0:
		return Undecided
	case hold > 0 && fail > 0:
		return Depends
	case hold > 0 && hold >= open:
		return Holds
	case fail > 0 && fail >= open:
		return Fails
	}
	return Undecided
}

// String names what there is any of.
func (n count) String() string {
	var parts []string
	for _, part := range []struct {
		of   Verdict
		what string
	}{{Holds, "hold"}, {Fails, "fail"}, {Undecided, "undecided"}} {
		if n[part.of] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[part.of], part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// counted counts the comparisons of a where, of all for "".
func (c *tested) counted(where string) count {
	n := count{}
	for i := range c.comparisons {
		if at := &c.comparisons[i]; where == "" || at.where == where {
			n[at.verdict(c.level())]++
		}
	}
	return n
}

// verdict sums the comparisons of a where up, of all for "". A strict claim fails at a where at
// which one fails, and holds over all only if it does at each.
func (c *tested) verdict(where string) Verdict {
	n := c.counted(where)
	if !c.strict {
		return n.verdict(false)
	}
	if where != "" {
		if n[Fails] > 0 {
			return Fails
		}
		return n.verdict(true)
	}
	each, seen := count{}, map[string]bool{}
	for _, at := range c.comparisons {
		if !seen[at.where] {
			seen[at.where] = true
			each[c.verdict(at.where)]++
		}
	}
	return each.verdict(true)
}

// mostNumbers is how many comparisons have their numbers in the table; all are in the file.
const mostNumbers = 4

// slopes are the weights of the least squares' slope over the logarithms of ascending values.
func slopes(values []float64) []float64 {
	var mean, squares float64
	for _, v := range values {
		mean += math.Log(v) / float64(len(values))
	}
	weights := make([]float64, len(values))
	for i, v := range values {
		weights[i] = math.Log(v) - mean
		squares += float64(weights[i] * weights[i])
	}
	for i := range weights {
		weights[i] /= squares
	}
	return weights
}
