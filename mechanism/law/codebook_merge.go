package law

import (
	"math"
	"slices"
)

// merger makes codebooks of every size by merging regions: it begins with one region for each patch
// and joins, again and again, the two whose union costs least. The best sizes are kept as drafts.
// Where many code points pay, from ε = 4 on, it finds better ones than splitting does.
type merger struct {
	rest   float64
	pieces []piece
	alive  []int32
	near   []int32   // of each region the other one that is cheapest to join; -1 if not known
	cost   []float64 // and what that costs, or less if it is not known
	loss   []float64 // of every pair, by region and region

	worth float64
	kept  [finalists]draft // best first
	gains [finalists]float64
	count int
}

// piece is a region with its worth.
type piece struct {
	moments
	worth float64
}

// finalists is how many sizes are polished. One alone is up to 3 % worse at ε = 2, and two are at
// times 1 %.
const finalists = 3

// merge fills m.kept with the best drafts, before polishing. O(n²) losses for n patches, and in
// practice as many comparisons.
func (m *merger) merge(a *patches, rest float64) {
	m.begin(a, rest)
	for {
		if len(m.alive) <= maxPoints {
			m.keep()
		}
		if len(m.alive) == 1 {
			return
		}
		m.join(m.cheapest())
	}
}

// begin makes every patch a region and computes the losses of all pairs.
func (m *merger) begin(a *patches, rest float64) {
	n := len(a.p)
	m.rest, m.worth, m.count = rest, 0, 0
	m.pieces, m.alive = m.pieces[:0], m.alive[:0]
	m.near = slices.Grow(m.near[:0], n)[:n]
	m.cost = slices.Grow(m.cost[:0], n)[:n]
	m.loss = slices.Grow(m.loss[:0], n*n)[:n*n]
	for i, p := range a.p {
		r := moments{p, float64(p * a.x[i]), float64(p * a.y[i])}
		worth := r.worth(rest)
		m.pieces = append(m.pieces, piece{r, worth})
		m.alive = append(m.alive, int32(i))
		m.worth += worth
		m.cost[i] = math.Inf(1)
	}
	for i := range n {
		for j := range i {
			l := m.pair(i, j)
			m.nearer(i, j, l)
			m.nearer(j, i, l)
		}
	}
}

// pair computes the loss of joining two regions.
func (m *merger) pair(i, j int) float64 {
	a, b := &m.pieces[i], &m.pieces[j]
	x, y := a.x+b.x, a.y+b.y
	l := a.worth + b.worth - (float64(x*x)+float64(y*y))/(m.rest+a.p+b.p)
	n := len(m.pieces)
	m.loss[i*n+j], m.loss[j*n+i] = l, l
	return l
}

func (m *merger) nearer(i, j int, loss float64) {
	if loss < m.cost[i] {
		m.cost[i], m.near[i] = loss, int32(j)
	}
}

// cheapest returns a region that is cheapest to join with another.
func (m *merger) cheapest() int {
	for {
		best := m.alive[0]
		for _, i := range m.alive {
			if m.cost[i] < m.cost[best] {
				best = i
			}
		}
		if m.near[best] >= 0 {
			return int(best)
		}
		m.search(int(best))
	}
}

// join merges into region i the one that is nearest to it.
func (m *merger) join(i int) {
	j := int(m.near[i])
	m.worth -= m.cost[i]
	sum := m.pieces[i].plus(m.pieces[j].moments)
	m.pieces[i] = piece{sum, sum.worth(m.rest)}
	gone := slices.Index(m.alive, int32(j))
	m.alive = slices.Delete(m.alive, gone, gone+1)
	m.cost[i] = math.Inf(1)
	for _, other := range m.alive {
		k := int(other)
		if k == i {
			continue
		}
		l := m.pair(i, k)
		m.nearer(i, k, l)
		at := int(m.near[k])
		switch {
		case l <= m.cost[k]:
			m.cost[k], m.near[k] = l, int32(i)
		case at == i || at == j: // the others cost no less than these did
			m.near[k] = -1
		}
	}
}

// search finds the cheapest partner of a region that has lost its own. It waits until the region
// may be the cheapest: most are joined, or find a new partner, before that.
func (m *merger) search(k int) {
	n := len(m.pieces)
	row := m.loss[k*n : k*n+n]
	m.cost[k] = math.Inf(1)
	for _, j := range m.alive {
		if int(j) != k && row[j] < m.cost[k] {
			m.cost[k], m.near[k] = row[j], j
		}
	}
}

// keep notes the present size if it is among the best.
func (m *merger) keep() {
	gain := m.worth / (1 + float64(float64(len(m.alive))*m.rest))
	at := m.count
	for at > 0 && gain > m.gains[at-1] {
		at--
	}
	if at == finalists {
		return
	}
	m.count = min(m.count+1, finalists)
	last := m.kept[m.count-1]
	copy(m.kept[at+1:m.count], m.kept[at:])
	copy(m.gains[at+1:m.count], m.gains[at:])
	last.regions, last.worth = last.regions[:0], m.worth
	for _, i := range m.alive {
		last.regions = append(last.regions, m.pieces[i].moments)
	}
	m.kept[at], m.gains[at] = last, gain
}

// best returns the draft of most gain after polishing.
func (m *merger) best(a *patches, rest float64) *draft {
	m.merge(a, rest)
	best := &m.kept[0]
	for i := range m.count {
		d := &m.kept[i]
		d.stale = true
		d.aim(rest)
		d.polish(a, rest, polishTurns)
		if d.gain(rest) > best.gain(rest) {
			best = d
		}
	}
	best.settle(a)
	return best
}
