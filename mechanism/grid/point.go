package grid

import "math"

// Point is a place on the map: kilometres east and north of the south-west corner of the box.
type Point struct{ X, Y float64 }

// Add returns p + q.
func (p Point) Add(q Point) Point { return Point{p.X + q.X, p.Y + q.Y} }

// Sub returns p − q.
func (p Point) Sub(q Point) Point { return Point{p.X - q.X, p.Y - q.Y} }

// Scale returns s·p. The products are rounded before Add or Sub takes them, also where both are inlined and the processor
// could multiply and add in one rounding.
func (p Point) Scale(s float64) Point { return Point{float64(s * p.X), float64(s * p.Y)} }

// Norm returns the length of p in kilometres. The square root of a sum rather than math.Hypot: the latter's last bit
// differs between architectures, and map distances are far from overflow.
func (p Point) Norm() float64 { return math.Sqrt(float64(p.X*p.X) + float64(p.Y*p.Y)) }

// Distance returns the distance between p and q in kilometres.
func (p Point) Distance(q Point) float64 { return p.Sub(q).Norm() }
