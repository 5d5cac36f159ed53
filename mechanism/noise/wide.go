package noise

import "math/bits"

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
