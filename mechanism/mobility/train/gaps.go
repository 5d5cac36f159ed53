package train

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// How the law of gaps is learned.
const (
	// gapReachMS is the time that a law covers at least. People come back to where they slept. What
	// is beyond starts over, so that an observer who missed a user's records can follow them again.
	gapReachMS = 24 * 3_600_000
	// gapPseudo is the weight, in gaps, of what a filter without a law does: of the chain or, where
	// a gap is too long for it, of the initial distribution. Without the chain it is that of the
	// most moves. Where the weights of the gaps of a set sum to less than gapEnough, the set is
	// what a filter without a law does: few gaps tell about the people who made them.
	gapPseudo = 10
	gapEnough = 100
	// gapWork bounds the multiplications that learning takes, some seconds of a core. It is enough
	// for the gaps from several hundred cells of a city, taken at random.
	gapWork = 1 << 33
	// gapRounds bounds the rounds of expectation-maximization, and gapSettled is the change in
	// every weight of a round below which there is no further one.
	gapRounds  = 500
	gapSettled = 1e-5
	// gapLeast is the weight below which a component is left out, and gapWorth how much likelier,
	// in nats a gap, components of more moves must make a set's gaps: else they are not worth their
	// predictions. On Geolife's held-out users gaps are as likely as under all components, and
	// predictions over them take 62 % of the time. At .05 they take 40 %, and the median error at
	// ε = 10 every ten minutes grows by 4 %.
	gapLeast = 1e-3
	gapWorth = .01
	// gapImpossible is the logarithm that counts for a gap that is impossible under a set.
	gapImpossible = -20
	// gapPrune is the threshold of the predictions.
	gapPrune = 1e-5
)

// gap is one time without a fix in a user's trace.
type gap struct {
	from, to grid.Cell
	step     int64 // of the last fix before it
	steps    int64 // from that to the next one
	class    int   // of the calendar in that step
	index    int   // of its set of weights
	weight   float64
	// likelihoods are the probabilities of to under each component.
	likelihoods [mobility.GapParts]float64
}

// learnGaps returns the law of gaps under which the users' gaps are most likely, given the rest of
// the model; nil if there is no gap. Each user counts for at most UserCap gaps of each set of
// weights. The law is a function of the fixes and the options: of too many gaps those out of cells
// that a hash of the cell chooses are used.
//
// A set has the components that weigh leaves it. Their weights maximize
//
//	Σ weight·ln Σ_k w_k·likelihood_k + gapPseudo·ln w_default
//
// by expectation-maximization (Dempster, Laird and Rubin 1977).
func learnGaps(
	m *mobility.Model, tracks iter.Seq[mobility.Track], o Options, work *parallel.Progress,
) (mobility.GapLaw, error) {
	if o.NoGapLaw || o.EveryFix { // check-ins have no steps of their own
		return nil, nil
	}
	most := mobility.GapMoves[len(mobility.GapMoves)-1]
	steps := max(gapReachMS/m.Step.Milliseconds(), int64(most))
	sets := min(mobility.GapIndex(uint64(steps))+1, mobility.MaxGapWeights)
	gaps, err := likely(m, gapsOf(m, tracks, sets, o.UserCap), work)
	if err != nil || len(gaps) == 0 {
		return nil, err
	}
	law := make(mobility.GapLaw, sets)
	for i := range law {
		law[i] = weigh(i, gaps)
	}
	return trimmed(law), nil
}

// trimmed returns a law without what it says in vain: of long gaps that all start over, as beyond
// the law, and nil where short gaps are the chain's.
func trimmed(law mobility.GapLaw) mobility.GapLaw {
	for len(law) > 0 && law[len(law)-1].Anew == 1 {
		law = law[:len(law)-1]
	}
	for i := range law {
		if law[i].Chain < 1 {
			return law
		}
	}
	return nil
}

// gapsOf returns all users' gaps that a law of so many sets of weights covers. Those of a user in a
// set weigh at most limit.
func gapsOf(
	m *mobility.Model, tracks iter.Seq[mobility.Track], sets, limit int,
) (all []gap) {
	user, start := "", 0
	var last struct {
		cell grid.Cell
		step int64
	}
	capUser := func() {
		var n [mobility.MaxGapWeights]float64
		for _, g := range all[start:] {
			n[g.index]++
		}
		for i := range all[start:] {
			g := &all[start+i]
			g.weight = min(1, float64(limit)/n[g.index])
		}
		start = len(all)
	}
	for track := range tracks {
		if track.User != user {
			capUser()
			user = track.User
		} else if steps := track.Steps[0] - last.step; steps > 1 {
			if i := mobility.GapIndex(uint64(steps)); i < sets {
				all = append(all, gap{
					from: last.cell, to: track.Cells[0], step: last.step, steps: steps, index: i,
					class: m.Calendar.ClassAt(last.step * m.Step.Milliseconds()),
				})
			}
		}
		n := len(track.Steps) - 1
		last.cell, last.step = track.Cells[n], track.Steps[n]
	}
	capUser()
	return all
}

var errEnough = errors.New("train: enough gaps")

// likely fills in the likelihoods of gaps. It returns those whose likelihoods are known when the
// bound of the work is reached.
func likely(m *mobility.Model, gaps []gap, work *parallel.Progress) ([]gap, error) {
	slices.SortStableFunc(gaps, func(a, b gap) int {
		return cmp.Or(cmp.Compare(scrambled(a.from), scrambled(b.from)),
			cmp.Compare(a.class, b.class))
	})
	together := func(a, b gap) bool { return a.from == b.from && a.class == b.class }
	predictors := sync.Pool{New: func() any { return mobility.NewPredictor(m) }}
	type part struct{ gaps, cost int }
	tasks := func(yield func(func() (part, error), error) bool) {
		for rest := gaps; len(rest) > 0; {
			n := 1
			for n < len(rest) && together(rest[0], rest[n]) {
				n++
			}
			same := rest[:n]
			rest = rest[n:]
			if !yield(func() (part, error) {
				predictor := predictors.Get().(*mobility.Predictor)
				defer predictors.Put(predictor)
				return part{len(same), likelihoods(m, predictor, same)}, nil
			}, nil) {
				return
			}
		}
	}
	known, cost := 0, 0
	err := parallel.Ordered(tasks, func(p part) error {
		known += p.gaps
		if cost += p.cost; cost > gapWork {
			return errEnough
		}
		return work.Add(0)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return gaps[:known], err
}

// scrambled is a number without a pattern for each cell: the finalizer of SplitMix64 (Steele, Lea
// and Flood 2014).
func scrambled(c grid.Cell) uint64 {
	z := uint64(c) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// likelihoods fills in the likelihoods of gaps out of one cell in one class of the calendar. It
// returns the number of multiplications, more or less.
func likelihoods(m *mobility.Model, p *mobility.Predictor, gaps []gap) (cost int) {
	at := mobility.Distribution{Cells: []grid.Cell{gaps[0].from}, P: []float64{1}}
	last := int64(0)
	for i := range gaps {
		gaps[i].likelihoods[mobility.GapAnew] = m.Initial.At(gaps[i].to)
		last = max(last, gaps[i].steps)
	}
	last = min(last, int64(mobility.GapMoves[len(mobility.GapMoves)-1]))
	for done := int64(0); done <= last; done++ {
		if done > 0 {
			step := gaps[0].step + done - 1
			matrix := m.Matrices[m.ClassAt(step)]
			for _, c := range at.Cells {
				cost += int(matrix.RowStart[c+1]-matrix.RowStart[c]) + 2*(m.Kernel.Radius()+1)
			}
			p.PredictPruned(&at, &at, step, 1, gapPrune)
		}
		part := slices.Index(mobility.GapMoves[:], int(done))
		for i := range gaps {
			if part >= 0 {
				gaps[i].likelihoods[part] = at.At(gaps[i].to)
			}
			if gaps[i].steps == done {
				gaps[i].likelihoods[mobility.GapChain] = at.At(gaps[i].to)
			}
		}
	}
	return cost
}

// weigh returns the weights of one set of a law: those with the fewest moves under which its gaps
// are within gapWorth nats a gap of the likeliest.
func weigh(index int, gaps []gap) mobility.GapWeights {
	known := 0.0
	for i := range gaps {
		if gaps[i].index == index {
			known += gaps[i].weight
		}
	}
	last := len(mobility.GapMoves) - 1
	most := mobility.GapMoves[last]
	if known < gapEnough {
		_, pseudo := components(index, most)
		normalize(&pseudo)
		return mobility.GapWeightsOf(pseudo)
	}
	best, likelihood := fitted(index, most, gaps)
	for _, moves := range mobility.GapMoves[:last] {
		if fewer, l := fitted(index, moves, gaps); l >= likelihood-float64(gapWorth*known) {
			best = fewer
			break
		}
	}
	for i := range best {
		if best[i] < gapLeast {
			best[i] = 0
		}
	}
	normalize(&best)
	return mobility.GapWeightsOf(best)
}

// components returns the components of a set that take at most so many predictions, with equal
// weights, and the one that a filter without a law has, as pseudo-counts.
func components(index, moves int) (w, pseudo [mobility.GapParts]float64) {
	usual, chain := mobility.GapAnew, mobility.GapPart(index, mobility.GapChain)
	for part := range w {
		needs := 0
		switch {
		case part < len(mobility.GapMoves):
			needs = mobility.GapMoves[part]
		case part == mobility.GapChain:
			needs = 2 << index
		}
		if !mobility.GapPart(index, part) || needs > moves {
			continue
		}
		w[part] = 1
		if chain && part != mobility.GapAnew { // the last one is the chain, or has the most moves
			usual = part
		}
	}
	normalize(&w)
	pseudo[usual] = gapPseudo
	return w, pseudo
}

// fitted returns the likeliest weights of a set with components of so many predictions at most, and
// the logarithm of how likely they make its gaps.
func fitted(index, moves int, gaps []gap) (w [mobility.GapParts]float64, likelihood float64) {
	w, pseudo := components(index, moves)
	maximize(&w, &pseudo, index, gaps)
	for i := range gaps {
		g := &gaps[i]
		if g.index != index {
			continue
		}
		total := 0.0
		for part := range w {
			total += float64(w[part] * g.likelihoods[part])
		}
		if total > 0 {
			likelihood += float64(g.weight * math.Log(total))
		} else {
			likelihood += float64(g.weight * gapImpossible)
		}
	}
	return w, likelihood
}

// maximize makes the weights of a set likelier round by round (EM), until they settle.
func maximize(w, pseudo *[mobility.GapParts]float64, index int, gaps []gap) {
	for range gapRounds {
		sums := *pseudo
		for i := range gaps {
			if g := &gaps[i]; g.index == index {
				share(&sums, w, g)
			}
		}
		normalize(&sums)
		change := 0.0
		for i := range w {
			change = max(change, sums[i]-w[i], w[i]-sums[i])
		}
		if *w = sums; change < gapSettled {
			return
		}
	}
}

// share adds a gap's weight to the components, in proportion to how likely each of them is to have
// been the gap's. A gap that is impossible under all of them says nothing.
func share(sums, w *[mobility.GapParts]float64, g *gap) {
	var each [mobility.GapParts]float64
	total := 0.0
	for i := range w {
		each[i] = float64(w[i] * g.likelihoods[i])
		total += each[i]
	}
	if !(total > 0) {
		return
	}
	for i := range sums {
		sums[i] += float64(g.weight * each[i] / total)
	}
}

func normalize(w *[mobility.GapParts]float64) {
	total := 0.0
	for _, v := range w {
		total += v
	}
	for i := range w {
		w[i] /= total
	}
}
