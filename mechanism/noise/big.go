package noise

import "math/big"

// BernoulliExpBig is BernoulliExp for whole numbers of any size, num ≥ 0 and den > 0, for the rare draw that outgrows two words. From the
// same words it returns the same. It allocates.
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

// Big returns w as a number without bounds.
func (w Wide) Big() *big.Int {
	b := new(big.Int).SetUint64(w.Hi)
	return b.Or(b.Lsh(b, 64), new(big.Int).SetUint64(w.Lo))
}
