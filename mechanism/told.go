package mechanism

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// maxToldValues bounds the probabilities that one user's open moments keep in a Teller, 8 bytes
// each. The earlier half of the moments closes then, with the records up to there taken in.
const maxToldValues = 1 << 23

// leastTold is the smallest probability of a possible cell in a Teller, and the smallest share of
// what later records say. So a ln ratio is finite. It is exact as long as neither the past nor the
// future says more than 693 of it, which only a chain that hardly mixes lets them say.
const leastTold = 0x1p-1000

// Teller measures what all records of a user tell about one moment: ln of the largest ratio between
// two cells of
//
//	P(cell at t | all records) / P(cell at t)
//
// P(cell at t) is what the public model says of the moment without any release. Cells have a part
// if that is positive. ε bounds what one release adds to the ln ratio, and package moment what all
// of them can come to.
//
// Passes are exact: over all cells of the map, without pruning and without short masses, so they
// cost more than a Smoother's. It follows from public facts, as what a Smoother says does.
//
// A Teller is scratch for one goroutine; users' blocks are separate. Cost of a moment: three
// predictions from all cells, of which a gap may take several.
type Teller struct {
	options Options
	models  map[*mobility.Model]*exactly
	most    int // probabilities that a block keeps: maxToldValues

	told, later []float64 // b of the moment at hand, and that of the next one before it
	function    mobility.Distribution
}

// exactly is the passes under one model.
type exactly struct {
	forward  *mobility.Predictor
	backward *mobility.Backward
	byLaw    bool
	all      mobility.Distribution // all cells of the map
}

// ToldBlock is what a Teller keeps of one user. The zero ToldBlock is a new user.
type ToldBlock struct {
	moments          []toldMoment // that are open
	model            *mobility.Model
	step             int64                 // of the last moment
	prior, posterior mobility.Distribution // of the last moment: without releases, and with them
}

// toldMoment is one step of a user, as the first record of the step left it, or a release after it.
type toldMoment struct {
	model      *mobility.Model
	step       int64
	likelihood []float64 // of all cells; nil: 1
	ratio      []float64 // posterior over prior, up to a factor; -1 where the prior is 0
}

// Told is what all records tell about one moment.
type Told struct {
	Step     int64
	Released bool // a moment of a release
	// LnRatio is ln of the largest ratio between two cells.
	LnRatio float64

	ratio, later []float64
}

// Learned returns ln of the ratio between cells a and b: given the records up to the moment, and
// given all of them. Both are NaN where the public model rules a cell out. Call it before the call
// of each ends, whose memory it reads.
func (t Told) Learned(a, b grid.Cell) (then, all float64) {
	if t.ratio[a] < 0 || t.ratio[b] < 0 {
		return math.NaN(), math.NaN()
	}
	then = math.Log(t.ratio[a]) - math.Log(t.ratio[b])
	return then, then + math.Log(t.later[a]) - math.Log(t.later[b])
}

// NewTeller returns a Teller under valid options of release.
func NewTeller(o Options) *Teller {
	return &Teller{
		options: o.withDefaults(), models: map[*mobility.Model]*exactly{}, most: maxToldValues,
	}
}

// Note takes in a record that s has observed last, with the state after it: see Smoother.Note. each
// is called for the moments that the record closes. A record that is not linked starts at the
// model's initial distribution, and so does one after more than MaxBack steps without a law of
// gaps.
func (t *Teller) Note(
	b *ToldBlock, s *Sanitizer, state *State, seen Seen, linked bool, each func(Told),
) {
	if b.model == nil || !linked || b.model.Grid.ID() != s.model.Grid.ID() ||
		!s.byLaw && seen.Step-b.step > MaxBack {
		t.Finish(b, each)
		b.model, b.step = s.model, seen.Step
		t.of(s.model).fill(&b.prior, &s.model.Initial)
		b.posterior.CopyFrom(&b.prior)
	} else if seen.Kind != Released && b.step == seen.Step {
		return // of the moment before
	}
	x := t.of(s.model)
	x.predict(&b.prior, b.step, seen.Step)
	x.predict(&b.posterior, b.step, seen.Step)
	b.model, b.step = s.model, seen.Step
	n := len(b.moments)
	b.moments = slices.Grow(b.moments, 1)[:n+1]
	m := &b.moments[n]
	m.model, m.step, m.likelihood = s.model, seen.Step, nil
	if seen.Kind == Released {
		m.likelihood = slices.Clone(s.emission.Likelihoods(state.Release, x.all.Cells))
		learn(&b.posterior, m.likelihood)
	}
	m.ratio = m.ratio[:0]
	for i, p := range b.prior.P {
		if p > 0 {
			b.posterior.P[i] = max(b.posterior.P[i], min(p, leastTold))
			m.ratio = append(m.ratio, b.posterior.P[i]/p)
		} else {
			m.ratio = append(m.ratio, -1)
		}
	}
	if (n+1)*len(m.ratio) >= t.most {
		t.close(b, (n+2)/2, each)
	}
}

// Finish closes all moments of a block. The block can go on with a record that is not linked.
func (t *Teller) Finish(b *ToldBlock, each func(Told)) {
	t.close(b, len(b.moments), each)
	b.model = nil
}

// learn multiplies a distribution over all cells by a likelihood, and normalizes it.
func learn(d *mobility.Distribution, likelihood []float64) {
	for i, l := range likelihood {
		d.P[i] = float64(d.P[i] * l)
	}
	d.Normalize()
}

// of returns the passes under a model.
func (t *Teller) of(m *mobility.Model) *exactly {
	x := t.models[m]
	if x == nil {
		x = &exactly{
			forward: mobility.NewPredictor(m), backward: mobility.NewBackward(m),
			byLaw: t.options.LearnedGaps(m), all: mobility.Uniform(m.Grid),
		}
		t.models[m] = x
	}
	return x
}

// fill makes dst the distribution from over all cells.
func (x *exactly) fill(dst, from *mobility.Distribution) {
	dst.Cells = append(dst.Cells[:0], x.all.Cells...)
	dst.P = slices.Grow(dst.P[:0], len(dst.Cells))[:len(dst.Cells)]
	clear(dst.P)
	for i, c := range from.Cells {
		dst.P[c] = from.P[i]
	}
}

// predict takes a distribution over all cells from one step to another.
func (x *exactly) predict(d *mobility.Distribution, from, to int64) {
	if from == to {
		return
	}
	var next mobility.Distribution
	gap := uint64(to) - uint64(from)
	if !x.byLaw || !x.forward.PredictGap(&next, d, from, gap, 0) {
		x.forward.PredictPruned(&next, d, from, int(gap), 0)
	}
	x.fill(d, &next)
}

// back returns what a function of the place at one step is expected to be at an earlier one.
func (x *exactly) back(dst []float64, at, later int64, f *mobility.Distribution) []float64 {
	gap := uint64(later) - uint64(at)
	if gap == 0 {
		return append(dst[:0], f.P...)
	}
	if x.byLaw {
		if told, ok := x.backward.BackGap(dst, &x.all, at, gap, 0, f); ok {
			return told
		}
	}
	return x.backward.Back(dst, &x.all, at, int(gap), 0, f)
}

// close goes back from the last moment to the first one, and calls each for the first ready ones.
func (t *Teller) close(b *ToldBlock, ready int, each func(Told)) {
	for k := len(b.moments) - 1; k >= 0 && ready > 0; k-- {
		m := &b.moments[k]
		t.told = slices.Grow(t.told[:0], len(m.ratio))[:len(m.ratio)]
		if k == len(b.moments)-1 {
			for i := range t.told {
				t.told[i] = 1
			}
		} else {
			next := &b.moments[k+1]
			x := t.of(next.model)
			t.function.Cells = append(t.function.Cells[:0], x.all.Cells...)
			t.function.P = append(t.function.P[:0], t.later...)
			t.told = x.back(t.told, m.step, next.step, &t.function)
		}
		if k < ready {
			each(Told{
				Step: m.step, Released: m.likelihood != nil, LnRatio: lnRatio(m.ratio, t.told),
				ratio: m.ratio, later: t.told,
			})
		}
		t.later = append(t.later[:0], t.told...)
		largest := 0.0
		for i, l := range m.likelihood {
			t.later[i] = float64(t.later[i] * l)
		}
		for _, v := range t.later {
			largest = max(largest, v)
		}
		for i := range t.later {
			t.later[i] = max(t.later[i]/largest, leastTold)
		}
	}
	open := copy(b.moments, b.moments[ready:])
	clear(b.moments[open:])
	b.moments = b.moments[:open]
}

// lnRatio returns ln of the largest ratio between two products of ratios that are not negative.
func lnRatio(ratio, told []float64) float64 {
	low, high := math.Inf(1), 0.0
	for i, r := range ratio {
		if r >= 0 {
			v := float64(r * told[i])
			low, high = min(low, v), max(high, v)
		}
	}
	if low >= leastTold {
		return max(math.Log(high)-math.Log(low), 0)
	}
	low, high = math.Inf(1), math.Inf(-1) // the smallest product has lost digits, or all of them
	for i, r := range ratio {
		if r >= 0 {
			v := math.Log(r) + math.Log(told[i])
			low, high = min(low, v), max(high, v)
		}
	}
	return high - low
}
