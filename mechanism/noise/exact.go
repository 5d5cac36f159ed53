package noise

import (
	"math/big"
	"math/bits"
)

// The draws of this file are exact: given independent uniform words, every outcome has exactly the
// probability of its law, even where no float64 could hold it. They are those of Canonne, Kamath
// and Steinke, "The Discrete Gaussian for Differential Privacy", 2020 (doi
// 10.48550/arXiv.2004.00010), algorithms 1 and 2, on whole numbers, without a float, a remainder's
// bias or a bound on the result.
//
// Nothing overflows: a denominator is never multiplied by the count k of a loop, since
// Bernoulli(γ/k) is drawn as Bernoulli(1/k) and Bernoulli(γ) together; the only products are
// those of two words, into two words. A loop's count is a word too; it would need 2⁶⁴ turns to
// wrap. Each draw takes a random number of words. The law of this number depends on the parameters
// alone, but the number itself depends on the result: nobody who must not learn the result may
// learn the number (Meter).

// Below returns a uniform whole number of [0, n): the upper word of the product of a random word
// and n, drawn again where it would favour some results (Lemire 2019, doi 10.1145/3230636). It
// panics on n = 0. One word, rarely more.
func Below(src Source, n uint64) uint64 {
	if n == 0 {
		panic("noise: there is no number below 0")
	}
	hi, lo := bits.Mul64(src.Uint64(), n)
	if lo < n {
		// 2⁶⁴ mod n words are too many for every result to have as many.
		for excess := -n % n; lo < excess; {
			hi, lo = bits.Mul64(src.Uint64(), n)
		}
	}
	return hi
}

// BelowWide is Below for two words: the lower bits of two words, drawn again until they are below
// n. Less than two attempts on average.
func BelowWide(src Source, n Wide) Wide {
	if n.Hi == 0 {
		return Wide{0, Below(src, n.Lo)}
	}
	mask := uint64(1)<<bits.Len64(n.Hi) - 1 // a shift by 64 gives 0, and 0 - 1 all ones
	for {
		lo := src.Uint64()
		w := Wide{src.Uint64() & mask, lo}
		if w.Less(n) {
			return w
		}
	}
}

// BernoulliExp returns true with probability exp(-num/den), den > 0. About two words.
//
// Guarantee: algorithm 1. For γ = num/den ≤ 1 let K be the first k at which Bernoulli(γ/k)
// fails; P(K > k) = γᵏ/k!, so K is odd with probability Σ (-γ)ᵏ/k! = e^-γ. For a larger γ,
// exp(-γ) = exp(-1)^⌊γ⌋ · exp(-(γ-⌊γ⌋)).
func BernoulliExp(src Source, num, den uint64) bool {
	if den == 0 {
		panic("noise: a rate over 0")
	}
	for ; num >= den; num -= den {
		if !bernoulliOverE(src) {
			return false
		}
	}
	if num == 0 {
		return true
	}
	odd := true
	for k := uint64(1); (k == 1 || Below(src, k) == 0) && Below(src, den) < num; k++ {
		odd = !odd
	}
	return odd
}

// BernoulliExpWide is BernoulliExp for two words.
func BernoulliExpWide(src Source, num, den Wide) bool {
	if num.Hi|den.Hi == 0 {
		return BernoulliExp(src, num.Lo, den.Lo)
	}
	if den.IsZero() {
		panic("noise: a rate over 0")
	}
	for ; !num.Less(den); num = num.Minus(den) {
		if !bernoulliOverE(src) {
			return false
		}
	}
	if num.IsZero() {
		return true
	}
	odd := true
	for k := uint64(1); (k == 1 || Below(src, k) == 0) && BelowWide(src, den).Less(num); k++ {
		odd = !odd
	}
	return odd
}

// bernoulliOverE returns true with probability 1/e: BernoulliExp of 1, where Bernoulli(1/1) needs
// no draw.
func bernoulliOverE(src Source) bool {
	odd := false
	for k := uint64(2); Below(src, k) == 0; k++ {
		odd = !odd
	}
	return odd
}

// DiscreteLaplace returns the size and the sign of a whole number y with probability proportional
// to exp(-|y|·den/num): the discrete Laplace law of the rational scale num/den. Both must be
// positive. About ten words, whatever the scale.
//
// Guarantee: algorithm 2. u is uniform below num and stays with probability exp(-u/num), v is
// geometric with ratio 1/e, so that x = u + num·v has a probability proportional to e^{-x/num};
// y = ⌊x/den⌋ then one proportional to e^{-y·den/num}; and the sign is fair, except that zero
// is taken with one sign only. The result is below num·(v+1) and v is a word, so two words hold it
// always.
func DiscreteLaplace(src Source, num, den uint64) (y Wide, negative bool) {
	if num == 0 || den == 0 {
		panic("noise: the scale of a discrete Laplace law must be positive")
	}
	for {
		u := Below(src, num)
		if !BernoulliExp(src, u, num) {
			continue
		}
		v := uint64(0)
		for bernoulliOverE(src) {
			v++
		}
		y = Product(num, v).over(u, den)
		negative = src.Uint64()>>63 == 1
		if !negative || !y.IsZero() {
			return y, negative
		}
	}
}

// Wide is the whole number Hi·2⁶⁴ + Lo, for products of two words.
type Wide struct{ Hi, Lo uint64 }

// Product returns a·b. It cannot overflow.
func Product(a, b uint64) Wide {
	hi, lo := bits.Mul64(a, b)
	return Wide{hi, lo}
}

// Times returns w·b, which must be below 2¹²⁸: the caller's bounds say why it is.
func (w Wide) Times(b uint64) Wide {
	hi, lo := bits.Mul64(w.Lo, b)
	return Wide{w.Hi*b + hi, lo}
}

// Minus returns w - v, which must not be negative.
func (w Wide) Minus(v Wide) Wide {
	lo, borrow := bits.Sub64(w.Lo, v.Lo, 0)
	hi, _ := bits.Sub64(w.Hi, v.Hi, borrow)
	return Wide{hi, lo}
}

// Less reports whether w < v.
func (w Wide) Less(v Wide) bool { return w.Hi < v.Hi || (w.Hi == v.Hi && w.Lo < v.Lo) }

// IsZero reports whether w is 0.
func (w Wide) IsZero() bool { return w.Hi|w.Lo == 0 }

// over returns the whole part of (w + add) / by. w + add must be below 2¹²⁸, by positive.
func (w Wide) over(add, by uint64) Wide {
	lo, carry := bits.Add64(w.Lo, add, 0)
	hi := w.Hi + carry
	if hi == 0 {
		return Wide{0, lo / by}
	}
	top := hi / by
	q, _ := bits.Div64(hi%by, lo, by)
	return Wide{top, q}
}

// BernoulliExpBig is BernoulliExp for whole numbers of any size, num ≥ 0 and den > 0, for
// the rare draw that needs more than two words. From the same words it returns the same result. It
// allocates.
func BernoulliExpBig(src Source, num, den *big.Int) bool {
	if num.Sign() < 0 || den.Sign() <= 0 {
		panic("noise: a rate below 0, or over 0")
	}
	rest := new(big.Int).Set(num)
	for ; rest.Cmp(den) >= 0; rest.Sub(rest, den) {
		if !bernoulliOverE(src) {
			return false
		}
	}
	if rest.Sign() == 0 {
		return true
	}
	odd := true
	for k := uint64(1); (k == 1 || Below(src, k) == 0) && belowBig(src, den).Cmp(rest) < 0; k++ {
		odd = !odd
	}
	return odd
}

// belowBig returns a uniform whole number of [0, n), from the same words as Below and BelowWide.
func belowBig(src Source, n *big.Int) *big.Int {
	if n.IsUint64() {
		return new(big.Int).SetUint64(Below(src, n.Uint64()))
	}
	length := n.BitLen()
	for {
		w, word := new(big.Int), new(big.Int)
		for shift := 0; shift < length; shift += 64 {
			bits := src.Uint64()
			if rest := length - shift; rest < 64 {
				bits &= 1<<rest - 1
			}
			w.Or(w, word.Lsh(word.SetUint64(bits), uint(shift)))
		}
		if w.Cmp(n) < 0 {
			return w
		}
	}
}

// Big returns w as a number of unlimited size.
func (w Wide) Big() *big.Int {
	b := new(big.Int).SetUint64(w.Hi)
	return b.Or(b.Lsh(b, 64), new(big.Int).SetUint64(w.Lo))
}
