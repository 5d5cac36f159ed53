package convex

import "slices"

// HullOfCells returns the convex hull of the centres of cells, in cell coordinates (column, row):
// counter-clockwise from the smallest (x, then y), no three vertices on a line. One cell gives one
// vertex, cells on a line give its two ends.
//
// The cells must ascend (row-major, cell = row·width + column) and there must be one at least. The
// hull overwrites dst and is returned, grown if need be. Only the two extreme cells of each row can
// be vertices, so after one pass up and one pass down over the list (Andrew's monotone chain by
// rows) nothing is left to sort: O(len(cells)), without allocation once dst is large enough.
func HullOfCells(dst []Lattice, cells []int32, width int) []Lattice {
	if len(cells) == 0 || width < 1 {
		panic("convex: HullOfCells needs a cell and a width")
	}
	w := int64(width)
	n := len(cells)
	first := lattice(cells[0], w)
	dst = append(dst[:0], first)
	for i, row := 0, first.Y; i < n; { // the right side, upwards: the last cell of each row
		end := (row + 1) * w
		for i++; i < n && int64(cells[i]) < end; i++ {
		}
		dst = push(dst, 1, Lattice{int64(cells[i-1]) - row*w, row})
		if i < n {
			row = int64(cells[i]) / w
		}
	}
	right := len(dst)
	for i, row := n-1, dst[right-1].Y; i >= 0; {
		// the left side, downwards: the first cell of each row
		start := row * w
		for i--; i >= 0 && int64(cells[i]) >= start; i-- {
		}
		dst = push(dst, right, Lattice{int64(cells[i+1]) - start, row})
		if i >= 0 {
			row = int64(cells[i]) / w
		}
	}
	if len(dst) > 1 { // the chain has returned to its start
		dst = dst[:len(dst)-1]
	}
	rotate(dst)
	return dst
}

func lattice(cell int32, width int64) Lattice {
	row := int64(cell) / width
	return Lattice{int64(cell) - row*width, row}
}

// push appends p to the chain, first taking back the vertices that p turns into inner or collinear
// points. The first keep points belong to the chain before and stay. A point equal to the last one
// is not pushed, unless it closes the polygon.
func push[T Number](chain []Point[T], keep int, p Point[T]) []Point[T] {
	for len(chain) > keep {
		if turnsLeft(chain[len(chain)-2], chain[len(chain)-1], p) {
			break
		}
		chain = chain[:len(chain)-1]
	}
	if p == chain[len(chain)-1] {
		return chain
	}
	return append(chain, p)
}

// rotate turns the vertices in place so that they begin at the smallest (x, then y), O(len).
func rotate[T Number](vertices []Point[T]) {
	m := 0
	for i, v := range vertices {
		if v.Less(vertices[m]) {
			m = i
		}
	}
	if m > 0 {
		slices.Reverse(vertices[:m])
		slices.Reverse(vertices[m:])
		slices.Reverse(vertices)
	}
}

// Hull returns the convex hull of points in the same canonical form as HullOfCells, for points that
// have no grid. It overwrites dst and sorts points in place: Andrew's monotone chain, O(n log n).
// There must be one point at least.
//
// Float64 points on a line, up to the rounding of their coordinates, give the segment between their
// ends. A vertex that is a corner only by rounding is dropped: see rounding. With n points along a
// slow curve, a point can lie up to n times that bound outside the hull.
func Hull[T Number](dst, points []Point[T]) []Point[T] {
	if len(points) == 0 {
		panic("convex: Hull needs a point")
	}
	slices.SortFunc(points, func(a, b Point[T]) int {
		switch {
		case a.Less(b):
			return -1
		case b.Less(a):
			return 1
		}
		return 0
	})
	dst = append(dst[:0], points[0])
	for _, p := range points[1:] {
		dst = push(dst, 1, p)
	}
	lower := len(dst)
	for i := len(points) - 2; i >= 0; i-- {
		dst = push(dst, lower, points[i])
	}
	if len(dst) > 1 && dst[len(dst)-1] == dst[0] {
		dst = dst[:len(dst)-1]
	}
	return flatten(dst)
}

// Difference returns the difference body K = H ⊕ (-H) of a canonical convex polygon H: the convex
// hull of all differences of two points of H. For H = Conv(ΔX) it is the sensitivity hull. K comes
// in canonical form too, its second half the negated first: vertex i+len/2 is minus vertex i,
// exactly. A point gives the point 0, a segment s the segment from -s to s.
//
// The edges of K are those of H and of -H in the order of their angle, parallel ones joined. Taken
// from the smallest vertex to the largest, the lower side of H and the reversed upper side are each
// sorted already, so one merge of O(h) does it; the paper takes the hull of all h² differences,
// O(h² log h). Every vertex is computed as one difference of two vertices of H, hence exact in
// whole numbers and rounded once in float64. K overwrites dst, which must not overlap hull.
func Difference[T Number](dst, hull []Point[T]) []Point[T] {
	dst = dst[:0]
	h := len(hull)
	if h == 0 {
		panic("convex: Difference needs a polygon")
	}
	if h == 1 {
		return append(dst, Point[T]{})
	}
	top := 0
	for i, v := range hull {
		if hull[top].Less(v) {
			top = i
		}
	}
	// walk the lower side from the smallest vertex, the upper one from the largest
	low, up := 0, top
	for low < top || up < h {
		dst = append(dst, hull[low].Sub(hull[up%h]))
		switch turn := edgeOrder(hull, low, top, up); {
		case turn > 0:
			low++
		case turn < 0:
			up++
		default:
			low++
			up++
		}
	}
	for _, v := range dst {
		dst = append(dst, v.Neg())
	}
	return dst
}

// edgeOrder says which edge comes next by angle: positive the lower side's, negative the upper
// side's, zero both (parallel).
func edgeOrder[T Number](hull []Point[T], low, top, up int) T {
	if low == top {
		return -1
	}
	if up == len(hull) {
		return 1
	}
	next := up + 1
	if next == len(hull) {
		next = 0
	}
	return Cross(hull[low+1].Sub(hull[low]), hull[up].Sub(hull[next]))
}

// Extent returns the side lengths of the smallest upright box around a polygon: the paper's Δ1 and
// Δ2 when given Conv(ΔX).
func Extent[T Number](polygon []Point[T]) (dx, dy T) {
	lo, hi := polygon[0], polygon[0]
	for _, v := range polygon {
		lo.X, hi.X = min(lo.X, v.X), max(hi.X, v.X)
		lo.Y, hi.Y = min(lo.Y, v.Y), max(hi.Y, v.Y)
	}
	return hi.X - lo.X, hi.Y - lo.Y
}

// Diameter1 returns the greatest ℓ1 distance of two points of a polygon, max(range(x+y),
// range(x-y)).
func Diameter1[T Number](polygon []Point[T]) T {
	p := polygon[0]
	sumLo, sumHi, difLo, difHi := p.X+p.Y, p.X+p.Y, p.X-p.Y, p.X-p.Y
	for _, v := range polygon {
		sumLo, sumHi = min(sumLo, v.X+v.Y), max(sumHi, v.X+v.Y)
		difLo, difHi = min(difLo, v.X-v.Y), max(difHi, v.X-v.Y)
	}
	return max(sumHi-sumLo, difHi-difLo)
}

// rounding bounds the error of the cross product of two steps, from a over b to c, of float64
// points. Let every coordinate be off by four roundings (the centre of a cell has one), 4u of the
// greatest coordinate m with u = 2⁻⁵³. Each component of a step is then off by 8u·m and its
// own rounding, u times at most 2m: 10u·m. Each is a factor of one product with a component of the
// other step, so both products together are off by 10u·m·s, where s is the sum of the four
// components without sign; rounding the products and their difference adds 4u·m·s at most.
// 14u·m·s, and 16u·m·s with room for terms of second order.
const rounding = 0x1p-49

// slack returns rounding·m·s for the way from a over b to c, and 0 for whole numbers, which are
// exact.
func slack[T Number](a, b, c Point[T]) T {
	if half := T(1) / 2; half == 0 {
		return 0
	}
	there, on := b.Sub(a), c.Sub(b)
	m := max(abs(a.X), abs(a.Y), abs(b.X), abs(b.Y), abs(c.X), abs(c.Y))
	s := abs(there.X) + abs(there.Y) + abs(on.X) + abs(on.Y)
	return T(rounding * float64(m) * float64(s))
}

// turnsLeft reports whether the way from a over b to c turns left by more than rounding. If the way
// goes back, any amount counts: else the far end of a line could be taken for a point on it.
func turnsLeft[T Number](a, b, c Point[T]) bool {
	there, on := b.Sub(a), c.Sub(b)
	turn := Cross(there, on)
	return turn > 0 && (Dot(there, on) < 0 || turn > slack(a, b, c))
}

// flatten turns a polygon whose vertices all lie on one line, up to rounding, into the segment
// between its ends. The chain of turns alone can leave a sliver: points on a steep line are sorted
// by their x, which is mostly rounding there.
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
