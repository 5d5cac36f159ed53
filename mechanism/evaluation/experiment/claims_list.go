package experiment

import (
	"fmt"
	"math"
	"slices"
)

// The paper's parameters that claims name.
const (
	wideDelta = .1
	// halfDelta stands for the paper's 10^-1.5.
	halfDelta = .03
	// settled is after how many timestamps |ΔX| is called stable, alike how much its mean may change from there to the end.
	settled = 10
	alike   = 1.25
	// little is by how much an error may fall and the gain still be called little.
	little = .1
	// oneCell is up to what mean |ΔX| counts as 1.
	oneCell = 1.5
)

// The quantities that comparisons add up.
func setOf(t *Tally) float64      { return t.Set }
func driftOf(t *Tally) float64    { return t.Drift }
func release2Of(t *Tally) float64 { return t.Release2 }

// claimSettings are settings that claims need for PIM beside the swept ones.
func (s *Study) claimSettings() []Setting {
	return []Setting{{s.Options.Epsilon, s.Options.Delta}, {s.Options.Epsilon, halfDelta}, {s.Options.Epsilon, wideDelta}}
}

// prover makes claims out of results. An error stays, and ends the report.
type prover struct {
	s   *Study
	r   *Results
	err error
}

func (p *prover) tallies(c Case, v Variant, at Setting) []Tally {
	got, err := p.s.Tallies(p.r, c, v, at)
	if err != nil && p.err == nil {
		p.err = err
	}
	if err != nil {
		return make([]Tally, len(p.s.Traces(c.Data)))
	}
	return got
}

func (p *prover) fixed() Setting { return Setting{p.s.Options.Epsilon, p.s.Options.Delta} }

// claims are all of them.
func (p *prover) claims() ([]claim, error) {
	list := []claim{p.stable(), p.above4(), p.single(), p.driftFalls(), p.driftRises(), p.closer(), p.littleGain(), p.personal(), p.growsWithK(), p.growsWithFetched(), p.quick()}
	return list, p.err
}

func (p *prover) stable() claim {
	c := claim{
		sentence: "|ΔX| is stable after a few timestamps",
		rule:     fmt.Sprintf("over time: its mean over the second half of the trace is within a factor of %g of that from timestamp %d to the middle, for LM and for PIM; runs are the clusters", alike, settled+1),
		reason:   "The filter forgets its initial distribution; then |ΔX| follows how much the releases tell, how fast the person moves, and gaps in the trace, across which it predicts.",
		numbers:  map[string]string{}, strict: true,
	}
	for _, d := range p.s.followed() {
		where := Case{d, Popular}.Title()
		lines, err := p.s.timelines(d, p.r)
		if err != nil {
			p.err = err
			return c
		}
		for _, l := range lines {
			n := len(l.line.Set[0])
			if l.blind || n < 4*settled || l.variant != LM && l.variant != PIM {
				continue
			}
			halves := [][]Tally{l.line.tallies(settled, n/2), l.line.tallies(n/2, n)}
			before, after := 1/float64(n/2-settled), 1/float64(n-n/2)
			c.comparisons = append(c.comparisons,
				linear(where, l.label+": not shrinking", 0, []float64{-before / alike, after}, halves, setOf),
				linear(where, l.label+": not growing", 0, []float64{before * alike, -after}, halves, setOf))
			c.numbers[where] += fmt.Sprintf("%s: %s, then %s; ", l.label, short(SetBand(halves[0]).Value), short(SetBand(halves[1]).Value))
		}
	}
	return c
}

func (p *prover) above4() claim {
	at := p.fixed()
	c := claim{
		sentence: fmt.Sprintf("|ΔX| > 4 at δ = %g", at.Delta), rule: fmt.Sprintf("PIM at ε = %g: the mean |ΔX| over users is above 4", at.Epsilon),
		reason:  "Where the noise of this ε is larger than the map the filter knows little more than M does, and ΔX is as large as M alone leaves it. An M that allows for what it has not seen makes sets large; they make the noise larger still.",
		numbers: map[string]string{},
	}
	for _, k := range p.s.Cases() {
		t := p.tallies(k, PIM, at)
		c.comparisons = append(c.comparisons, linear(k.Title(), "|ΔX| - 4", -4, []float64{1}, [][]Tally{t}, setOf))
		c.numbers[k.Title()] = "mean |ΔX| " + SetBand(t).String()
	}
	return c
}

func (p *prover) single() claim {
	at := Setting{p.s.Options.Epsilon, wideDelta}
	c := claim{
		sentence: fmt.Sprintf("|ΔX| = 1 at δ = %g with a personal M", wideDelta), rule: fmt.Sprintf("PIM at ε = %g: the mean |ΔX| over users is below %g", at.Epsilon, oneCell),
		reason:  "A single cell needs one that holds nine tenths of the prior at every timestamp: an M that leaves next to no doubt of the next cell, as counts alone of the very trace that is measured may. Such a set would mean that the release is the cell's centre whatever the truth, and that the model has told the place already.",
		numbers: map[string]string{},
	}
	for _, k := range p.s.Cases() {
		if k.Kind == Personal {
			t := p.tallies(k, PIM, at)
			c.comparisons = append(c.comparisons, linear(k.Title(), fmt.Sprintf("%g - |ΔX|", oneCell), oneCell, []float64{-1}, [][]Tally{t}, setOf))
			c.numbers[k.Title()] = "mean |ΔX| " + SetBand(t).String()
		}
	}
	return c
}

// trend compares a quantity's slope over the logarithm of a swept value with 0.
func (p *prover) trend(c *claim, sign float64, values []float64, at func(float64) Setting) {
	weights := slopes(values)
	for i := range weights {
		weights[i] *= sign
	}
	c.numbers = map[string]string{}
	if len(values) < 2 {
		return
	}
	for _, k := range p.s.Cases() {
		for _, v := range []Variant{LM, PIM} {
			var tallies [][]Tally
			for _, value := range values {
				tallies = append(tallies, p.tallies(k, v, at(value)))
			}
			c.comparisons = append(c.comparisons, linear(k.Title(), v.Label(), 0, weights, tallies, driftOf))
			c.numbers[k.Title()] += fmt.Sprintf("%s: %s at %g, %s at %g; ", v.Label(),
				short(DriftBand(tallies[0]).Value), values[0], short(DriftBand(tallies[len(tallies)-1]).Value), values[len(values)-1])
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
	o := p.s.Options
	c := claim{
		sentence: "The drift ratio falls with ε", rule: fmt.Sprintf("at δ = %g: the slope of the drift ratio over ln ε is below 0", o.Delta),
		reason: "By the definition of ΔX the drift is δ at the most, on average, at any ε where M is right. What goes beyond is M's error: a larger ε corrects a filter that is lost, and also makes sets so small that the error of M shows. Which of the two weighs more depends on M and the trace.",
	}
	p.trend(&c, -1, o.Epsilons, func(v float64) Setting { return Setting{v, o.Delta} })
	return c
}

func (p *prover) driftRises() claim {
	o := p.s.Options
	c := claim{
		sentence: "The drift ratio rises with δ", rule: fmt.Sprintf("at ε = %g: the slope of the drift ratio over ln δ is above 0", o.Epsilon),
		reason: "ΔX leaves out up to δ of the prior, so that drift may rise with δ, and is δ at the most, on average, where M is right.",
	}
	p.trend(&c, 1, o.Deltas, func(v float64) Setting { return Setting{o.Epsilon, v} })
	return c
}

func (p *prover) closer() claim {
	c := claim{
		sentence: "PIM's releases are closer to the truth than LM's everywhere", rule: "at each ε and δ: the mean squared distance of PIM's release is below LM's, user by user; everywhere means at all of them",
		reason:  "PIM's noise fits the hull K; the paper's LM adds both extents of K on both axes, up to twice what it needs.",
		numbers: map[string]string{}, strict: true,
	}
	for _, k := range p.s.Cases() {
		low, high := math.Inf(1), 0.0
		better := 0
		for _, at := range p.s.Settings() {
			both := [][]Tally{p.tallies(k, LM, at), p.tallies(k, PIM, at)}
			c.comparisons = append(c.comparisons, linear(k.Title(), fmt.Sprintf("ε %g δ %g", at.Epsilon, at.Delta), 0, []float64{1, -1}, both, release2Of))
			ratio := ReleaseBand(both[1]).Value / ReleaseBand(both[0]).Value
			low, high = min(low, ratio), max(high, ratio)
			if EstimateBand(both[1]).Value < EstimateBand(both[0]).Value {
				better++
			}
		}
		c.numbers[k.Title()] = fmt.Sprintf("PIM's rms distance is %s to %s of LM's; its estimate is closer at %d of %d settings", short(low), short(high), better, len(p.s.Settings()))
	}
	return c
}

func (p *prover) littleGain() claim {
	o := p.s.Options
	c := claim{
		sentence: "Little is gained from δ = 10^-1.5 to δ = 10^-1",
		rule:     fmt.Sprintf("PIM at ε = %g: the rms distance of the release at δ = %g is not more than a tenth below that at %g", o.Epsilon, wideDelta, halfDelta),
		reason:   "A larger δ makes ΔX and with it the noise smaller; what drift costs is the way to the nearest cell of ΔX. How much is gained depends on how much mass M leaves far out.",
		numbers:  map[string]string{},
	}
	for _, k := range p.s.Cases() {
		both := [][]Tally{p.tallies(k, PIM, Setting{o.Epsilon, halfDelta}), p.tallies(k, PIM, Setting{o.Epsilon, wideDelta})}
		least := float64((1 - little) * (1 - little))
		c.comparisons = append(c.comparisons, linear(k.Title(), "squared distance", 0, []float64{-least, 1}, both, release2Of))
		c.numbers[k.Title()] = fmt.Sprintf("%s km at %g, %s km at %g", short(ReleaseBand(both[0]).Value), halfDelta, short(ReleaseBand(both[1]).Value), wideDelta)
	}
	return c
}

func (p *prover) personal() claim {
	at := p.fixed()
	c := claim{
		sentence: "A personal M gives better results than a popular one", rule: "PIM at each ε and δ: |ΔX| and the mean squared distance of the release are smaller, user by user",
		reason:  "The user's own rows should leave fewer cells. They were learned from the very traces that are measured, as the paper has it, which nobody's model can be; and they are themselves a description of the person, published with M.",
		numbers: map[string]string{},
	}
	for _, k := range p.s.Cases() {
		if k.Kind != Personal {
			continue
		}
		for _, at := range p.s.Settings() {
			both := [][]Tally{p.tallies(Case{k.Data, Popular}, PIM, at), p.tallies(k, PIM, at)}
			name := fmt.Sprintf("ε %g δ %g: ", at.Epsilon, at.Delta)
			c.comparisons = append(c.comparisons,
				linear(k.Title(), name+"|ΔX|", 0, []float64{1, -1}, both, setOf),
				linear(k.Title(), name+"distance", 0, []float64{1, -1}, both, release2Of))
		}
		popular, own := p.tallies(Case{k.Data, Popular}, PIM, at), p.tallies(k, PIM, at)
		c.numbers[k.Title()] = fmt.Sprintf("at ε = %g, δ = %g: |ΔX| %s against %s, distance %s against %s km", at.Epsilon, at.Delta,
			short(SetBand(own).Value), short(SetBand(popular).Value), short(ReleaseBand(own).Value), short(ReleaseBand(popular).Value))
	}
	return c
}

// grows compares the slope over ln k of the share of found places with 0, for both mechanisms.
func (p *prover) grows(c *claim, in func(Query) (k float64, ok bool), shareOf func([]Neighbours, int, Query, bool) Band) {
	c.numbers = map[string]string{}
	for _, d := range p.s.Data {
		queries := d.Places.queries()
		where := Case{d, Popular}.Title()
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
		for _, what := range []string{LM.at(p.fixed()), PIM.at(p.fixed()), "blind"} {
			tallies, err := p.s.Neighbours(p.r, d, what)
			if err != nil {
				p.err = err
				return
			}
			name := "blind"
			if what != "blind" {
				name = LM.Label()
				if what == PIM.at(p.fixed()) {
					name = PIM.Label()
				}
				line := comparison{where: where, what: name}
				for _, t := range tallies {
					over := 0.0
					for j, i := range at {
						over += float64(weights[j] * t.Release[i] / float64(queries[i].K))
					}
					line.over, line.by = append(line.over, over), append(line.by, float64(t.N))
				}
				c.comparisons = append(c.comparisons, line)
			}
			c.numbers[where] += fmt.Sprintf("%s: %s at %g, %s at %g; ", name,
				short(shareOf(tallies, first, queries[first], what == "blind").Value), ks[0],
				short(shareOf(tallies, last, queries[last], what == "blind").Value), ks[len(ks)-1])
		}
	}
}

func (p *prover) growsWithK() claim {
	o := p.s.Options
	c := claim{
		sentence: "Precision and recall grow with k (k = k')", rule: fmt.Sprintf("releases at ε = %g, δ = %g: the slope over ln k is above 0", o.Epsilon, o.Delta),
		reason: "The more places are asked for, the larger is the share of the map on which they lie: even answers at random grow more precise with k. By itself it says nothing of how useful releases are.",
	}
	p.grows(&c, func(q Query) (float64, bool) { return float64(q.K), q.K == q.Fetched }, recall)
	return c
}

func (p *prover) growsWithFetched() claim {
	o := p.s.Options
	c := claim{
		sentence: fmt.Sprintf("Recall grows with k' (k = %d)", fixedK), rule: fmt.Sprintf("releases at ε = %g, δ = %g: the slope over ln k' is above 0", o.Epsilon, o.Delta),
		reason: "More answers can only hold more of what is wanted: it follows from the definition. What it costs is precision, and the answers that are fetched in vain.",
	}
	p.grows(&c, func(q Query) (float64, bool) { return float64(q.Fetched), q.K == fixedK }, recall)
	return c
}

// quick is whether releases come within the paper's time.
func (p *prover) quick() claim {
	c := claim{
		sentence: fmt.Sprintf("Most releases come within %s", seconds(promised)),
		rule:     "one trace, PIM, prediction and inference included: holds if more than nine tenths of the releases, fails if fewer than half. The times are this machine's, at work on other things too, and the only numbers of the report that another run need not repeat",
		reason:   "Prediction and inference are linear in the cells with mass, K is found in one sweep, and noise is drawn in K itself.",
		numbers:  map[string]string{}, given: Untested,
	}
	if p.s.Options.Clock == nil {
		return c
	}
	var verdicts []Verdict
	for _, d := range p.s.Data {
		var t timing
		if err := p.r.Get(timingPiece(d), &t); err != nil {
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
		c.numbers[Case{d, Popular}.Title()] = fmt.Sprintf("%d of %d releases; half of them within %s ms, the slowest within %s ms", t.Within, t.N, short(t.MedianMS), short(t.SlowestMS))
	}
	c.given = Depends
	if len(slices.Compact(slices.Sorted(slices.Values(verdicts)))) == 1 {
		c.given = verdicts[0]
	}
	return c
}
