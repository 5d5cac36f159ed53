package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/trial"
)

// paperClaims is which sentences of the paper hold. It plans what the other experiments do, and a
// little more.
var paperClaims = Experiment{
	Name: "claims", Title: "The paper's claims",
	Plan: func(s *Study) (pieces []Piece) {
		for _, other := range []Experiment{overTime, parameters, knn} {
			pieces = append(pieces, other.Plan(s)...)
		}
		for _, c := range s.Cases() {
			for _, delta := range []float64{Fixed.Delta, halfDelta, wideDelta} {
				pieces = append(pieces, traceErrors.Pieces(s,
					Point{Case: c, Variant: PIM, Setting: Setting{Fixed.Epsilon, delta}})...)
			}
		}
		for _, d := range s.Data {
			pieces = append(pieces, (&singles{s, d}).pieces()...)
			if s.Options.Clock != nil {
				pieces = append(pieces, releaseTimes.Pieces(s, watchedAt(d))...)
			}
		}
		return pieces
	},
	Show: showClaims,
}

// The paper's parameters that claims name.
const (
	wideDelta = .1
	// halfDelta stands for the paper's 10^-1.5.
	halfDelta = .03
	// settled is after how many timestamps |ΔX| should be stable, and steady the factor by which
	// its mean may change from there to the end.
	settled = 10
	steady  = 1.25
	// little is by how much an error may fall and the gain still be called little.
	little = .1
	// nearOptimal is how far above the best mechanism an error may be and still be called optimal.
	nearOptimal = 1.05
	// oneCell is up to what mean |ΔX| counts as 1.
	oneCell = 1.5
)

var claims = []claim{
	{
		"|ΔX| is stable after a few timestamps",
		"over time, LM and PIM: the mean over the second half of the trace is within a factor of " +
			"1.25 of that from timestamp 11 to the middle",
		true, prover.stable,
	},
	{
		"|ΔX| > 4 at δ = 0.01", "PIM at ε = 1: the mean |ΔX| is above 4", false,
		func(p prover, c Case) []comparison {
			return one("|ΔX| - 4", -4, p.at(1, setScore, c, PIM, Fixed))
		},
	},
	{
		"|ΔX| = 1 at δ = 0.1 with a personal M", "PIM at ε = 1: the mean |ΔX| is below 1.5", false,
		func(p prover, c Case) []comparison {
			if c.Kind != Personal {
				return nil
			}
			return one(fmt.Sprintf("%g - |ΔX|", oneCell), oneCell,
				p.at(-1, setScore, c, PIM, delta(wideDelta)))
		},
	},
	{
		"The drift ratio falls with ε", "at δ = 0.01: the slope over ln ε is below 0", false,
		func(p prover, c Case) []comparison {
			return p.trend(c, -1, p.Options.Epsilons,
				func(v float64) Setting { return Setting{v, Fixed.Delta} })
		},
	},
	{
		"The drift ratio rises with δ", "at ε = 1: the slope over ln δ is above 0", false,
		func(p prover, c Case) []comparison { return p.trend(c, 1, p.Options.Deltas, delta) },
	},
	{
		"PIM's releases are closer to the truth than LM's everywhere",
		"at each ε and δ: the mean squared distance is less, user by user; everywhere means at all",
		true, prover.closer,
	},
	{
		"Little is gained from δ = 10^-1.5 to δ = 10^-1",
		"PIM at ε = 1: the rms distance at δ = 0.1 is not more than a tenth below that at 0.03",
		false,
		func(p prover, c Case) []comparison {
			return one("squared distance", 0,
				p.at(-float64((1-little)*(1-little)), releaseScore, c, PIM, delta(halfDelta)),
				p.at(1, releaseScore, c, PIM, delta(wideDelta)))
		},
	},
	{
		"A personal M gives better results than a popular one",
		"PIM at each ε and δ: |ΔX| and the mean squared distance are smaller, user by user", false,
		prover.personal,
	},
	{
		"PIM's noise is optimal: no mechanism of the same ε has a smaller error",
		"one release: what PIM's law leaves of the variance at its best δ is not more than 5 % " +
			"above what the best mechanism leaves that was found; priors are the clusters",
		false, prover.optimal,
	},
	{
		"Precision and recall grow with k (k = k')", "at ε = 1: the slope over ln k is above 0",
		false,
		func(p prover, c Case) []comparison {
			return p.grows(c, func(q query) (int, bool) { return q.k, q.k == q.fetched })
		},
	},
	{
		"Recall grows with k' (k = 5)", "at ε = 1: the slope over ln k' is above 0", false,
		func(p prover, c Case) []comparison {
			return p.grows(c, func(q query) (int, bool) { return q.fetched, q.k == fixedK })
		},
	},
}

// one is a single comparison.
func one(what string, constant float64, terms ...term) []comparison {
	return []comparison{{what: what, constant: constant, terms: terms}}
}

// at is a term of the paper's metrics on whole traces.
func (p prover) at(weight float64, m score, c Case, v Variant, at Setting) term {
	point := Point{Case: c, Variant: v, Setting: at}
	what := fmt.Sprintf("%s at ε %g δ %g:", v.Label(), at.Epsilon, at.Delta)
	return term{weight, m, what, errorsAt(p.Page, point)}
}

// delta is the fixed ε with a δ.
func delta(of float64) Setting { return Setting{Fixed.Epsilon, of} }

// stable compares the halves of a trace, without its start: their means may differ by a factor.
func (p prover) stable(c Case) (list []comparison) {
	d := c.Data
	if d.EveryFix || c.Kind != Popular {
		return nil
	}
	n := len(longestFollowed(d)[0].Steps)
	if n < 4*settled {
		return nil
	}
	for _, v := range []Variant{LM, PIM} {
		runs := p.Read(timeline, Point{Case: c, Variant: v, Setting: Fixed})
		before := term{
			1 / float64(n/2-settled), setScore, "|ΔX|", runs.Between(settled, n/2),
		}
		after := term{1 / float64(n-n/2), setScore, "then", runs.Between(n/2, n)}
		list = append(list,
			comparison{
				what:  v.Label() + ": not shrinking",
				terms: []term{before.times(-1 / steady), after},
			},
			comparison{
				what:  v.Label() + ": not growing",
				terms: []term{before.times(steady), after.times(-1)},
			})
	}
	return list
}

// trend compares the slope of the drift over the logarithm of a swept value with 0.
func (p prover) trend(
	c Case, sign float64, values []float64, at func(float64) Setting,
) (list []comparison) {
	if len(values) < 2 {
		return nil
	}
	for _, v := range []Variant{LM, PIM} {
		of := comparison{what: v.Label()}
		for i, slope := range slopes(values) {
			of.terms = append(of.terms, p.at(sign*slope, driftScore, c, v, at(values[i])))
		}
		list = append(list, of)
	}
	return list
}

func (p prover) closer(c Case) (list []comparison) {
	for _, at := range p.Settings() {
		list = append(list, one(fmt.Sprintf("ε %g δ %g", at.Epsilon, at.Delta), 0,
			p.at(1, releaseScore, c, LM, at), p.at(-1, releaseScore, c, PIM, at))...)
	}
	return list
}

// personal compares a personal model with the popular one.
func (p prover) personal(c Case) (list []comparison) {
	if c.Kind != Personal {
		return nil
	}
	for _, at := range p.Settings() {
		for _, m := range []score{setScore, releaseScore} {
			without := p.at(1, m, Case{c.Data, Popular}, PIM, at)
			with := p.at(-1, m, c, PIM, at)
			without.what, with.what = "popular", "personal"
			list = append(list,
				one(fmt.Sprintf("ε %g δ %g: %s", at.Epsilon, at.Delta, m.axis), 0, without,
					with)...)
		}
	}
	return list
}

// optimal compares what one release of PIM's law leaves of the variance with what is left by the
// best mechanism that was found. The clusters are priors.
func (p prover) optimal(c Case) (list []comparison) {
	if c.Kind != Popular {
		return nil
	}
	x := singles{p.Study, c.Data}
	for _, epsilon := range p.Options.MechanismEpsilons {
		sample, best := x.read(p.Page, epsilon)
		list = append(list, one(fmt.Sprintf("ε %g", epsilon), 0,
			term{nearOptimal, score{quantity: reachedError}, "possible", sample},
			term{-1, score{quantity: latticeError + best}, "left", sample})...)
	}
	return list
}

// grows compares the slope over ln k of the share of found places with 0.
func (p prover) grows(c Case, in func(query) (k int, ok bool)) (list []comparison) {
	if c.Kind != Popular {
		return nil
	}
	var ks []float64
	var at []int
	queries := queriesOf(c.Data.Places)
	for i, q := range queries {
		if k, ok := in(q); ok {
			ks, at = append(ks, float64(k)), append(at, i)
		}
	}
	if len(ks) < 2 {
		return nil
	}
	for _, v := range []Variant{LM, PIM} {
		of := comparison{what: v.Label()}
		sample := p.Read(neighbours, Point{Case: c, Variant: v, Setting: Fixed}).All()
		for j, slope := range slopes(ks) {
			wanted := float64(queries[at[j]].k)
			found, label := score{quantity: at[j], per: wanted}, fmt.Sprintf("at %g:", ks[j])
			of.terms = append(of.terms, term{slope / wanted, found, label, sample})
		}
		list = append(list, of)
	}
	return list
}

func showClaims(p *Page) {
	verdicts := &report.Table{Columns: []string{"the paper", "verdict", "comparisons", "rule"}}
	where := &report.Table{
		Columns: []string{"the paper", "data, model", "verdict", "comparisons", "numbers"},
	}
	all := long("claims-comparisons", "the paper", "data, model", "comparison", "confidence",
		"verdict")
	all.Caption = "Every comparison: what is said to be above 0."
	for _, claim := range claims {
		c := &tested{claim: claim}
		for _, k := range p.Cases() {
			from := len(c.comparisons)
			c.comparisons = append(c.comparisons, claim.of(prover{p}, k)...)
			for i := range c.comparisons[from:] {
				c.comparisons[from+i].where = k.Title()
			}
		}
		verdicts.Add(c.sentence, string(c.verdict("")), c.counted("").String(), c.rule)
		for i := range c.comparisons {
			at := &c.comparisons[i]
			if i == 0 || at.where != c.comparisons[i-1].where {
				where.Add(c.sentence, at.where, string(c.verdict(at.where)),
					c.counted(at.where).String(), c.numbers(at.where))
			}
			all.Add(c.sentence, at.where, at.what, c.level(), string(at.verdict(c.level())),
				at.band(c.level()))
		}
	}
	if p.Options.Clock != nil {
		p.addTimes(verdicts, where)
	}
	p.Table("claims", "What holds: the verdicts over all data and models.", verdicts)
	p.Table("claims-where", "The same, by data and model: |ΔX| in cells, distances in kilometres, "+
		"drift, precision and recall as shares.", where)
	p.Add(all)
}

// numbers are what the first comparisons of a where are made of.
func (c *tested) numbers(where string) string {
	var words []string
	for i := range c.comparisons {
		at := &c.comparisons[i]
		if text := at.what + ": " + at.numbers(); at.where == where && len(words) < mostNumbers {
			words = append(words, text)
		}
	}
	return strings.Join(words, "; ")
}

// promised is the paper's time for a release.
const promised = 300 * time.Millisecond

// releaseTimes measures how long the releases of the first trace take.
var releaseTimes = &Walks{
	Name:   "time",
	Traces: func(_ *Study, d *Data) []Trace { return d.Traces[:1] },
	Probe: func(s *Study, _ *Walk) (Probe, error) {
		before := s.Options.Clock()
		return func(to *Sums, _ *trial.Result) error {
			took := s.Options.Clock() - before
			to.Add(1, share(took <= promised))
			before = s.Options.Clock()
			return nil
		}, nil
	},
}

// addTimes adds whether releases come within the paper's time. It holds if more than nine tenths
// do, and fails if fewer than half. The times are this machine's.
func (p *Page) addTimes(verdicts, where *report.Table) {
	const sentence = "Most releases come within 0.3 s"
	var all []Verdict
	for _, d := range p.Data {
		within := p.Read(releaseTimes, watchedAt(d)).All()
		v := Depends
		switch timely := mean(0, within).Value; {
		case timely > .9:
			v = Holds
		case timely < .5:
			v = Fails
		}
		all = append(all, v)
		where.Add(sentence, Case{d, Popular}.Title(), string(v), "",
			fmt.Sprintf("%.0f of %.0f releases", within[0].Of[0], within.N()))
	}
	v := Depends
	if len(slices.Compact(slices.Sorted(slices.Values(all)))) == 1 {
		v = all[0]
	}
	verdicts.Add(sentence, string(v), "",
		"one trace, PIM: more than nine tenths of the releases, on this machine")
}
