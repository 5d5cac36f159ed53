package audit

import (
	"fmt"
	"math"
	"sync"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// AttackReport is the outcome of the closed-form attack: an observer is shown releases of two
// places, chosen by a coin, and guesses where an event in favour of one of them has happened.
//
// A fifth of the draws is a survey of all pairs, the rest goes to the pair and event that look most
// promising after it (AttackResult.promise), with fresh draws: so the last bound pays for one test
// and not for all. Choosing on other draws than those of the test is as Ding, Wang, Wang, Zhang and
// Kifer do it (2018, doi 10.1145/3243734.3243818). Half of 1 - Confidence is for the survey's tests
// together (Bonferroni), half for the last one.
//
// The draws are the Sampler's, which takes its words from a few long streams. That the published
// releases follow the same law is part of the test of separation.
type AttackReport struct {
	// Bound is a lower bound on the true ε at the report's confidence: the greatest of all.
	Bound float64 `json:"bound"`
	// Worst is where it was found.
	Worst AttackResult `json:"worst"`
	// Tests is the number of tests of the survey.
	Tests  int            `json:"tests"`
	Survey []AttackResult `json:"survey"` // of each pair its greatest bound
	// Near is the strongest test of two places that the near factor is promised for, of which
	// NearLimit is the logarithm; nil without one.
	Near      *AttackResult `json:"near,omitempty"`
	NearLimit float64       `json:"near_limit,omitempty"`
}

// AttackResult is one test.
type AttackResult struct {
	Situation string `json:"situation"`
	// Places are "members" of the location set, or cells "outside" by way of their surrogates.
	// Under the codebook mechanism they vote otherwise: "neighbours", "members" of the prior whose
	// code points are far apart, or "corners" of the map; and "near" cells, whatever their votes.
	Places   string  `json:"places"`
	Event    string  `json:"event"`
	Guesses  string  `json:"guesses"` // "both" places, or only the "first" or the "second"
	Draws    int64   `json:"draws"`
	Hits     int64   `json:"hits"`
	Misses   int64   `json:"misses"`
	Bound    float64 `json:"bound"`
	Estimate float64 `json:"estimate"` // ln(hits/misses); 0 without a miss
	Reach    float64 `json:"reach"`    // what a mechanism as stated has between the two places
}

const (
	surveyShare  = 5 // one in so many draws
	chunk        = 4096
	guessesBoth  = 0
	guessesWays  = 3
	surveyStage  = "survey"
	confirmStage = "confirm"
)

var guessesNames = [guessesWays]string{"both", "first", "second"}

// tally counts, per event, its releases and those of its mirror image, by the place that was
// released.
type tally [][2][2]int64

// guesses returns hits and misses of an event.
func (t tally) guesses(event, way int) (hits, misses int64) {
	for side := range 2 {
		if way == guessesBoth || way == side+1 {
			hits += t[event][side][side]
			misses += t[event][side][1-side]
		}
	}
	return hits, misses
}

func (a *auditor) attack(report *Report) error {
	var pairs []*pair
	tests := 0
	for _, s := range a.situations {
		pairs = append(pairs, pairsOf(s, a.release)...)
	}
	for _, p := range pairs {
		tests += len(p.events) * guessesWays
	}
	alpha := (1 - a.options.Confidence) / 2
	each := a.options.Draws / surveyShare / int64(len(pairs))
	tallies, err := a.draw(surveyStage, pairs, each)
	if err != nil {
		return err
	}
	report.Attack = AttackReport{Tests: tests}
	best, chosen := AttackResult{Bound: -1}, lead{promise: math.Inf(-1)}
	for i, p := range pairs {
		strongest, promising := p.survey(tallies[i], each, alpha/float64(tests))
		report.Attack.Survey = append(report.Attack.Survey, strongest)
		if strongest.Bound > best.Bound {
			best = strongest
		}
		if promising.promise > chosen.promise {
			chosen = promising
		}
	}
	rest := a.options.Draws - each*int64(len(pairs))
	if near := a.nearest(pairs, tallies, each, alpha/float64(tests)); near.pair != nil {
		rest, alpha = rest/2, alpha/2
		if err := a.confirmNear(near, rest, alpha, &report.Attack); err != nil {
			return err
		}
	}
	last, err := a.draw(confirmStage, []*pair{chosen.pair}, rest)
	if err != nil {
		return err
	}
	result := chosen.pair.result(last[0], chosen.event, chosen.way, rest, alpha)
	if result.Bound >= best.Bound {
		best = result
	}
	report.Attack.Bound, report.Attack.Worst = best.Bound, best
	return nil
}

// nearest returns the most promising test of near places after a survey; without a pair if no near
// factor is promised.
func (a *auditor) nearest(pairs []*pair, tallies []tally, each int64, alpha float64) lead {
	best := lead{promise: math.Inf(-1)}
	for i, p := range pairs {
		if !p.near {
			continue
		}
		if _, promising := p.survey(tallies[i], each, alpha); promising.promise > best.promise {
			best = promising
		}
	}
	return best
}

// confirmNear tests near places with fresh draws.
func (a *auditor) confirmNear(l lead, draws int64, alpha float64, report *AttackReport) error {
	last, err := a.draw(confirmStage+" near", []*pair{l.pair}, draws)
	if err != nil {
		return err
	}
	result := l.pair.result(last[0], l.event, l.way, draws, alpha)
	report.Near, report.NearLimit = &result, math.Log(a.release.Near.Factor)
	return nil
}

// lead is the test of a survey that is to be confirmed.
type lead struct {
	promise    float64
	pair       *pair
	event, way int
}

// survey returns the result with the largest bound, and the test of the greatest promise.
func (p *pair) survey(t tally, draws int64, alpha float64) (AttackResult, lead) {
	strongest, promising := AttackResult{Bound: -1}, lead{promise: math.Inf(-1)}
	for event := range p.events {
		for way := range guessesWays {
			result := p.result(t, event, way, draws, alpha)
			if result.Bound > strongest.Bound {
				strongest = result
			}
			if score := result.promise(); score > promising.promise {
				promising = lead{score, p, event, way}
			}
		}
	}
	return strongest, promising
}

// suspicion is the level at which a survey's result counts as one that a right mechanism would not
// give: one false suspicion in some 30 surveys.
const suspicion = 2e-4

// promise says how good a bound the last test is expected to give, up to a constant. What the
// survey has estimated above the reach by luck must not count: it would lead to a test of a few
// lucky guesses. What it has found with significance does.
func (r AttackResult) promise() float64 {
	if clamp(EpsilonLowerBound(r.Hits, r.Misses, suspicion)) > r.Reach {
		return r.Reach + r.Bound
	}
	return r.Bound - max(r.Estimate-r.Reach, 0)
}

func (p *pair) result(t tally, event, way int, draws int64, alpha float64) AttackResult {
	hits, misses := t.guesses(event, way)
	r := AttackResult{
		Situation: p.at.name, Places: p.kind, Event: p.events[event].name,
		Guesses: guessesNames[way], Draws: draws,
		Hits: hits, Misses: misses, Reach: p.reach,
		Bound: clamp(EpsilonLowerBound(hits, misses, alpha)),
	}
	if hits > 0 && misses > 0 {
		r.Estimate = math.Log(float64(hits) / float64(misses))
	}
	return r
}

// draw draws as many releases of each pair and counts its events. Words come from streams by the
// seed, the stage, the pair and the chunk, so workers can take chunks in any order.
func (a *auditor) draw(stage string, pairs []*pair, each int64) ([]tally, error) {
	sums := make([]tally, len(pairs))
	for i, p := range pairs {
		sums[i] = make(tally, len(p.events))
	}
	chunks := int((each + chunk - 1) / chunk) // of each pair
	before := a.done
	size := func(task int) int64 { return min(chunk, each-int64(task%chunks)*chunk) }
	pool := parallel.Pool{Workers: a.options.Workers, Size: size, Progress: func(done int64) error {
		a.done = before + done
		if a.options.Progress == nil {
			return nil
		}
		return a.options.Progress(a.done, a.options.Draws)
	}}
	var mu sync.Mutex // of the sums
	return sums, pool.Do(chunks*len(pairs), func(int) func(*parallel.Task) error {
		w := &worker{
			auditor: a, samplers: map[*Situation]Sampler{},
			streams: noise.NewKeyed(noise.KeyFromSeed(a.options.Seed)),
		}
		return func(t *parallel.Task) error {
			i := t.Number / chunks
			name := fmt.Sprintf("geodither audit, %s %d/%d", stage, i, int64(t.Number%chunks)*chunk)
			counts, err := w.count(pairs[i], name, size(t.Number))
			mu.Lock()
			defer mu.Unlock()
			sums[i].add(counts)
			return err
		}
	})
}

func (t tally) add(other tally) {
	for e := range other {
		for side := range 2 {
			for place := range 2 {
				t[e][side][place] += other[e][side][place]
			}
		}
	}
}

// worker draws on one goroutine.
type worker struct {
	*auditor
	samplers map[*Situation]Sampler
	streams  *noise.Keyed
}

func (w *worker) sampler(at *Situation) (Sampler, error) {
	if s := w.samplers[at]; s != nil {
		return s, nil
	}
	s, err := w.subject.Sampler(at, w.release)
	w.samplers[at] = s
	return s, err
}

// count draws n releases of a pair.
func (w *worker) count(p *pair, stream string, n int64) (tally, error) {
	sample, err := w.sampler(p.at)
	if err != nil {
		return nil, err
	}
	src := w.streams.Stream([]byte(stream))
	f := newFrame(p.at.grid, w.release)
	counts := make(tally, len(p.events))
	for range n {
		place := int(src.Uint64() >> 63)
		z := sample(src, p.cells[place])
		first, second := f.offset(z, p.places[0]), f.offset(z, p.places[1])
		for e := range p.events {
			if p.happens(&p.events[e], z, 0, first, second) {
				counts[e][0][place]++
			}
			if p.happens(&p.events[e], z, 1, second.mirrored(), first.mirrored()) {
				counts[e][1][place]++
			}
		}
	}
	return counts, nil
}

// happens says whether an event in favour of one place, or its mirror image in favour of the other,
// has happened.
func (p *pair) happens(e *event, z grid.Point, side int, near, away offset) bool {
	if p.at.code != nil {
		return z == p.own[side]
	}
	if !e.cone.holds(near) || e.second != nil && !e.second.holds(away) {
		return false
	}
	return e.beyond == 0 || p.norm(z, convex.Vec(p.at.grid.Centre(p.places[side]))) >= e.beyond
}

// frame reads releases as points of the lattice, where there is one.
type frame struct {
	grid *grid.Grid
	n    int64 // steps to a cell's side; 0 without a lattice
}

func newFrame(g *grid.Grid, o mechanism.Options) frame {
	if o.Mechanism != law.Lattice {
		return frame{grid: g}
	}
	return frame{g, int64(o.Subdivision)}
}

// farAway is beyond what half steps in a float64 tell.
const farAway = 1 << 52

// steps returns a coordinate in half steps from the map's corner, and whether it is the very
// float64 that stands for a point of the lattice.
func (f frame) steps(km float64) (int64, bool) {
	h := math.Round(km / f.grid.CellKM() * float64(2*f.n))
	if !(math.Abs(h) < farAway) {
		return 0, false
	}
	return int64(h), int64(h)&1 == f.n&1 && h/float64(2*f.n)*f.grid.CellKM() == km
}

// beside says that a coordinate is not one of the lattice's. Far away nobody can say.
func (f frame) beside(km float64) bool {
	_, on := f.steps(km)
	return !on && math.Abs(km/f.grid.CellKM()*float64(2*f.n)) < farAway/2
}

// offset returns z minus a cell's centre.
func (f frame) offset(z grid.Point, c grid.Cell) offset {
	if f.n > 0 {
		x, okX := f.steps(z.X)
		y, okY := f.steps(z.Y)
		if okX && okY {
			column, row := int64(f.grid.Column(c)), int64(f.grid.Row(c))
			return offset{
				whole: true,
				steps: convex.Lattice{X: (x - (2*column+1)*f.n) / 2, Y: (y - (2*row+1)*f.n) / 2},
			}
		}
	}
	return offset{km: convex.Vec(z.Sub(f.grid.Centre(c)))}
}
