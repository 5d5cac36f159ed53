package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
)

// The paper's parameters that claims name.
const (
	wideDelta = .1
	// halfDelta stands for the paper's 10^-1.5.
	halfDelta = .03
	// settled is after how many timestamps |ΔX| is called stable, alike how much its mean may
	// change from there to the end.
	settled = 10
	alike   = 1.25
	// little is by how much an error may fall and the gain still be called little.
	little = .1
	// nearOptimal is how far above the best mechanism an error may be and still be called optimal.
	nearOptimal = 1.05
	// oneCell is up to what mean |ΔX| counts as 1.
	oneCell = 1.5
)

// The quantities that comparisons add up.
func setOf(t *study.Tally) float64      { return t.Set }
func driftOf(t *study.Tally) float64    { return t.Drift }
func release2Of(t *study.Tally) float64 { return t.Release2 }

// claimSettings are settings that claims need for PIM beside the swept ones.
func claimSettings(o study.Options) []study.Setting {
	var list []study.Setting
	for _, delta := range []float64{o.Delta, halfDelta, wideDelta} {
		list = append(list, study.Setting{Epsilon: o.Epsilon, Delta: delta})
	}
	return list
}

// prover makes claims out of results. An error stays, and ends the report.
type prover struct {
	*study.Study
	prose   study.Prose
	results *study.Results
	err     error
}

// claim returns a claim in words, without its comparisons.
func (p *prover) claim(name string) claim {
	figures := study.Figures{
		"epsilon": p.Options.Epsilon, "delta": p.Options.Delta, "wide": wideDelta,
		"half":  halfDelta,
		"alike": alike, "after": settled + 1, "oneCell": oneCell, "k": fixedK, "promised": promised,
		"nearOptimal": 100 * (nearOptimal - 1),
	}
	return claim{
		sentence: p.prose.Say(name+".sentence", figures), rule: p.prose.Say(name+".rule", figures),
		reason: p.prose.Say(name+".reason", figures), numbers: map[string]string{},
	}
}

func (p *prover) tallies(c study.Case, v study.Variant, at study.Setting) []study.Tally {
	got, err := parametersOf(p.Study, c).tallies(p.results, v, at)
	if err != nil && p.err == nil {
		p.err = err
	}
	if err != nil {
		return make([]study.Tally, len(p.Traces(c.Data)))
	}
	return got
}

func (p *prover) fixed() study.Setting {
	return study.Setting{Epsilon: p.Options.Epsilon, Delta: p.Options.Delta}
}

// claims are all of them.
func (p *prover) claims() ([]claim, error) {
	list := []claim{
		p.stable(), p.above4(), p.single(), p.driftFalls(), p.driftRises(), p.closer(),
		p.littleGain(), p.personal(), p.optimal(), p.growsWithK(), p.growsWithFetched(), p.quick(),
	}
	return list, p.err
}

func (p *prover) stable() claim {
	c := p.claim("stable")
	c.strict = true
	for _, x := range overTimes(p.Study) {
		where := study.Case{Data: x.data, Kind: study.Popular}.Title()
		lines, err := x.timelines(p.results)
		if err != nil {
			p.err = err
			return c
		}
		for _, l := range lines {
			n := len(l.line.Set[0])
			if l.blind || n < 4*settled || l.variant != study.LM && l.variant != study.PIM {
				continue
			}
			halves := [][]study.Tally{l.line.tallies(settled, n/2), l.line.tallies(n/2, n)}
			before, after := 1/float64(n/2-settled), 1/float64(n-n/2)
			c.comparisons = append(c.comparisons,
				linear(where, l.label+": not shrinking", 0, []float64{-before / alike, after},
					halves, setOf),
				linear(where, l.label+": not growing", 0,
					[]float64{before * alike, -after}, halves, setOf))
			c.numbers[where] += fmt.Sprintf("%s: %s, then %s; ", l.label,
				study.Short(study.SetBand(halves[0]).Value),
				study.Short(study.SetBand(halves[1]).Value))
		}
	}
	return c
}

func (p *prover) above4() claim {
	at := p.fixed()
	c := p.claim("above4")
	for _, k := range p.Cases() {
		t := p.tallies(k, study.PIM, at)
		c.comparisons = append(c.comparisons,
			linear(k.Title(), "|ΔX| - 4", -4, []float64{1}, [][]study.Tally{t}, setOf))
		c.numbers[k.Title()] = "mean |ΔX| " + study.SetBand(t).String()
	}
	return c
}

func (p *prover) single() claim {
	at := study.Setting{Epsilon: p.Options.Epsilon, Delta: wideDelta}
	c := p.claim("single")
	for _, k := range p.Cases() {
		if k.Kind == study.Personal {
			t := p.tallies(k, study.PIM, at)
			c.comparisons = append(c.comparisons,
				linear(k.Title(), fmt.Sprintf("%g - |ΔX|", oneCell), oneCell, []float64{-1},
					[][]study.Tally{t}, setOf))
			c.numbers[k.Title()] = "mean |ΔX| " + study.SetBand(t).String()
		}
	}
	return c
}

// trend compares a quantity's slope over the logarithm of a swept value with 0.
func (p *prover) trend(c *claim, sign float64, values []float64, at func(float64) study.Setting) {
	weights := slopes(values)
	for i := range weights {
		weights[i] *= sign
	}
	if len(values) < 2 {
		return
	}
	for _, k := range p.Cases() {
		for _, v := range []study.Variant{study.LM, study.PIM} {
			var tallies [][]study.Tally
			for _, value := range values {
				tallies = append(tallies, p.tallies(k, v, at(value)))
			}
			c.comparisons = append(c.comparisons,
				linear(k.Title(), v.Label(), 0, weights, tallies, driftOf))
			last := len(values) - 1
			c.numbers[k.Title()] += fmt.Sprintf("%s: %s at %g, %s at %g; ", v.Label(),
				study.Short(study.DriftBand(tallies[0]).Value), values[0],
				study.Short(study.DriftBand(tallies[last]).Value), values[last])
		}
	}
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

func (p *prover) driftFalls() claim {
	o := p.Options
	c := p.claim("driftFalls")
	p.trend(&c, -1, o.Epsilons, func(v float64) study.Setting {
		return study.Setting{Epsilon: v, Delta: o.Delta}
	})
	return c
}

func (p *prover) driftRises() claim {
	o := p.Options
	c := p.claim("driftRises")
	p.trend(&c, 1, o.Deltas, func(v float64) study.Setting {
		return study.Setting{Epsilon: o.Epsilon, Delta: v}
	})
	return c
}

func (p *prover) closer() claim {
	c := p.claim("closer")
	c.strict = true
	for _, k := range p.Cases() {
		low, high := math.Inf(1), 0.0
		better := 0
		for _, at := range p.Settings() {
			both := [][]study.Tally{p.tallies(k, study.LM, at), p.tallies(k, study.PIM, at)}
			c.comparisons = append(c.comparisons, linear(k.Title(),
				fmt.Sprintf("ε %g δ %g", at.Epsilon, at.Delta), 0, []float64{1, -1}, both,
				release2Of))
			ratio := study.ReleaseBand(both[1]).Value / study.ReleaseBand(both[0]).Value
			low, high = min(low, ratio), max(high, ratio)
			if study.EstimateBand(both[1]).Value < study.EstimateBand(both[0]).Value {
				better++
			}
		}
		c.numbers[k.Title()] = fmt.Sprintf(
			"PIM's rms distance is %s to %s of LM's; its estimate is closer at %d of %d settings",
			study.Short(low), study.Short(high), better, len(p.Settings()))
	}
	return c
}

func (p *prover) littleGain() claim {
	o := p.Options
	c := p.claim("littleGain")
	for _, k := range p.Cases() {
		both := [][]study.Tally{
			p.tallies(k, study.PIM, study.Setting{Epsilon: o.Epsilon, Delta: halfDelta}),
			p.tallies(k, study.PIM, study.Setting{Epsilon: o.Epsilon, Delta: wideDelta}),
		}
		least := float64((1 - little) * (1 - little))
		c.comparisons = append(c.comparisons,
			linear(k.Title(), "squared distance", 0, []float64{-least, 1}, both, release2Of))
		c.numbers[k.Title()] = fmt.Sprintf("%s km at %g, %s km at %g",
			study.Short(study.ReleaseBand(both[0]).Value), halfDelta,
			study.Short(study.ReleaseBand(both[1]).Value), wideDelta)
	}
	return c
}

func (p *prover) personal() claim {
	at := p.fixed()
	c := p.claim("personal")
	for _, k := range p.Cases() {
		if k.Kind != study.Personal {
			continue
		}
		for _, at := range p.Settings() {
			both := [][]study.Tally{
				p.tallies(study.Case{Data: k.Data, Kind: study.Popular}, study.PIM, at),
				p.tallies(k, study.PIM, at),
			}
			name := fmt.Sprintf("ε %g δ %g: ", at.Epsilon, at.Delta)
			c.comparisons = append(c.comparisons,
				linear(k.Title(), name+"|ΔX|", 0, []float64{1, -1}, both, setOf),
				linear(k.Title(), name+"distance", 0, []float64{1, -1}, both, release2Of))
		}
		popular := p.tallies(study.Case{Data: k.Data, Kind: study.Popular}, study.PIM, at)
		own := p.tallies(k, study.PIM, at)
		c.numbers[k.Title()] = fmt.Sprintf("at ε = %g, δ = %g: |ΔX| %s against %s, distance %s "+
			"against %s km", at.Epsilon, at.Delta, study.Short(study.SetBand(own).Value),
			study.Short(study.SetBand(popular).Value), study.Short(study.ReleaseBand(own).Value),
			study.Short(study.ReleaseBand(popular).Value))
	}
	return c
}

// optimal compares what one release of PIM's law leaves of the variance with what is left by the
// best mechanism that was found. The clusters are priors.
func (p *prover) optimal() claim {
	c := p.claim("optimal")
	for _, x := range eachMechanisms(p.Study) {
		where := study.Case{Data: x.data, Kind: study.Popular}.Title()
		for _, epsilon := range p.Options.MechanismEpsilons {
			list, err := x.once().results(p.results, epsilon)
			if err != nil {
				p.err = err
				return c
			}
			best := bestLattice(list)
			line := comparison{where: where, what: fmt.Sprintf("ε %g", epsilon)}
			for _, o := range list {
				line.over = append(line.over, float64(nearOptimal*o.Reached)-o.Lattice[best])
				line.by = append(line.by, 1)
			}
			c.comparisons = append(c.comparisons, line)
			c.numbers[where] += fmt.Sprintf("ε = %g: %s of the variance is left, %s is possible; ",
				epsilon, study.Short(shares(list, func(o *once) float64 {
					return o.Lattice[best]
				}).Value),
				study.Short(shares(list, func(o *once) float64 { return o.Reached }).Value))
		}
	}
	return c
}

// grows compares the slope over ln k of the share of found places with 0, for both mechanisms.
func (p *prover) grows(
	c *claim, in func(Query) (k float64, ok bool),
	shareOf func([]Neighbours, int, Query, bool) study.Band,
) {
	for _, x := range knns(p.Study) {
		queries := queriesOf(x.data.Places)
		where := study.Case{Data: x.data, Kind: study.Popular}.Title()
		var ks []float64
		var at []int
		for i, q := range queries {
			if k, ok := in(q); ok {
				ks, at = append(ks, k), append(at, i)
			}
		}
		if len(ks) < 2 {
			continue
		}
		weights := slopes(ks)
		first, last := at[0], at[len(at)-1]
		for _, by := range []struct{ what, name string }{
			{study.LM.At(p.fixed()), study.LM.Label()},
			{study.PIM.At(p.fixed()), study.PIM.Label()},
			{"blind", "blind"},
		} {
			tallies, err := x.tallies(p.results, by.what)
			if err != nil {
				p.err = err
				return
			}
			blind := by.what == "blind"
			if !blind {
				line := comparison{where: where, what: by.name}
				line.over, line.by = growth(tallies, queries, at, weights)
				c.comparisons = append(c.comparisons, line)
			}
			share := func(query int) string {
				return study.Short(shareOf(tallies, query, queries[query], blind).Value)
			}
			c.numbers[where] += fmt.Sprintf("%s: %s at %g, %s at %g; ",
				by.name, share(first), ks[0], share(last), ks[len(ks)-1])
		}
	}
}

// growth returns the slope of the share of found places over some of the queries, which have those
// weights, and the number of steps it was counted in: one of each for a tally.
func growth(
	tallies []Neighbours, queries []Query, at []int, weights []float64,
) (over, by []float64) {
	for _, t := range tallies {
		slope := 0.0
		for j, i := range at {
			slope += float64(weights[j] * t.Release[i] / float64(queries[i].K))
		}
		over, by = append(over, slope), append(by, float64(t.N))
	}
	return over, by
}

func (p *prover) growsWithK() claim {
	c := p.claim("growsWithK")
	p.grows(&c, func(q Query) (float64, bool) { return float64(q.K), q.K == q.Fetched }, recall)
	return c
}

func (p *prover) growsWithFetched() claim {
	c := p.claim("growsWithFetched")
	p.grows(&c, func(q Query) (float64, bool) { return float64(q.Fetched), q.K == fixedK }, recall)
	return c
}

// quick is whether releases come within the paper's time.
func (p *prover) quick() claim {
	c := p.claim("quick")
	c.given = Untested
	if p.Options.Clock == nil {
		return c
	}
	var verdicts []Verdict
	for _, d := range p.Data {
		var t timing
		if err := p.results.Get(timingPiece(d), &t); err != nil {
			p.err = err
			return c
		}
		share := float64(t.Within) / float64(t.N)
		verdict := Depends
		if share > .9 {
			verdict = Holds
		} else if share < .5 {
			verdict = Fails
		}
		verdicts = append(verdicts, verdict)
		c.numbers[study.Case{Data: d, Kind: study.Popular}.Title()] = fmt.Sprintf(
			"%d of %d releases; half of them within %s ms, the slowest within %s ms", t.Within, t.N,
			study.Short(t.MedianMS), study.Short(t.SlowestMS))
	}
	c.given = Depends
	if len(slices.Compact(slices.Sorted(slices.Values(verdicts)))) == 1 {
		c.given = verdicts[0]
	}
	return c
}
