package mechanism

import (
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

const (
	// SmoothAll is the lag of a Smoother that takes in everything that follows.
	SmoothAll = int64(-1)
	// MaxBlock is how many records of one user wait at most under SmoothAll, and MaxWait under any
	// other lag. A block of so many closes with what it has. MaxBlock is nine hours of a record
	// every two seconds, and one to ten megabytes. MaxWait is 68 minutes of that. It bounds the
	// memory for many users without releases, such as those whose budget is spent for the day.
	MaxBlock = 1 << 14
	MaxWait  = 1 << 11
	// SmoothMass is the smallest mass of a step that waits, as a share of all of it: smaller ones
	// are rounded to it or to 0 (mobility.ShortOf). What LeastMass drops from a state cannot come
	// back when later records point to it, so this is finer (DESIGN.md says why).
	SmoothMass = 0x1p-20
	// MaxBack is the longest gap, in predictions of the chain, over which a later record says
	// something of an earlier step. No law of gaps has so many.
	MaxBack = 1024
)

// Smoother computes where a user was in a step, given the records up to a later one: the
// forward-backward posterior
//
//	P(cell at t | records up to s) ∝ α_t(c)·b_t(c),   b_t = T·(L_(t+1)·b_(t+1)),   b_s = 1.
//
// α_t is the posterior of Observe before it is rounded for the state, T the prediction from step t
// to the next record's step, by the same matrices, calendar and law of gaps, and L the likelihood
// of that record's release (Emission). A record that repeats a release or predicts has L = 1.
//
// A step is smoothed by all records up to the user's first release at or after step + lag, or up to
// the last record that follows from it by the model. So what comes out depends on the user's
// records alone, and one pass back serves all steps that a release closes.
//
// Guarantee: the result is a function of public records, the public model and public options. It
// costs no ε and needs no key: what a Smoother learns from records, every reader of them can learn
// (post-processing). For the same reason it is what records show of the past. An attacker smooths
// too.
//
// A Smoother is scratch for one goroutine; users' blocks are separate, and Smoothers of the same
// options can take turns with one block. It does not allocate once it and the block have grown.
// Cost: for each step, a pass over the prior when it is noted, and lag/interval + 1 times the
// predictions from the step to the next record: transposed, and forward once more in a gap.
type Smoother struct {
	options   Options
	lag       int64
	most      int // records of a block
	models    map[*mobility.Model]*backward
	estimator Estimator

	likelihood []float64 // of the release at hand
	now        mobility.Distribution
	later      mobility.Distribution // L·b of the step after now
	told       []float64             // b of now
	posterior  mobility.Distribution
}

// backward is the predictions under one model.
type backward struct {
	*mobility.Backward
	byLaw bool // the model's law of gaps counts
}

// Block is what a Smoother keeps of one user: the steps that are not smoothed yet. A step takes
// about a byte for each cell of probability SmoothMass or more under Codebook, under another
// mechanism 12 to 20. The zero Block is a new user.
type Block struct {
	moments []moment // the first open ones of its memory
	first   int64    // number of the first one
	records int      // that the open moments have
}

// Open returns the number of the first moment that is not smoothed yet.
func (b *Block) Open() int64 { return b.first }

// Reset makes the block that of a new user, in the same memory.
func (b *Block) Reset() { *b = Block{moments: b.moments[:0]} }

// moment is one step of a user, as the first record of the step left it, or a release after it.
type moment struct {
	model   *mobility.Model
	step    int64
	records int
	short   []byte                // α in short masses; empty: plain has it
	plain   mobility.Distribution // α
	levels  [2]float64            // of the likelihood if it has two values
	high    []uint64              // a bit for each cell that has the second of them
	values  []float64             // of the likelihood if it has more
}

// Smoothed is what records say about one moment.
type Smoothed struct {
	// Number is the moment's number among the block's, from 0; see Smoother.Note.
	Number int64
	// Step is the moment's step, and Until that of the last record that is taken in.
	Step, Until int64
	// Grid is the map of the others.
	Grid *grid.Grid
	// Posterior is the smoother's own memory: read it before the call ends.
	Posterior *mobility.Distribution
	// Estimate and RadiusKM are as in Outcome, for the smoothed posterior. EllipseOf has its
	// ellipse.
	Estimate grid.Point
	RadiusKM float64
}

// NewSmoother returns a smoother under valid options of release. The lag is in steps, one at least,
// or SmoothAll. A lag of one release interval gives most of what smoothing can give.
func NewSmoother(o Options, lag int64) *Smoother {
	o = o.withDefaults()
	most := MaxBlock
	if lag != SmoothAll {
		lag, most = max(lag, 1), MaxWait
	}
	return &Smoother{
		options: o, lag: lag, most: most, models: map[*mobility.Model]*backward{},
		estimator: Estimator{Place: o.Estimate},
	}
}

// Observe is Sanitizer.Observe, bit for bit, followed by Note.
func (sm *Smoother) Observe(
	b *Block, s *Sanitizer, state *State, seen Seen, each func(Smoothed),
) (number int64, err error) {
	gap := uint64(seen.Step) - uint64(state.Step)
	linked := state.Started && (gap <= s.longest || seen.Carried && !s.byLaw)
	if err := s.Observe(state, seen); err != nil {
		return 0, err
	}
	return sm.Note(b, s, state, seen, linked, each), nil
}

// Note takes in a record that s has observed last, with the state after it. linked says whether the
// state came from that of the user's record before by a prediction of s: not by a start at the
// model's initial distribution. It returns the number of the record's moment. Records of one step
// share a moment, unless a release follows in it.
//
// each is called for every moment that the record closes: from the last of them back to the first.
// Moments close in the order of their numbers from one Note to the next.
func (sm *Smoother) Note(
	b *Block, s *Sanitizer, state *State, seen Seen, linked bool, each func(Smoothed),
) (number int64) {
	n := len(b.moments)
	if n > 0 && (!linked || !s.byLaw && seen.Step-b.moments[n-1].step > MaxBack) {
		sm.Finish(b, each)
		n = 0
	}
	if n == 0 || seen.Kind == Released || b.moments[n-1].step != seen.Step {
		n++
		b.moments = slices.Grow(b.moments, 1)[:n]
		sm.keep(&b.moments[n-1], s, state, seen.Kind == Released)
	}
	last := &b.moments[n-1]
	last.records++
	b.records++
	number = b.first + int64(n-1)
	switch {
	case b.records >= sm.most:
		sm.Finish(b, each)
	case seen.Kind == Released && sm.lag > 0:
		ready := 0
		for ready < n && b.moments[ready].step <= seen.Step-sm.lag {
			ready++
		}
		sm.close(b, ready, each)
	}
	return number
}

// Finish closes all moments of a block, with what is there. The block can go on with a record that
// is not linked.
func (sm *Smoother) Finish(b *Block, each func(Smoothed)) { sm.close(b, len(b.moments), each) }

// positive sets d to the weights over their total, without those that are 0.
func positive(d *mobility.Distribution, cells []grid.Cell, weights []float64, total float64) {
	d.Reset()
	for i, w := range weights {
		if p := w / total; p > 0 {
			d.Cells, d.P = append(d.Cells, cells[i]), append(d.P, p)
		}
	}
}

// keep makes m the moment of a state: α and the likelihood come from the prior and the release of
// s.
func (sm *Smoother) keep(m *moment, s *Sanitizer, state *State, released bool) {
	m.model, m.step, m.records = s.model, state.Step, 0
	m.short = m.short[:0]
	m.plain.Reset()
	var likelihood []float64
	sm.likelihood = sm.likelihood[:0]
	if released {
		likelihood = s.emission.Likelihoods(state.Release, s.prior.Cells)
		sm.likelihood = append(sm.likelihood, likelihood...)
	}
	prior := s.prior
	if !s.foreseen { // the state is of this step, and its block has closed
		prior = &state.Posterior
	}
	weights, total := weigh(prior.P, likelihood)
	told := released && &weights[0] == &likelihood[0] // else the release told nothing
	d, short := &sm.now, s.short()
	if short {
		mobility.ShortOf(d, prior.Cells, weights, 1/total, SmoothMass, state.Step)
	} else {
		positive(d, prior.Cells, weights, total)
	}
	if kept := 0; told {
		for i, c := range prior.Cells {
			if kept < d.Len() && d.Cells[kept] == c {
				sm.likelihood[kept] = sm.likelihood[i]
				kept++
			}
		}
	}
	m.learn(sm.likelihood, d.Len(), told)
	if short {
		m.short, short = d.AppendShort(m.short)
	}
	if !short {
		m.plain.CopyFrom(d)
	}
}

// learn keeps a likelihood of so many cells: by bits if it has two values, as under Codebook.
func (m *moment) learn(likelihood []float64, cells int, told bool) {
	m.high, m.values, m.levels = m.high[:0], m.values[:0], [2]float64{1, 1}
	if !told {
		return
	}
	likelihood = likelihood[:cells]
	m.levels = [2]float64{slices.Min(likelihood), slices.Max(likelihood)}
	m.high = append(m.high, make([]uint64, (cells+63)/64)...)
	for i, l := range likelihood {
		switch l {
		case m.levels[0]:
		case m.levels[1]:
			m.high[i>>6] |= 1 << (i & 63)
		default:
			m.high, m.values = m.high[:0], append(m.values, likelihood...)
			return
		}
	}
}

// load sets d to the moment's α.
func (m *moment) load(d *mobility.Distribution) {
	if len(m.short) == 0 {
		d.CopyFrom(&m.plain)
		return
	}
	if err := d.DecodeShort(m.short); err != nil {
		panic("mechanism: a moment of a block cannot be read: " + err.Error())
	}
}

// times multiplies b by the moment's likelihood, and divides it by its largest value: it is
// unlikely in absolute terms that things go on as they did.
func (m *moment) times(b []float64) {
	largest := 0.0
	for i, v := range b {
		switch {
		case len(m.values) > 0:
			v = float64(v * m.values[i])
		case len(m.high) > 0:
			v = float64(v * m.levels[m.high[i>>6]>>(i&63)&1])
		}
		b[i] = v
		largest = max(largest, v)
	}
	for i := range b {
		if largest > 0 {
			b[i] /= largest
		} else {
			b[i] = 1 // no way leads on that the pruned forward pass knows: nothing is told
		}
	}
}

// close goes back from the last moment to the first one, and calls each for the first ready ones.
func (sm *Smoother) close(b *Block, ready int, each func(Smoothed)) {
	if ready == 0 {
		return
	}
	last := len(b.moments) - 1
	for k := last; k >= 0; k-- {
		m := &b.moments[k]
		m.load(&sm.now)
		if k == last {
			sm.told = slices.Grow(sm.told[:0], sm.now.Len())[:sm.now.Len()]
			for i := range sm.told {
				sm.told[i] = 1
			}
		} else {
			sm.told = sm.back(m.step, &b.moments[k+1])
		}
		if k < ready {
			out := Smoothed{Number: b.first + int64(k), Step: m.step, Until: b.moments[last].step}
			each(sm.join(out, m))
		}
		m.times(sm.told)
		sm.later.Cells = append(sm.later.Cells[:0], sm.now.Cells...)
		sm.later.P = append(sm.later.P[:0], sm.told...)
	}
	b.drop(ready)
}

// back returns what is told of now, which is of a step, by what is told of the next moment, later.
func (sm *Smoother) back(step int64, next *moment) []float64 {
	v := sm.models[next.model]
	if v == nil {
		v = &backward{mobility.NewBackward(next.model), sm.options.LearnedGaps(next.model)}
		sm.models[next.model] = v
	}
	// The difference of two int64 fits uint64 where the first is not smaller.
	gap, prune := uint64(next.step)-uint64(step), max(sm.options.Prune, 0)
	if v.byLaw {
		if told, ok := v.BackGap(sm.told, &sm.now, step, gap, prune, &sm.later); ok {
			return told
		}
	}
	return v.Back(sm.told, &sm.now, step, int(gap), prune, &sm.later)
}

// join computes the posterior α·b of a moment, now, and what stands for it. If nothing is left of
// it, it is α.
func (sm *Smoother) join(out Smoothed, m *moment) Smoothed {
	if _, ok := mobility.Update(&sm.posterior, &sm.now, sm.told); !ok {
		sm.posterior.CopyFrom(&sm.now)
		sm.posterior.Normalize()
	}
	out.Grid, out.Posterior = m.model.Grid, &sm.posterior
	out.Estimate, out.RadiusKM = sm.estimator.Estimate(out.Grid, &sm.posterior)
	return out
}

// drop forgets the first moments, and keeps their memory behind the open ones.
func (b *Block) drop(n int) {
	for i := range b.moments[:n] {
		b.records -= b.moments[i].records
	}
	open := len(b.moments) - n
	for i := range open {
		b.moments[i], b.moments[n+i] = b.moments[n+i], b.moments[i]
	}
	b.first += int64(n)
	b.moments = b.moments[:open]
}
