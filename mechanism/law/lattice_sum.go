package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/convex"
)

// sum computes Z = Σ e^{-ε‖λ‖_K/n} over the lattice and E|λ|², in closed form up to
// rounding. Between two neighbouring vertices of K the gauge is linear. So the sum over the cone
// between them is a sum over the cone's fundamental cell, times two geometric series (as Brion and
// Barvinok count lattice points). The fundamental cell has D = p×q points for the least steps p
// and q of the lattice along the cone's sides. All cones of K together have at most as many such
// points as K has area in cells. sum is for reports: no release depends on it.
func (m *lattice) sum() {
	if m.summed {
		return
	}
	if m.hull.grid == nil {
		panic("law: the lattice mechanism needs a hull of cells")
	}
	m.summed, m.mass, m.square = true, 1, 0
	v := m.hull.exact
	rate := m.epsilon / float64(m.parts)
	switch m.hull.body.Dim() {
	case 0:
		return
	case 1:
		r := newRay(v[1], rate)
		m.mass += 2 * r.mean
		m.square = 2 * r.total * r.second * squareOf(r.step)
	default:
		for i, corner := range v[:len(v)/2] {
			mass, square := cone(newRay(corner, rate), newRay(v[i+1], rate))
			m.mass += 2 * mass
			m.square += 2 * square
		}
	}
	m.square /= m.mass
}

// ray is the lattice along one direction: the series of its exponentials.
type ray struct {
	step         convex.Lattice
	rate         float64 // the exponent of one step
	total        float64 // Σ e^{-rate·k} over k ≥ 0
	mean, second float64 // of k and k² with these weights
}

// newRay returns the ray through a vertex of K, which has the gauge 1.
func newRay(corner convex.Lattice, rate float64) ray {
	g := gcd(absolute(corner.X), absolute(corner.Y))
	r := ray{
		step: convex.Lattice{X: corner.X / int64(g), Y: corner.Y / int64(g)},
		rate: rate / float64(g),
	}
	rest := -math.Expm1(-r.rate)
	r.total = 1 / rest
	r.mean = (1 - rest) / rest
	r.second = r.mean * (2 - rest) / rest
	return r
}

// cone returns Σ e^{-ε‖λ‖/n} and Σ |λ|² e^{-ε‖λ‖/n} over the lattice from the ray
// p, included, to the ray q, excluded, without 0. Its points are μ + a·p + b·q with whole a, b
// ≥ 0 and
//
//	μ = (i·p + j·q)/D,  0 < i ≤ D, 0 ≤ j < D.
//
// To each j belongs one i.
func cone(p, q ray) (mass, square float64) {
	d := convex.Cross(p.step, q.step)
	// With p×r = 1, the points at p×μ = j are j·r + k·p, and μ×q = i is j·(r×q) modulo D.
	turn := convex.Cross(complement(p.step), q.step) % d
	pp, qq, pq := squareOf(p.step), squareOf(q.step), dot(p.step, q.step)
	i := d
	for j := range d {
		s, t := float64(i)/float64(d), float64(j)/float64(d)
		weight := math.Exp(-(float64(s*p.rate) + float64(t*q.rate)))
		// |(s+a)·p + (t+b)·q|² with a and b independent.
		aa := float64(s*s) + float64(2*s*p.mean) + p.second
		bb := float64(t*t) + float64(2*t*q.mean) + q.second
		ab := float64((s + p.mean) * (t + q.mean))
		mass += weight
		square += float64(weight * (float64(aa*pp) + float64(bb*qq) + float64(2*ab*pq)))
		if i = (i + turn) % d; i <= 0 {
			i += d
		}
	}
	return mass * p.total * q.total, square * p.total * q.total
}

// complement returns a whole r with p×r = 1, for p without a common factor: Euclid's algorithm.
func complement(p convex.Lattice) convex.Lattice {
	a, b := p.X, p.Y
	x0, y0, x1, y1 := int64(1), int64(0), int64(0), int64(1)
	for b != 0 {
		k := a / b
		a, b = b, a-k*b
		x0, x1 = x1, x0-k*x1
		y0, y1 = y1, y0-k*y1
	}
	// x0·p.X + y0·p.Y = a = ±1
	return convex.Lattice{X: -a * y0, Y: a * x0}
}

func dot(p, q convex.Lattice) float64 {
	return float64(float64(p.X)*float64(q.X)) + float64(float64(p.Y)*float64(q.Y))
}

func squareOf(p convex.Lattice) float64 { return dot(p, p) }
