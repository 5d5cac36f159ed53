package experiment

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/trial"
)

//go:embed claims.md
var claimsText string

// claims is which sentences of the paper hold. It plans what the other experiments do, and a little
// more.
var claims = study.Experiment{
	Name: "claims", Title: "The paper's claims", Text: claimsText,
	Plan: func(s *study.Study) (pieces []study.Piece) {
		for _, other := range []study.Experiment{overTime, parameters, knn} {
			pieces = append(pieces, other.Plan(s)...)
		}
		for _, c := range s.Cases() {
			for _, delta := range []float64{s.Options.Delta, halfDelta, wideDelta} {
				pieces = append(pieces, traceErrors.Pieces(s, study.Point{
					Case: c, Variant: study.PIM,
					Setting: study.Setting{Epsilon: s.Options.Epsilon, Delta: delta},
				})...)
			}
		}
		for _, d := range s.Data {
			pieces = append(pieces, (&singles{s, d}).pieces()...)
			if s.Options.Clock != nil {
				pieces = append(pieces, releaseTimes.Pieces(s, watchedAt(s, d))...)
			}
		}
		return pieces
	},
	Show: showClaims,
}

func showClaims(p *study.Page) {
	p.Text("intro", nil)
	var list []claim
	for _, st := range statements() {
		list = append(list, prover{p}.claim(st))
	}
	list = append(list, prover{p}.quick())
	if n := fewest(list); n < study.Enough {
		p.Text("few", study.Figures{"fewest": n, "enough": study.Enough})
	}
	verdicts := &report.Table{
		Columns: []string{"the paper", "verdict", "comparisons", "what to expect by theory"},
	}
	where := &report.Table{
		Columns: []string{"the paper", "data, model", "verdict", "comparisons", "numbers"},
	}
	rules := &report.Table{Columns: []string{"the paper", "rule"}}
	all := study.Long("claims-comparisons", "the paper", "data, model", "comparison",
		"confidence", "verdict")
	all.Caption = "Every comparison: what is said to be above 0."
	for i := range list {
		c := &list[i]
		verdicts.Add(c.sentence, string(c.verdict("")), c.counted("").String(), c.reason)
		rules.Add(c.sentence, c.rule)
		for _, k := range p.Cases() {
			if numbers, ok := c.numbers[k.Title()]; ok {
				where.Add(c.sentence, k.Title(), string(c.verdict(k.Title())),
					c.counted(k.Title()).String(), numbers)
			}
		}
		for j := range c.comparisons {
			at := &c.comparisons[j]
			all.Add(c.sentence, at.where, at.what, c.level(), string(at.verdict(c.level())),
				at.band(c.level()))
		}
	}
	p.Table("claims", "What holds: the verdicts over all data and models.", verdicts)
	p.Table("claims-where", p.Say("where.caption", nil), where)
	p.Table("claims-rules", "What is compared.", rules)
	p.Add(all)
}

// fewest is the least number of users or runs that a comparison is over.
func fewest(list []claim) int {
	least := math.MaxInt
	for i := range list {
		for j := range list[i].comparisons {
			least = min(least, len(list[i].comparisons[j].terms[0].sample))
		}
	}
	return least
}

// promised is the paper's time for a release.
const promised = 300 * time.Millisecond

// releaseTimes measures how long the releases of the first trace take.
var releaseTimes = &study.Walks{
	Name:   "time",
	Traces: func(_ *study.Study, d *study.Data) []study.Trace { return d.Traces[:1] },
	Window: func(_ *study.Data, timestamp int) int { return timestamp },
	Probe: func(s *study.Study, _ *study.Walk) (study.Probe, error) {
		before := s.Options.Clock()
		return func(to *study.Sums, _ *trial.Result) error {
			to.Add(1, float64(s.Options.Clock()-before))
			before = s.Options.Clock()
			return nil
		}, nil
	},
}

// quick is whether releases come within the paper's time.
func (p prover) quick() claim {
	c := p.words("quick")
	c.given = Untested
	if p.Options.Clock == nil {
		return c
	}
	var verdicts []Verdict
	for _, d := range p.Data {
		var took []time.Duration
		for _, cluster := range p.Read(releaseTimes, watchedAt(p.Study, d)) {
			for _, s := range cluster {
				took = append(took, time.Duration(s.Of[0]))
			}
		}
		verdict, numbers := timely(took)
		verdicts = append(verdicts, verdict)
		c.numbers[study.Case{Data: d, Kind: study.Popular}.Title()] = numbers
	}
	c.given = Depends
	if len(slices.Compact(slices.Sorted(slices.Values(verdicts)))) == 1 {
		c.given = verdicts[0]
	}
	return c
}

// timely judges how long releases took.
func timely(took []time.Duration) (v Verdict, numbers string) {
	if len(took) == 0 {
		return Untested, ""
	}
	slices.Sort(took)
	late, _ := slices.BinarySearch(took, promised+1)
	switch share := float64(late) / float64(len(took)); {
	case share > .9:
		v = Holds
	case share < .5:
		v = Fails
	default:
		v = Depends
	}
	return v, fmt.Sprintf("%d of %d releases; half of them within %s ms, the slowest within %s ms",
		late, len(took), report.Short(roundUp(took[(len(took)-1)/2])),
		report.Short(roundUp(took[len(took)-1])))
}

// roundUp returns milliseconds, up to the next of 1, 2 and 5 times a power of ten: times are not
// known better.
func roundUp(d time.Duration) float64 {
	ms := float64(d) / float64(time.Millisecond)
	if ms <= .001 {
		return .001
	}
	ten := math.Pow(10, math.Floor(math.Log10(ms)))
	for _, digit := range []float64{1, 2, 5} {
		if ms <= digit*ten {
			return digit * ten
		}
	}
	return 10 * ten
}
