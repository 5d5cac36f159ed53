package convex

// rounding bounds the error of the cross product of two steps, from a over b to c, of float64 points. Let every coordinate be off by four
// roundings (the centre of a cell has one), 4u of the greatest coordinate m with u = 2⁻⁵³. Each component of a step is then off by
// 8u·m and its own rounding, u times at most 2m: 10u·m. Each is a factor of one product with a component of the other step, so
// both products together are off by 10u·m·s, where s is the sum of the four components without sign; rounding the products and
// their difference adds 4u·m·s at most. 14u·m·s, and 16u·m·s with room for terms of second order.
const rounding = 0x1p-49

// slack returns rounding·m·s of the way from a over b to c: 0 for whole numbers, which are exact.
func slack[T Number](a, b, c Point[T]) T {
	if half := T(1) / 2; half == 0 {
		return 0
	}
	there, on := b.Sub(a), c.Sub(b)
	m := max(abs(a.X), abs(a.Y), abs(b.X), abs(b.Y), abs(c.X), abs(c.Y))
	s := abs(there.X) + abs(there.Y) + abs(on.X) + abs(on.Y)
	return T(rounding * float64(m) * float64(s))
}

// turnsLeft reports whether the way from a over b to c turns left by more than rounding. A way back turns by any amount: else the far
// end of a line could be taken for a point on it.
func turnsLeft[T Number](a, b, c Point[T]) bool {
	there, on := b.Sub(a), c.Sub(b)
	turn := Cross(there, on)
	return turn > 0 && (Dot(there, on) < 0 || turn > slack(a, b, c))
}

// flatten makes a polygon all of whose vertices lie on one line, up to rounding, the segment between its ends. Points on a steep line are sorted
// by what rounding made of their x, so the chain of turns alone can leave a sliver of them.
func flatten[T Number](hull []Point[T]) []Point[T] {
	if half := T(1) / 2; half == 0 || len(hull) < 3 {
		return hull
	}
	a := farthest(hull, hull[0])
	b := farthest(hull, a)
	for _, v := range hull {
		if abs(Cross(b.Sub(a), v.Sub(b))) > slack(a, b, v) {
			return hull
		}
	}
	if b.Less(a) {
		a, b = b, a
	}
	return append(hull[:0], a, b)
}

func farthest[T Number](points []Point[T], from Point[T]) Point[T] {
	best, square := from, T(0)
	for _, p := range points {
		d := p.Sub(from)
		if s := Dot(d, d); s > square {
			best, square = p, s
		}
	}
	return best
}

func abs[T Number](x T) T { return max(x, -x) }
