package experiment

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

//go:embed claims.md
var claimsText string

func claimsExperiment() study.Experiment {
	return study.Experiment{
		Name: "claims", Title: "The paper's claims", Plan: planClaims, Report: reportClaims,
	}
}

// planClaims plans what the other experiments do, and a little more.
func planClaims(s *study.Study) (pieces []study.Piece, err error) {
	for _, other := range []study.Experiment{
		overTimeExperiment(), parametersExperiment(), knnExperiment(),
	} {
		more, err := other.Plan(s)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, more...)
	}
	for _, x := range eachMechanisms(s) {
		pieces = append(pieces, x.once().pieces()...)
	}
	for _, x := range eachCase(s) {
		for _, at := range claimSettings(s.Options) {
			pieces = append(pieces, x.variantPieces(study.PIM, at)...)
		}
	}
	if o := s.Options; o.Clock != nil {
		for _, d := range s.Data {
			pieces = append(pieces, study.Piece{
				Name:   timingPiece(d),
				Inputs: fmt.Sprintf("%s seed %d ε %g δ %g", d.ID, o.Seed, o.Epsilon, o.Delta),
				Work:   int64(len(d.Traces[0].Steps)),
				Run:    func(tick study.Tick) (any, error) { return timeReleases(d, o, tick) },
			})
		}
	}
	return pieces, nil
}

func reportClaims(s *study.Study, r *study.Results) (report.Section, error) {
	p := &prover{Study: s, prose: study.NewProse(claimsText), results: r}
	section := report.Section{
		Title: "The paper's claims", Parts: []report.Part{report.Text(p.prose.Say("intro", nil))},
	}
	list, err := p.claims()
	if err != nil {
		return section, err
	}
	if n := fewest(list); n < enough {
		few := p.prose.Say("few", study.Figures{"fewest": n, "enough": enough})
		section.Parts = append(section.Parts, report.Text(few))
	}
	table := &report.Table{
		Name: "claims", Caption: "What holds: the verdicts over all data and models.",
		Columns: []string{"the paper", "verdict", "comparisons", "what to expect by theory"},
	}
	detail := &report.Table{
		Name: "claims-where", Caption: p.prose.Say("where.caption", nil),
		Columns: []string{"the paper", "data, model", "verdict", "comparisons", "numbers"},
	}
	long := &report.Table{
		Name: "claims-comparisons", Long: true, Caption: "Every comparison: what is said to be " +
			"above 0.",
		Columns: []string{
			"the paper", "rule", "data, model", "comparison", "confidence", "value", "low", "high",
			"verdict",
		},
	}
	for i := range list {
		c := &list[i]
		table.Rows = append(table.Rows, []string{
			c.sentence, string(c.verdict("")), c.counted(""), c.reason,
		})
		detail.Rows = append(detail.Rows, c.details(s)...)
		for j := range c.comparisons {
			at := &c.comparisons[j]
			row := []string{c.sentence, c.rule, at.where, at.what, study.Number(c.level())}
			row = append(row, at.band(c.level()).Fields()...)
			long.Rows = append(long.Rows, append(row, string(at.verdict(c.level()))))
		}
	}
	rules := &report.Table{
		Name: "claims-rules", Caption: "What is compared.", Columns: []string{"the paper", "rule"},
	}
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
func (c *claim) details(s *study.Study) (rows [][]string) {
	for _, k := range s.Cases() {
		numbers, measured := c.numbers[k.Title()]
		if measured {
			verdict := c.verdict(k.Title())
			rows = append(rows, []string{
				c.sentence, k.Title(), string(verdict), c.counted(k.Title()),
				strings.TrimSuffix(numbers, "; "),
			})
		}
	}
	return rows
}
