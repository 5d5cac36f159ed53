package experiment

import (
	"cmp"
	"math"
	"slices"
)

// crossing is where a walk along one circle enters or leaves the disc of another.
type crossing struct {
	angle float64
	place int
	sign  float64 // 1: enters, -1: leaves
}

// circleWalk is scratch for the walk along one circle.
type circleWalk struct {
	start     []int // places whose disc holds the first point of the walk
	crossings []crossing
}

// sweep walks along every circle |a - x_i|² = |x_i|² - ρ_i and looks at the set S(a) on both sides
// of each arc. It returns the largest excess of all of them, 0 at least, and the worst set of each
// circle if its excess is positive. Without a positive excess the prices are a bound.
//
// Where rounding misses a face, the face is as thin as rounding: the largest Σ q_i·f_i(a) is
// continuous in a, so a face next to it has the same excess up to rounding.
//
// It takes O(n² log n).
func (p *normalPrior) sweep(price []float64) (sets [][]int, worst float64) {
	radius := make([]float64, len(p.at)) // squared
	for i, x := range p.at {
		radius[i] = normSquared(x) - price[i]
	}
	mean := p.mean(price)
	var w circleWalk
	for i := range p.at {
		if radius[i] <= 0 {
			continue
		}
		w.around(p, radius, i)
		if set, excess := w.worst(p, price, mean, i); excess > 0 {
			sets = append(sets, set)
			worst = max(worst, excess)
		}
	}
	slices.SortFunc(sets, slices.Compare)
	return slices.CompactFunc(sets, slices.Equal), worst
}

// simplePrices returns prices that leave no posterior an excess, and their mean: |x_i|², since
// |m(q)|² ≤ Σ q_i·|x_i|², or the largest |m(q)|² everywhere, which is less if ε is small.
// The latter is found up to that share.
func (p *normalPrior) simplePrices(share float64) (price []float64, mean float64) {
	price = make([]float64, len(p.at))
	_, largest := p.sweep(price)
	if largest = p.certify(price, largest, share*largest); largest < 1 {
		for i := range price {
			price[i] = largest
		}
		return price, largest
	}
	for i, x := range p.at {
		price[i] = normSquared(x)
	}
	return price, 1
}

// certify returns an excess that no posterior has beyond the prices, starting from one that some
// posterior has. Each step adds at least slack.
func (p *normalPrior) certify(price []float64, excess, slack float64) float64 {
	raised := make([]float64, len(price))
	for {
		excess = max(excess, 0) + slack
		for i, v := range price {
			raised[i] = v + excess
		}
		_, more := p.sweep(raised)
		if more <= 0 {
			return excess
		}
		excess += more
	}
}

// around fills w for circle i. The walk starts at angle -π. Its point at angle φ lies in disc j
// if
//
//	cos(φ - α) > (r_i² + d² - r_j²)/(2·r_i·d),
//
// where d and α are the distance and the direction from x_i to x_j.
func (w *circleWalk) around(p *normalPrior, radius []float64, i int) {
	w.start, w.crossings = w.start[:0], w.crossings[:0]
	r := math.Sqrt(radius[i])
	for j, r2 := range radius {
		if j == i || r2 <= 0 {
			continue
		}
		to := p.at[j].Sub(p.at[i])
		d2 := normSquared(to)
		cos := (radius[i] - r2 + d2) / (2 * r * math.Sqrt(d2))
		if cos >= 1 {
			continue
		}
		if cos <= -1 {
			w.start = append(w.start, j)
			continue
		}
		middle, half := math.Atan2(to.Y, to.X), math.Acos(cos)
		enter, leave := middle-half, middle+half
		if enter < -math.Pi {
			enter += 2 * math.Pi
		}
		if leave > math.Pi {
			leave -= 2 * math.Pi
		}
		if leave < enter {
			w.start = append(w.start, j)
		}
		w.crossings = append(w.crossings, crossing{enter, j, 1}, crossing{leave, j, -1})
	}
	slices.SortFunc(w.crossings, func(a, b crossing) int { return cmp.Compare(a.angle, b.angle) })
}

// worst returns the set with the largest excess along circle i, if one is positive.
func (w *circleWalk) worst(
	p *normalPrior, price []float64, mean float64, i int,
) (set []int, excess float64) {
	var outer tally // without i
	for _, j := range w.start {
		outer.add(p, price, j, 1)
	}
	var arc int
	var with bool
	for k := range len(w.crossings) + 1 {
		if k > 0 {
			c := w.crossings[k-1]
			outer.add(p, price, c.place, c.sign)
		}
		inner := outer
		inner.add(p, price, i, 1)
		if e := outer.excess(p, mean); e > excess {
			excess, arc, with = e, k, false
		}
		if e := inner.excess(p, mean); e > excess {
			excess, arc, with = e, k, true
		}
	}
	if excess == 0 {
		return nil, 0
	}
	in := make([]bool, len(p.at))
	in[i] = with
	for _, j := range w.start {
		in[j] = true
	}
	for _, c := range w.crossings[:arc] {
		in[c.place] = c.sign > 0
	}
	for j, v := range in {
		if v {
			set = append(set, j)
		}
	}
	return set, excess
}
