package convex

import "math"

// Body is a convex set K of the plane with K = -K, ready for its gauge ‖v‖_K = min{r ≥ 0 : v
// ∈ rK}, for its sectors and for drawing points of it. A Body of dimension 2 is a polygon, of
// dimension 1 a segment, of dimension 0 the point 0.
//
// A Body is filled by Reset or ResetLattice and keeps its memory between fillings. It must not be
// changed while it is read.
type Body struct {
	// vertices run counter-clockwise from the smallest (x, y); the second half is minus the first.
	vertices []Vec
	// inverse holds the outward normals of the first half of the edges, divided by their support:
	// the gauge is the greatest |inverse·v|.
	inverse []Vec
	sector  Sectors // of the first half of the edges
	moment  Moment
	measure float64
	spread  float64 // ‖vertex‖₁ at most, the scale of rounding errors
}

// Reset fills b with the polygon whose canonical vertices Difference returned.
func (b *Body) Reset(vertices []Vec) {
	b.reset(len(vertices))
	copy(b.vertices, vertices)
	b.prepare(1)
}

// ResetLattice fills b with the polygon of canonical whole vertices times scale, for instance
// kilometres a cell. Area and moments are summed in whole numbers, which float64 holds exactly
// while they stay below 2⁵³ (spans up to about 2,000 cells).
func (b *Body) ResetLattice(vertices []Lattice, scale float64) {
	if !(scale > 0) || math.IsInf(scale, 0) {
		panic("convex: the scale of a body must be positive and finite")
	}
	b.reset(len(vertices))
	for i, v := range vertices {
		b.vertices[i] = Vec{float64(v.X), float64(v.Y)}
	}
	b.prepare(scale)
}

func (b *Body) reset(n int) {
	if n == 0 || (n > 1 && n%2 == 1) {
		panic("convex: a symmetric polygon has one vertex or an even number of them")
	}
	if cap(b.vertices) < n {
		b.vertices = make([]Vec, n, 2*n)
		b.inverse = make([]Vec, 0, n)
	}
	b.vertices, b.inverse = b.vertices[:n], b.inverse[:0]
}

// prepare derives everything from the vertices and then multiplies it by scale: the cross products
// of whole vertices are exact, and those of a thin body's scaled vertices would not be.
func (b *Body) prepare(scale float64) {
	half := len(b.vertices) / 2
	b.sector.Reset(b.vertices)
	switch half {
	case 0:
		b.moment, b.measure, b.spread = Moment{}, 1, 0
		return
	case 1:
		u := b.vertices[1]
		square := Dot(u, u)
		b.moment = segmentMoment(u).scaled(scale)
		b.inverse = append(b.inverse, Vec{u.X / square / scale, u.Y / square / scale})
		b.measure = 2 * math.Sqrt(square) * scale
	default:
		b.moment = polygonMoment(b.vertices[:half+1]).scaled(scale)
		for i, v := range b.vertices[:half] {
			edge := b.vertices[i+1].Sub(v)
			c := Cross(v, edge) * scale // v × w without the cancellation of a short edge
			b.inverse = append(b.inverse, Vec{edge.Y / c, -edge.X / c})
		}
		b.measure = b.sector.Area() * scale * scale
	}
	b.spread = 0
	for i := range b.vertices {
		v := &b.vertices[i]
		v.X, v.Y = v.X*scale, v.Y*scale
		b.spread = max(b.spread, math.Abs(v.X)+math.Abs(v.Y))
	}
	b.sector.scale(scale)
}

// segmentMoment is the moment of the uniform law on [-u, u]: u uᵀ/3.
func segmentMoment(u Vec) Moment {
	return Moment{Matrix: Matrix{u.X * u.X / 3, u.X * u.Y / 3, u.Y * u.Y / 3}}
}

// polygonMoment is the moment of a symmetric polygon, given the first half of its vertices and the
// one after them. With v = v_i, w = v_{i+1}, c_i = v × w and the area A = ½ Σ c_i,
//
//	E[u uᵀ] = 1/(24A) Σ c_i [v vᵀ + w wᵀ + (v+w)(v+w)ᵀ].
//
// Half of the sectors give half of both sums. The sums of whole vertices are whole, exact below
// 2⁵³, and the determinant is formed before the division.
func polygonMoment(vertices []Vec) Moment {
	var xx, xy, yy, area float64
	for i, v := range vertices[:len(vertices)-1] {
		w := vertices[i+1]
		c := Cross(v, w)
		s := v.Add(w)
		area += c
		xx += float64(c * (float64(v.X*v.X) + float64(w.X*w.X) + float64(s.X*s.X)))
		xy += float64(c * (float64(v.X*v.Y) + float64(w.X*w.Y) + float64(s.X*s.Y)))
		yy += float64(c * (float64(v.Y*v.Y) + float64(w.Y*w.Y) + float64(s.Y*s.Y)))
	}
	d := 12 * area
	return Moment{Matrix{xx / d, xy / d, yy / d}, difference(xx, yy, xy, xy) / d / d}
}

// Dim returns the dimension of K: 2, 1 or 0.
func (b *Body) Dim() int {
	switch len(b.vertices) {
	case 0, 1:
		return 0
	case 2:
		return 1
	}
	return 2
}

// Vertices returns the vertices, counter-clockwise from the smallest (x, then y). They belong to b
// and must not be changed.
func (b *Body) Vertices() []Vec { return b.vertices }

// Measure returns the area of a polygon, the length of a segment, and 1 for a point.
func (b *Body) Measure() float64 { return b.measure }

// Moment returns E[u uᵀ] of a uniform point u of K.
func (b *Body) Moment() Moment { return b.moment }

// Sectors returns the triangles of K around 0, for drawing. They belong to b.
func (b *Body) Sectors() *Sectors { return &b.sector }

// lineTolerance decides whether a point lies on the line of a segment: its distance to the line
// must be below this share of the lengths in the computation. A point computed as x + t·u is off
// by a few units of 2⁻⁵³ of these lengths. A thousand times that is still less than the gap
// between a line through cells and the next cell, for any map with fewer than 10⁶ cells along the
// line.
const lineTolerance = 1e-12

// Gauge returns ‖v‖_K. It is +Inf where no multiple of K reaches v: off the line of a segment
// (up to rounding, relative 1e-12 of the lengths of v and K), and everywhere but at 0 for a point.
// O(len(vertices)/2) products without a branch.
func (b *Body) Gauge(v Vec) float64 {
	switch len(b.vertices) {
	case 0, 1:
		if v == (Vec{}) {
			return 0
		}
		return math.Inf(1)
	case 2:
		if !b.onLine(v) {
			return math.Inf(1)
		}
	}
	return b.project(v)
}

func (b *Body) project(v Vec) float64 {
	g := 0.0
	for _, a := range b.inverse {
		g = max(g, math.Abs(float64(a.X*v.X)+float64(a.Y*v.Y)))
	}
	return g
}

func (b *Body) onLine(v Vec) bool {
	u := b.vertices[1]
	off := math.Abs(Cross(u, v)) // distance to the line times |u|
	return off <= lineTolerance*(b.spread+math.Abs(v.X)+math.Abs(v.Y))*b.spread
}

// Gauges writes ‖z - x‖_K for every x of points into dst, which must be as long: Gauge for many
// points at once.
func (b *Body) Gauges(dst []float64, z Vec, points []Vec) {
	if len(dst) != len(points) {
		panic("convex: Gauges needs as many results as points")
	}
	if len(b.vertices) <= 2 {
		for i, x := range points {
			dst[i] = b.GaugeFrom(z, x)
		}
		return
	}
	inverse := b.inverse
	for i, x := range points {
		vx, vy := z.X-x.X, z.Y-x.Y
		// This takes the greatest absolute value by its bits. Floats without a sign have the same
		// order as their bits have as whole numbers. Comparing whole numbers compiles to a
		// conditional move, while comparing floats, which may be NaN, compiles to a branch.
		g := uint64(0)
		for _, a := range inverse {
			g = max(g, math.Float64bits(float64(a.X*vx)+float64(a.Y*vy))&^signBit)
		}
		dst[i] = math.Float64frombits(g)
	}
}

const signBit = 1 << 63

// GaugeFrom returns ‖z - x‖_K. For a segment its tolerance includes the lengths of z and x,
// because their difference may have lost digits.
func (b *Body) GaugeFrom(z, x Vec) float64 {
	v := z.Sub(x)
	if len(b.vertices) != 2 {
		return b.Gauge(v)
	}
	size := b.spread + math.Abs(z.X) + math.Abs(z.Y) + math.Abs(x.X) + math.Abs(x.Y)
	if math.Abs(Cross(b.vertices[1], v)) > lineTolerance*size*b.spread {
		return math.Inf(1)
	}
	return b.project(v)
}

// Sectors are the triangles between 0 and the edges of a symmetric polygon K, with their areas.
// From them one look-up gives a uniform point of K, or a point of its boundary under the cone
// measure. Only half of them is kept; the other half is its mirror image.
type Sectors struct {
	vertices   []Vec     // the first half and the vertex after it
	cumulative []float64 // areas of the first i+1 triangles times two
}

// Reset fills s from all vertices of a symmetric polygon or segment, as Difference orders them.
// Points have no sector.
func (s *Sectors) Reset(vertices []Vec) {
	half := len(vertices) / 2
	if cap(s.cumulative) < half {
		s.cumulative = make([]float64, half, 2*half)
		s.vertices = make([]Vec, half+1, 2*half+1)
	}
	s.cumulative, s.vertices = s.cumulative[:half], s.vertices[:0]
	if half == 0 {
		return
	}
	s.vertices = append(s.vertices, vertices[:half+1]...)
	s.accumulate()
}

// ResetImage fills s with the sectors of TK, the image of the polygon of from under the linear map
// t of positive determinant.
func (s *Sectors) ResetImage(from *Sectors, t Matrix) {
	if cap(s.cumulative) < len(from.cumulative) {
		s.cumulative = make([]float64, len(from.cumulative), cap(from.cumulative))
		s.vertices = make([]Vec, 0, cap(from.vertices))
	}
	s.cumulative, s.vertices = s.cumulative[:len(from.cumulative)], s.vertices[:0]
	for _, v := range from.vertices {
		s.vertices = append(s.vertices, t.Times(v))
	}
	s.accumulate()
}

func (s *Sectors) accumulate() {
	sum := 0.0
	for i := range s.cumulative {
		sum += Cross(s.vertices[i], s.vertices[i+1])
		s.cumulative[i] = sum
	}
}

func (s *Sectors) scale(by float64) {
	for i, v := range s.vertices {
		s.vertices[i] = Vec{v.X * by, v.Y * by}
	}
	for i := range s.cumulative {
		s.cumulative[i] *= by * by
	}
}

// Area returns the area of the polygon, the sum of its triangles.
func (s *Sectors) Area() float64 {
	if len(s.cumulative) == 0 {
		return 0
	}
	return s.cumulative[len(s.cumulative)-1]
}

// Boundary maps two uniform numbers of [0, 1) to a point of the boundary of K under the cone
// measure: the triangle with a probability proportional to its area, and a uniform point of its
// edge. The gauge of the result is 1. Times the square root of a third uniform number it is a
// uniform point of K. On a segment it is one of the two ends.
func (s *Sectors) Boundary(u, t float64) Vec {
	n := len(s.cumulative)
	if n == 0 {
		return Vec{}
	}
	u *= 2
	mirror := u >= 1
	if mirror {
		u--
	}
	i := 0
	if target := u * s.cumulative[n-1]; n > 1 {
		for i < n-1 && s.cumulative[i] <= target {
			i++
		}
	}
	v, w := s.vertices[i], s.vertices[i+1]
	if n == 1 {
		w = v
	}
	p := Vec{v.X + float64(t*(w.X-v.X)), v.Y + float64(t*(w.Y-v.Y))}
	if mirror {
		return p.Neg()
	}
	return p
}
