package noise

import "math"

// Uniform returns a uniform number of (0, 1): an odd multiple of 2⁻⁵³, never 0 or 1. It takes
// one word.
func Uniform(src Source) float64 { return open(src.Uint64()) }

// open maps the upper 52 bits of a word to the middle of one of 2⁵² equal parts of (0, 1).
func open(word uint64) float64 { return (float64(word>>12) + 0.5) * 0x1p-52 }

// Gamma returns a number of the Gamma law with whole shape and scale 1, the sum of as many
// exponential numbers: minus the logarithm of a product of uniforms. It takes shape words and one
// logarithm for every 16 of them. It panics on a shape below 1.
func Gamma(src Source, shape int) float64 {
	if shape < 1 {
		panic("noise: the shape of Gamma must be a positive whole number")
	}
	sum := 0.0
	for shape > 0 {
		product := 1.0
		for range min(shape, 16) { // 16 factors of at least 2⁻⁵³ stay far above the smallest double
			product *= Uniform(src)
		}
		sum -= log(product)
		shape -= 16
	}
	return sum
}

// Laplace returns a number of the density e^{-|x|}/2. It takes one word: the sign is a bit that
// Uniform does not use.
func Laplace(src Source) float64 {
	word := src.Uint64()
	x := -log(open(word))
	if word&1 == 1 {
		return -x
	}
	return x
}

// log returns the natural logarithm of a positive normal number, to about one unit in the last
// place. The
// standard library's has assembly on some architectures whose last bit differs, but releases must
// have the same bytes everywhere.
//
// x = 2^k·(1+f) with √½ < 1+f < √2; s = f/(2+f), so that log(1+f) = 2·atanh(s) = 2s +
// s³(2/3 + 2/5 s² + …), |s| < .1716. The odd powers up to s²¹ leave a relative remainder
// below 2·s²²/23 < 2⁻⁵⁶.
func log(x float64) float64 {
	f, exponent := frexp(x)
	if f < math.Sqrt2/2 {
		f *= 2
		exponent--
	}
	f--
	s := f / (2 + f)
	t := float64(s * s)
	p := 2.0 / 21
	for _, c := range [...]float64{
		2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3,
	} {
		p = float64(p*t) + c
	}
	// log(1+f) = f - s·(f - t·p): the subtraction keeps the leading term f exact.
	k := float64(exponent)
	low := float64(s * (f - float64(t*p)))
	return float64(k*ln2High) - ((low - float64(k*ln2Low)) - f)
}

// ln 2 in two parts; the upper one has 32 significant bits, so that its product with an exponent is
// exact.
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// frexp returns x = f·2^e with ½ ≤ f < 1 of a positive normal number.
func frexp(x float64) (f float64, e int) {
	bits := math.Float64bits(x)
	return math.Float64frombits(bits&(1<<52-1) | 1022<<52), int(bits>>52) - 1022
}
