package experiment

import (
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

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

// statement is a sentence of the paper as data: what is compared on each data set and model. Its
// words are the paragraphs of its name in claims.md.
type statement struct {
	name   string
	strict bool // see claim
	// of returns the comparisons on a case; none if the sentence says nothing of it.
	of func(prover, study.Case) []comparison
	// numbers are what was measured on a case; nil: what the comparisons are made of.
	numbers func(prover, study.Case) string
}

func statements() []statement {
	return []statement{
		{name: "stable", strict: true, of: prover.stable},
		{name: "above4", of: prover.above4},
		{name: "single", of: prover.single},
		{name: "driftFalls", of: prover.driftFalls},
		{name: "driftRises", of: prover.driftRises},
		{name: "closer", strict: true, of: prover.closer, numbers: prover.ratios},
		{name: "littleGain", of: prover.littleGain},
		{name: "personal", of: prover.personal, numbers: prover.atFixed},
		{name: "optimal", of: prover.optimal},
		{name: "growsWithK", of: prover.growsWithK},
		{name: "growsWithFetched", of: prover.growsWithFetched},
	}
}

// prover reads what comparisons are made of.
type prover struct{ *study.Page }

// claim tests a statement on every case.
func (p prover) claim(st statement) claim {
	c := p.words(st.name)
	c.strict = st.strict
	for _, k := range p.Cases() {
		list := st.of(p, k)
		if len(list) == 0 {
			continue
		}
		var words []string
		for i := range list {
			list[i].where = k.Title()
			if text := list[i].numbers(); len(words) == 0 || words[len(words)-1] != text {
				words = append(words, text)
			}
		}
		c.comparisons = append(c.comparisons, list...)
		c.numbers[k.Title()] = strings.Join(words, "; ")
		if st.numbers != nil {
			c.numbers[k.Title()] = st.numbers(p, k)
		}
	}
	return c
}

// words returns a claim without its comparisons.
func (p prover) words(name string) claim {
	figures := study.Figures{
		"epsilon": p.Options.Epsilon, "delta": p.Options.Delta, "wide": wideDelta,
		"half":   halfDelta,
		"stable": steady, "after": settled + 1, "oneCell": oneCell, "k": fixedK,
		"promised": promised, "nearOptimal": 100 * (nearOptimal - 1),
	}
	return claim{
		sentence: p.Say(name+".sentence", figures), rule: p.Say(name+".rule", figures),
		reason: p.Say(name+".reason", figures), numbers: map[string]string{},
	}
}

// at is a term of the paper's metrics on whole traces.
func (p prover) at(
	weight float64, m score, c study.Case, v study.Variant, at study.Setting,
) term {
	point := study.Point{Case: c, Variant: v, Setting: at}
	return term{weight, m, named(point), errorsAt(p.Page, point)}
}

// named is how numbers name a point.
func named(at study.Point) string {
	return fmt.Sprintf("%s at ε %g δ %g:", at.Label(), at.Epsilon, at.Delta)
}

// delta is the fixed ε with a δ.
func (p prover) delta(delta float64) study.Setting {
	return study.Setting{Epsilon: p.Options.Epsilon, Delta: delta}
}

// stable compares the halves of a trace, without its start: their means may differ by a factor.
func (p prover) stable(c study.Case) (list []comparison) {
	d := c.Data
	if d.EveryFix || c.Kind != study.Popular {
		return nil
	}
	n := len(longestFollowed(d)[0].Steps)
	if n < 4*settled {
		return nil
	}
	for _, v := range []study.Variant{study.LM, study.PIM} {
		runs := p.Read(timeline, study.Point{Case: c, Variant: v, Setting: p.Fixed()})
		before := term{
			1 / float64(n/2-settled), setScore, v.Label() + ": |ΔX|",
			runs.Between(settled, n/2),
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

func (t term) times(factor float64) term {
	t.weight *= factor
	return t
}

func (p prover) above4(c study.Case) []comparison {
	return []comparison{{
		what: "|ΔX| - 4", constant: -4,
		terms: []term{p.at(1, setScore, c, study.PIM, p.Fixed())},
	}}
}

func (p prover) single(c study.Case) []comparison {
	if c.Kind != study.Personal {
		return nil
	}
	return []comparison{{
		what: fmt.Sprintf("%g - |ΔX|", oneCell), constant: oneCell,
		terms: []term{p.at(-1, setScore, c, study.PIM, p.delta(wideDelta))},
	}}
}

// trend compares the slope of the drift over the logarithm of a swept value with 0.
func (p prover) trend(
	c study.Case, sign float64, values []float64, at func(float64) study.Setting,
) (list []comparison) {
	if len(values) < 2 {
		return nil
	}
	for _, v := range []study.Variant{study.LM, study.PIM} {
		of := comparison{what: v.Label()}
		for i, slope := range slopes(values) {
			of.terms = append(of.terms, p.at(sign*slope, driftScore, c, v, at(values[i])))
		}
		list = append(list, of)
	}
	return list
}

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

func (p prover) driftFalls(c study.Case) []comparison {
	return p.trend(c, -1, p.Options.Epsilons, func(v float64) study.Setting {
		return study.Setting{Epsilon: v, Delta: p.Options.Delta}
	})
}

func (p prover) driftRises(c study.Case) []comparison {
	return p.trend(c, 1, p.Options.Deltas, p.delta)
}

func (p prover) closer(c study.Case) (list []comparison) {
	for _, at := range p.Settings() {
		list = append(list, comparison{
			what: fmt.Sprintf("ε %g δ %g", at.Epsilon, at.Delta),
			terms: []term{
				p.at(1, releaseScore, c, study.LM, at), p.at(-1, releaseScore, c, study.PIM, at),
			},
		})
	}
	return list
}

// ratios sum up how PIM's distances relate to LM's over all settings.
func (p prover) ratios(c study.Case) string {
	low, high := math.Inf(1), 0.
	better := 0
	for _, at := range p.Settings() {
		lm := p.at(0, releaseScore, c, study.LM, at).sample
		pim := p.at(0, releaseScore, c, study.PIM, at).sample
		ratio := releaseScore.of(pim).Value / releaseScore.of(lm).Value
		low, high = min(low, ratio), max(high, ratio)
		if estimateScore.of(pim).Value < estimateScore.of(lm).Value {
			better++
		}
	}
	return fmt.Sprintf(
		"PIM's rms distance is %s to %s of LM's; its estimate is closer at %d of %d settings",
		report.Short(low), report.Short(high), better, len(p.Settings()))
}

func (p prover) littleGain(c study.Case) []comparison {
	least := float64((1 - little) * (1 - little))
	return []comparison{{
		what: "squared distance",
		terms: []term{
			p.at(-least, releaseScore, c, study.PIM, p.delta(halfDelta)),
			p.at(1, releaseScore, c, study.PIM, p.delta(wideDelta)),
		},
	}}
}

func (p prover) personal(c study.Case) (list []comparison) {
	if c.Kind != study.Personal {
		return nil
	}
	for _, at := range p.Settings() {
		list = append(list, p.gains(c, at)...)
	}
	return list
}

// gains compare a personal model with the popular one at a setting.
func (p prover) gains(c study.Case, at study.Setting) (list []comparison) {
	popular := study.Case{Data: c.Data, Kind: study.Popular}
	for _, m := range []score{setScore, releaseScore} {
		without, with := p.at(1, m, popular, study.PIM, at), p.at(-1, m, c, study.PIM, at)
		without.what, with.what = "popular", "personal"
		list = append(list, comparison{
			what:  fmt.Sprintf("ε %g δ %g: %s", at.Epsilon, at.Delta, m.axis),
			terms: []term{without, with},
		})
	}
	return list
}

func (p prover) atFixed(c study.Case) string {
	var words []string
	for _, of := range p.gains(c, p.Fixed()) {
		words = append(words, of.what+": "+of.numbers())
	}
	return strings.Join(words, "; ")
}

// optimal compares what one release of PIM's law leaves of the variance with what is left by the
// best mechanism that was found. The clusters are priors.
func (p prover) optimal(c study.Case) (list []comparison) {
	if c.Kind != study.Popular {
		return nil
	}
	x := singles{p.Study, c.Data}
	for _, epsilon := range p.Options.MechanismEpsilons {
		sample, best := x.read(p.Page, epsilon)
		what := fmt.Sprintf("ε %g", epsilon)
		list = append(list, comparison{what: what, terms: []term{
			{nearOptimal, score{quantity: reachedError}, what + ": possible", sample},
			{-1, score{quantity: latticeError + best}, "left", sample},
		}})
	}
	return list
}

// grows compares the slope over ln k of the share of found places with 0.
func (p prover) grows(c study.Case, in func(query) (k int, ok bool)) (list []comparison) {
	if c.Kind != study.Popular {
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
	for _, v := range []study.Variant{study.LM, study.PIM} {
		of := comparison{what: v.Label()}
		sample := p.Read(neighbours, study.Point{Case: c, Variant: v, Setting: p.Fixed()}).All()
		for j, slope := range slopes(ks) {
			wanted := float64(queries[at[j]].k)
			of.terms = append(of.terms, term{
				slope / wanted,
				score{quantity: at[j], per: wanted},
				fmt.Sprintf("%s at %g:", v.Label(), ks[j]), sample,
			})
		}
		list = append(list, of)
	}
	return list
}

func (p prover) growsWithK(c study.Case) []comparison {
	return p.grows(c, func(q query) (int, bool) { return q.k, q.k == q.fetched })
}

func (p prover) growsWithFetched(c study.Case) []comparison {
	return p.grows(c, func(q query) (int, bool) { return q.fetched, q.k == fixedK })
}
