package noise

import "math"

// log returns the natural logarithm of a positive normal number, to about one unit in the last place. The standard library's has
// assembly on some architectures whose last bit differs; releases must be the same bytes everywhere.
//
// x = 2^k·(1+f) with √½ < 1+f < √2; s = f/(2+f), so that log(1+f) = 2·atanh(s) = 2s + s³(2/3 + 2/5 s² + …), |s| < .1716. The odd
// powers up to s²¹ leave a relative remainder below 2·s²²/23 < 2⁻⁵⁶.
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
	for _, c := range [...]float64{2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3} {
		p = float64(p*t) + c
	}
	// log(1+f) = f - s·(f - t·p): the subtraction keeps the leading term f exact.
	k := float64(exponent)
	low := float64(s * (f - float64(t*p)))
	return float64(k*ln2High) - ((low - float64(k*ln2Low)) - f)
}

// ln 2 in two parts; the upper one has 32 significant bits, so that its product with an exponent is exact.
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// frexp returns x = f·2^e with ½ ≤ f < 1 of a positive normal number.
func frexp(x float64) (f float64, e int) {
	bits := math.Float64bits(x)
	return math.Float64frombits(bits&(1<<52-1) | 1022<<52), int(bits>>52) - 1022
}
