// Package portable has numbers that are the same on every machine: an exponential function with the
// same bits on every architecture, and integers read from bytes that may hold anything.
package portable

import "math"

// Exp returns e^x to about one unit in the last place, 0 for x ≤ -708 and +Inf for x ≥ 709. What
// is published or goes into a state is computed with it, so that it is the same everywhere: the
// standard library's has assembly on some architectures, whose last bit differs.
//
// x = k·ln2/32 + r with |r| ≤ ln2/64 < .0109, so e^x = 2^(k div 32) · 2^(k mod 32 / 32) · e^r.
// Of e^r the terms up to r⁶/720 are taken; the next is below .0109⁷/5040 < 2⁻⁵⁷.
func Exp(x float64) float64 {
	if !(x > least) {
		return 0
	}
	if x >= most {
		return math.Inf(1)
	}
	// Adding 1.5·2⁵² leaves the nearest whole number in the low bits, for any |x| in range.
	shifted := float64(x*perStep) + 0x1.8p52
	k := int64(math.Float64bits(shifted)) - int64(math.Float64bits(0x1.8p52))
	n := shifted - 0x1.8p52
	r := (x - float64(n*stepHigh)) - float64(n*stepLow)
	s := float64(r * r)
	p := (0.5 + float64(r*(1.0/6))) +
		float64(s*((1.0/24+float64(r*(1.0/120)))+float64(s*(1.0/720))))
	t := roots[k&31]
	y := t + float64(t*(r+float64(s*p)))
	return math.Float64frombits(math.Float64bits(y) + uint64(k>>5)<<52)
}

const (
	least   = -708                 // e^-708 is still a normal number
	most    = 709                  // e^709 is still finite
	perStep = 0x1.71547652b82fep+5 // 32/ln2
	// ln2/32 in two parts; the upper one has 29 significant bits, so that its product with k is
	// exact.
	stepHigh = 0x1.62e42fe000000p-6
	stepLow  = 0x1.f473de6af278fp-35
)

// roots are 2^(j/32).
var roots = [32]float64{
	0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
	0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
	0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
	0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
	0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
	0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
	0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
	0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
}
