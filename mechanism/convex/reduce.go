package convex

// Reduce returns two whole linear forms d and e, a basis of all of them, in which the symmetric
// polygon K with the given canonical whole vertices is as narrow as can be: with the width
// h(f) = max{f·v : v ∈ K}, h(d) is the least of any form but 0, and h(e) the least of any that
// is no multiple of d. (d·v, e·v) are then coordinates of the same lattice, in which K is not
// thin: h(d)·h(e) ≤ area(K)/2.
//
// It is Lagrange's and Gauss's reduction for any norm (Kaib and Schnorr 1996, Journal of Algorithms
// 21), and the width is a norm of forms: that of the polar body K°. Proof of both claims:
//
//   - At the end h(d) ≤ h(e) ≤ h(e ± d), so f(r) = h(e + r·d), which is convex, does not fall
//     below f(0) for |r| ≥ 1; and f(r) ≥ f(0) - min(|r|, 1-|r|)·h(d) ≥ f(0)/2 for |r| < 1.
//     For whole x and y ≠ 0, h(x·d + y·e) = |y|·f(x/y): with |y| = 1 the ratio is whole, and
//     else |y| ≥ 2, so it is f(0) = h(e) at least.
//   - So h(d) and h(e) are the successive minima of K°, h(d)·h(e)·area(K°) ≤ 4 (Minkowski's
//     second theorem), and area(K)·area(K°) ≥ 8 (Mahler 1939, K symmetric in the plane).
//
// O(log) rounds of O(log) passes over the vertices; one round of two for a K that is not thin.
// Nothing overflows for differences of cells of a grid of at most 2³¹ cells: as K is no line, its
// half-widths a and b are at most 2³⁰, a·b at most 2³¹. No form that is kept is wider than
// the first two, and by Cramer's rule on two vertices its entries are at most 2·max(a, b)² ≤
// 2⁶¹; widths tried are at most three times as large, and where an entry or a product of a trial
// wraps the sum, which fits, is right.
func Reduce(vertices []Lattice) (d, e Lattice) {
	half := vertices[:len(vertices)/2]
	if len(half) < 2 {
		panic("convex: only a polygon has two widths")
	}
	d, e = Lattice{1, 0}, Lattice{0, 1}
	least, other := width(d, half), width(e, half)
	if other < least {
		d, e, least, other = e, d, other, least
	}
	for {
		e = narrow(d, e, least, other, half)
		if other = width(e, half); other >= least {
			return d, e
		}
		d, e, least, other = e, d, other, least
	}
}

// width returns the greatest |f·v|.
func width(f Lattice, half []Lattice) int64 {
	w := int64(0)
	for _, v := range half {
		w = max(w, abs(Dot(f, v)))
	}
	return w
}

// narrow returns e + k·d of the least width over whole k. The widths of d and e are given.
func narrow(d, e Lattice, least, other int64, half []Lattice) Lattice {
	at := func(k int64) Lattice { return Lattice{e.X + k*d.X, e.Y + k*d.Y} }
	sign := int64(1)
	switch {
	case width(at(1), half) < other:
	case width(at(-1), half) < other:
		sign = -1
	default:
		return e
	}
	// By convexity the width falls up to some k and not after it; at |k| = 2·other/least it is as
	// large as at 0 again.
	low, high := int64(1), 2*(other/least)+2
	for low < high {
		middle := low + (high-low)/2
		if width(at(sign*(middle+1)), half) < width(at(sign*middle), half) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return at(sign * low)
}
