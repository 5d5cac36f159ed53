package experiment

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

// normalPrior is a prior in normal form: distinct places of positive mass, mean 0, variance 1,
// masses that sum to 1.
type normalPrior struct {
	at       []convex.Vec
	mass     []float64
	outside  float64 // t = e^-ε, the likelihood of a place outside of S over one inside
	inside   float64 // 1 - t, what a place inside has more
	variance float64 // before it was scaled to 1
}

// newNormalPrior returns the normal form of a prior over distinct places, each of a positive mass.
func newNormalPrior(places []grid.Point, mass []float64, epsilon float64) *normalPrior {
	p := &normalPrior{
		mass: slices.Clone(mass), outside: math.Exp(-epsilon), inside: -math.Expm1(-epsilon),
	}
	total := 0.
	for _, v := range mass {
		total += v
	}
	var mean convex.Vec
	for i, x := range places {
		p.mass[i] /= total
		mean.X += p.mass[i] * x.X
		mean.Y += p.mass[i] * x.Y
	}
	for i, x := range places {
		p.at = append(p.at, convex.Vec(x).Sub(mean))
		p.variance += p.mass[i] * normSquared(p.at[i])
	}
	if len(p.at) == 1 {
		p.variance = 0 // whatever rounding left
		return p
	}
	scale := 1 / math.Sqrt(p.variance)
	for i, x := range p.at {
		p.at[i] = convex.Vec{X: x.X * scale, Y: x.Y * scale}
	}
	return p
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
