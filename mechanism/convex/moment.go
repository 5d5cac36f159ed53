package convex

import "math"

// Matrix is a symmetric 2×2 matrix [[XX, XY], [XY, YY]].
type Matrix struct{ XX, XY, YY float64 }

// Times returns the product with a column vector.
func (m Matrix) Times(v Vec) Vec {
	return Vec{float64(m.XX*v.X) + float64(m.XY*v.Y), float64(m.XY*v.X) + float64(m.YY*v.Y)}
}

// Det returns the determinant to two units in the last place of the exact determinant of the
// entries (Kahan's difference of products by fused multiply-add, doi
// 10.1090/S0025-5718-2013-02679-8).
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

// Moment is the second moment E[u uᵀ] of a uniform point u of a body, in the square of its unit,
// with its determinant. The determinant is kept apart, because for a thin body rounded entries
// would give noise.
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

// InverseRoot returns M^(-1/2), the symmetric positive definite T with T M T = 1, in closed form:
// the square root of a 2×2 matrix is (M + √det·1)/√(tr + 2√det) (Levinger 1980, doi
// 10.1080/0025570X.1980.11976858), its inverse has √det for determinant of the inverse. ok is
// false where the determinant is not positive: a segment or a point.
func (m Moment) InverseRoot() (t Matrix, ok bool) {
	if !(m.Determinant > 0) {
		return Matrix{}, false
	}
	root := math.Sqrt(m.Determinant)
	d := root * math.Sqrt(m.Trace()+2*root)
	return Matrix{(m.YY + root) / d, -m.XY / d, (m.XX + root) / d}, true
}
