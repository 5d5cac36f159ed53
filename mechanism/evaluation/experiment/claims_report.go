package experiment

import (
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func claimsTable() Experiment {
	return Experiment{Name: "claims", Title: "The paper's claims", Plan: planClaims, Report: reportClaims}
}

// planClaims plans what the other experiments do, and a little more.
func planClaims(s *Study) (pieces []Piece, err error) {
	for _, plan := range []func(*Study) ([]Piece, error){planOverTime, planParameters, planKNN} {
		more, err := plan(s)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, more...)
	}
	for _, c := range s.Cases() {
		for _, at := range s.claimSettings() {
			pieces = append(pieces, s.variantPieces(c, PIM, at)...)
		}
	}
	if s.Options.Clock != nil {
		for _, d := range s.Data {
			pieces = append(pieces, Piece{
				Name: timingPiece(d), Inputs: fmt.Sprintf("%s seed %d ε %g δ %g", d.ID, s.Options.Seed, s.Options.Epsilon, s.Options.Delta), Work: int64(len(d.Traces[0].Steps)),
				Run: func(tick Tick) (any, error) { return d.timeReleases(s.Options, tick) },
			})
		}
	}
	return pieces, nil
}

func reportClaims(s *Study, r *Results) (report.Section, error) {
	section := report.Section{Title: "The paper's claims", Parts: []report.Part{report.Text(
		"Which of the paper's findings hold here. Each sentence of the paper's experiments that can be tested, against what the experiments over time, over parameters and of nearest neighbours measure. A sentence becomes one or more comparisons, for each data set and model; a comparison holds or fails if its whole confidence interval lies on the claimed side or on the other one. The intervals treat users (over time: runs) as independent, and are so wide that all of a sentence's hold together with about 95 % confidence. Where no two users differ there is no interval, and nothing is decided. A sentence holds where no comparison fails and at least half of them hold, fails where none holds and at least half of them fail, depends where some hold and some fail, and is undecided otherwise: then there are too few users to tell. That |ΔX| is stable takes all of its comparisons, which say that it neither shrinks nor grows, and that PIM is closer everywhere takes all of them too: where one is undecided and none fails, so is the sentence.")}}
	p := &prover{s: s, r: r}
	list, err := p.claims()
	if err != nil {
		return section, err
	}
	if n := fewest(list); n < enough {
		section.Parts = append(section.Parts, report.Text(fmt.Sprintf(
			"Warning: some comparisons are of %s or runs only. Intervals over fewer than %d are rough, at the confidence that many comparisons take most of all: verdicts are hints.", plural(n, "user"), enough)))
	}
	table := &report.Table{Name: "claims", Caption: "What holds: the verdicts over all data and models.", Columns: []string{"the paper", "verdict", "comparisons", "what to expect by theory"}}
	detail := &report.Table{Name: "claims-where", Caption: "The same, by data and model: |ΔX| in cells, distances in kilometres, drift, precision and recall as shares.", Columns: []string{"the paper", "data, model", "verdict", "comparisons", "numbers"}}
	long := &report.Table{
		Name: "claims-comparisons", Long: true, Caption: "Every comparison: what is said to be above 0.",
		Columns: []string{"the paper", "rule", "data, model", "comparison", "confidence", "value", "low", "high", "verdict"},
	}
	for i := range list {
		c := &list[i]
		table.Rows = append(table.Rows, []string{c.sentence, string(c.verdict("")), c.counted(""), c.reason})
		detail.Rows = append(detail.Rows, c.details(s)...)
		for j := range c.comparisons {
			at := &c.comparisons[j]
			row := []string{c.sentence, c.rule, at.where, at.what, number(c.level())}
			long.Rows = append(long.Rows, append(append(row, at.band(c.level()).fields()...), string(at.verdict(c.level()))))
		}
	}
	rules := &report.Table{Name: "claims-rules", Caption: "What is compared.", Columns: []string{"the paper", "rule"}}
	for _, c := range list {
		rules.Rows = append(rules.Rows, []string{c.sentence, c.rule})
	}
	section.Parts = append(section.Parts, table, detail, rules, long)
	return section, nil
}

// enough is from how many users or runs on intervals are worth their confidence.
const enough = 10

// fewest is the least number of users or runs that a comparison is over.
func fewest(list []claim) int {
	least := math.MaxInt
	for i := range list {
		for j := range list[i].comparisons {
			least = min(least, len(list[i].comparisons[j].over))
		}
	}
	return least
}

// details are the rows of a claim by data and model.
func (c *claim) details(s *Study) (rows [][]string) {
	for _, k := range s.Cases() {
		numbers, measured := c.numbers[k.Title()]
		if measured {
			verdict := c.verdict(k.Title())
			rows = append(rows, []string{c.sentence, k.Title(), string(verdict), c.counted(k.Title()), strings.TrimSuffix(numbers, "; ")})
		}
	}
	return rows
}
