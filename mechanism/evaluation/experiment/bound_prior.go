package experiment

import (
	"errors"
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

const (
	// leastBoundEpsilon and mostBoundEpsilon bound ε. Below, the gain is lost in rounding; above,
	// the error is.
	leastBoundEpsilon = 1e-3
	mostBoundEpsilon  = 20
	// mostPlaces bounds the work, which grows with about the fourth power of the number of places.
	mostPlaces = 256
)

// normalPrior is a prior in normal form: distinct places of positive mass, mean 0, variance 1,
// masses that sum to 1.
type normalPrior struct {
	at       []convex.Vec
	mass     []float64
	outside  float64 // t = e^-ε, the likelihood of a place outside of S over one inside
	inside   float64 // 1 - t, what a place inside has more
	variance float64 // before it was scaled to 1
	index    []int   // of each place that was given, in at; 0 for one without mass
}

func newNormalPrior(places []grid.Point, mass []float64, epsilon float64) (*normalPrior, error) {
	switch n := len(places); {
	case n != len(mass):
		return nil, fmt.Errorf("experiment: %d places, but %d masses", n, len(mass))
	case n == 0 || n > mostPlaces:
		return nil, fmt.Errorf("experiment: %d places, want 1 to %d", n, mostPlaces)
	case !(epsilon >= leastBoundEpsilon && epsilon <= mostBoundEpsilon):
		return nil, fmt.Errorf("experiment: ε is %v, want %v to %v", epsilon,
			leastBoundEpsilon, mostBoundEpsilon)
	}
	p := &normalPrior{
		outside: math.Exp(-epsilon), inside: -math.Expm1(-epsilon), index: make([]int, len(places)),
	}
	var total float64
	first := map[grid.Point]int{}
	for i, x := range places {
		if v := mass[i]; !(v >= 0) || math.IsInf(v, 1) {
			return nil, fmt.Errorf("experiment: mass %d is %v", i, v)
		}
		if s := x.X + x.Y; math.IsNaN(s) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("experiment: place %d is %v", i, x)
		}
		if mass[i] == 0 {
			continue
		}
		total += mass[i]
		k, known := first[x]
		if !known {
			k = len(p.at)
			first[x] = k
			p.at = append(p.at, convex.Vec(x))
			p.mass = append(p.mass, 0)
		}
		p.mass[k] += mass[i]
		p.index[i] = k
	}
	if !(total > 0) || math.IsInf(total, 1) {
		return nil, fmt.Errorf("experiment: masses sum to %v", total)
	}
	p.normalize(total)
	if math.IsNaN(p.variance) || math.IsInf(p.variance, 1) {
		return nil, errors.New("experiment: the variance overflows")
	}
	return p, nil
}

func (p *normalPrior) normalize(total float64) {
	var mean convex.Vec
	for i, x := range p.at {
		p.mass[i] /= total
		mean.X += p.mass[i] * x.X
		mean.Y += p.mass[i] * x.Y
	}
	for i, x := range p.at {
		p.at[i] = x.Sub(mean)
		p.variance += p.mass[i] * normSquared(p.at[i])
	}
	if len(p.at) == 1 {
		p.variance = 0 // whatever rounding left
		return
	}
	scale := 1 / math.Sqrt(p.variance)
	for i, x := range p.at {
		p.at[i] = convex.Vec{X: x.X * scale, Y: x.Y * scale}
	}
}

// mean returns Σ p_i·v_i.
func (p *normalPrior) mean(v []float64) float64 {
	sum := 0.
	for i, m := range p.mass {
		sum += m * v[i]
	}
	return sum
}

func normSquared(x convex.Vec) float64 { return convex.Dot(x, x) }

// tally sums over the places of a set S.
type tally struct {
	mass   float64    // Σ p_i
	moment convex.Vec // Σ p_i·x_i
	price  float64    // Σ p_i·ρ_i
}

// add adds place i (sign 1) or takes it away (sign -1).
func (t *tally) add(p *normalPrior, price []float64, i int, sign float64) {
	m := sign * p.mass[i]
	t.mass += m
	t.moment.X += m * p.at[i].X
	t.moment.Y += m * p.at[i].Y
	t.price += m * price[i]
}

// excess returns |m(q)|² - Σ ρ_i·q_i of the corner q of S, where mean is Σ p_i·ρ_i.
func (t *tally) excess(p *normalPrior, mean float64) float64 {
	d := p.outside + p.inside*t.mass
	s := p.inside / d
	return s*s*normSquared(t.moment) - (p.outside*mean+p.inside*t.price)/d
}
