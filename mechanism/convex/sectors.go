package convex

// Sectors are the triangles between 0 and the edges of a symmetric polygon K, with their areas: from them a uniform point of K, or
// a point of its boundary by the cone measure, is one look-up. Only half of them is kept; the other half is its mirror image.
type Sectors struct {
	vertices   []Vec     // the first half and the vertex after it
	cumulative []float64 // areas of the first i+1 triangles times two
}

// Reset fills s from all vertices of a symmetric polygon or segment, as Difference orders them. Points have no sector.
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

// ResetImage fills s with the sectors of TK, the image of the polygon of from under the linear map t of positive determinant.
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

// Boundary maps two uniform numbers of [0, 1) to a point of the boundary of K under the cone measure: the triangle with a
// probability proportional to its area, and a uniform point of its edge. The gauge of the result is 1. Times the square
// root of a third uniform number it is a uniform point of K. On a segment it is one of the two ends.
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
