// Package convex holds the plane geometry of the sensitivity hull: convex hulls of cells and of
// points, the difference body K = H ⊕ (-H), its gauge ‖·‖_K, area, second moment, and the
// sectors from which uniform points of K are drawn.
//
// Cells have whole coordinates, so their hulls and difference bodies are exact: every orientation
// test is a product of integers that fits into 64 bits. Points without a grid go through the same
// code in float64, where a turn counts only if it is larger than rounding could make it.
//
// Source: Xiao and Xiong, "Protecting Locations with Differential Privacy under Temporal
// Correlations", CCS 2015, sections 4.1 and 5.1 (the sensitivity hull and the K-norm), doi
// 10.1145/2810103.2813640.
package convex

// Number is a coordinate: whole cells, or map kilometres.
type Number interface{ int64 | float64 }

// Point is a place or a displacement of the plane.
type Point[T Number] struct{ X, Y T }

// Lattice is a point in whole cells: X columns east, Y rows north. Both stay below 2³¹, so that a
// cross product fits into 64 bits.
type Lattice = Point[int64]

// Vec is a point in a unit of length, usually map kilometres.
type Vec = Point[float64]

// Sub returns p - q.
func (p Point[T]) Sub(q Point[T]) Point[T] { return Point[T]{p.X - q.X, p.Y - q.Y} }

// Add returns p + q.
func (p Point[T]) Add(q Point[T]) Point[T] { return Point[T]{p.X + q.X, p.Y + q.Y} }

// Neg returns -p.
func (p Point[T]) Neg() Point[T] { return Point[T]{-p.X, -p.Y} }

// Less orders points by X, then by Y: the order in which canonical polygons begin.
func (p Point[T]) Less(q Point[T]) bool { return p.X < q.X || (p.X == q.X && p.Y < q.Y) }

// Cross returns the z component of p × q: positive where q lies to the left of p.
func Cross[T Number](p, q Point[T]) T { return T(p.X*q.Y) - T(p.Y*q.X) }

// Dot returns the scalar product of p and q.
func Dot[T Number](p, q Point[T]) T { return T(p.X*q.X) + T(p.Y*q.Y) }
