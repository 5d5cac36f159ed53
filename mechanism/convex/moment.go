package convex

import "math"

// Matrix is a symmetric 2×2 matrix [[XX, XY], [XY, YY]].
type Matrix struct{ XX, XY, YY float64 }

// Times returns the product with a column vector.
func (m Matrix) Times(v Vec) Vec {
	return Vec{float64(m.XX*v.X) + float64(m.XY*v.Y), float64(m.XY*v.X) + float64(m.YY*v.Y)}
}

// Det returns the determinant to two units in the last place of the exact determinant of the entries (Kahan's difference of
// products by fused multiply-add, doi 10.1090/S0025-5718-2013-02679-8).
func (m Matrix) Det() float64 { return difference(m.XX, m.YY, m.XY, m.XY) }

// Inverse returns the inverse. The matrix must not be singular.
func (m Matrix) Inverse() Matrix {
	d := m.Det()
	return Matrix{m.YY / d, -m.XY / d, m.XX / d}
}

// difference returns a·b - c·d with one rounding error of each kind instead of cancellation.
func difference(a, b, c, d float64) float64 {
	w := float64(c * d)
	e := math.FMA(-c, d, w)
	return math.FMA(a, b, -w) + e
}

// Moment is the second moment E[u uᵀ] of a uniform point u of a body, in the square of its unit, with its determinant, which is
// kept apart because that of a thin body computed from rounded entries would be noise.
type Moment struct {
	Matrix
	Determinant float64
}

// Trace returns E‖u‖².
func (m Moment) Trace() float64 { return m.XX + m.YY }

func (m Moment) scaled(scale float64) Moment {
	s := scale * scale
	return Moment{Matrix{m.XX * s, m.XY * s, m.YY * s}, m.Determinant * s * s}
}

// segmentMoment is the moment of the uniform law on [-u, u]: u uᵀ/3.
func segmentMoment(u Vec) Moment {
	return Moment{Matrix: Matrix{u.X * u.X / 3, u.X * u.Y / 3, u.Y * u.Y / 3}}
}

// polygonMoment is the moment of a symmetric polygon, given the first half of its vertices and the one after them: with
// c_i = v_i × v_{i+1} and area A = ½Σc_i, E[u uᵀ] = 1/(24A) Σ c_i [v vᵀ + w wᵀ + (v+w)(v+w)ᵀ], w = v_{i+1}. Half of the
// sectors give half of both sums. Whole vertices make whole sums, exact below 2⁵³, and the determinant is formed before the
// division.
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

// InverseRoot returns M^(-1/2), the symmetric positive definite T with T M T = 1, in closed form: the square root of a 2×2
// matrix is (M + √det·1)/√(tr + 2√det) (Levinger 1980, doi 10.1080/0025570X.1980.11976858), its inverse has √det for
// determinant of the inverse. ok is false where the determinant is not positive: a segment or a point.
func (m Moment) InverseRoot() (t Matrix, ok bool) {
	if !(m.Determinant > 0) {
		return Matrix{}, false
	}
	root := math.Sqrt(m.Determinant)
	d := root * math.Sqrt(m.Trace()+2*root)
	return Matrix{(m.YY + root) / d, -m.XY / d, (m.XX + root) / d}, true
}
