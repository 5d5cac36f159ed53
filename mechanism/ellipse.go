package mechanism

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Ellipse is the 1σ ellipse of a distribution around its mean. Along a road it says what a radius
// cannot: how far along and how far across.
type Ellipse struct {
	// MajorKM and MinorKM are the standard deviations along the two axes, the larger one first.
	MajorKM, MinorKM float64
	// AzimuthDeg is the direction of the major axis: degrees clockwise from north, at least 0 and
	// below 180. It is 0 if no axis is longer than the other.
	AzimuthDeg float64
}

// EllipseOf returns the ellipse of a distribution over g's cells. A place is taken to lie anywhere
// in its cell with equal probability, which adds side²/12 to the variance in every direction
// (Sheppard's correction), so that a distribution on one cell has an ellipse too. The distribution
// must not be empty; it need not be normalized. The ellipse is post-processing of the distribution,
// costs no ε, and is the same bits on every architecture. Cost: one pass, no memory.
func EllipseOf(g *grid.Grid, d *mobility.Distribution) Ellipse {
	if len(d.Cells) == 0 {
		panic("mechanism: an empty distribution has no ellipse")
	}
	xx, xy, yy := covariance(grid.Cell(g.Width()), d)
	// The eigenvalues of the matrix are middle ± root. The variance in a direction φ, clockwise
	// from north, is middle + half·cos 2φ + xy·sin 2φ with half = (yy - xx)/2: it is largest
	// where 2φ is the direction of (half, xy).
	half := (yy - xx) / 2
	middle, root := (xx+yy)/2, math.Sqrt(float64(half*half)+float64(xy*xy))
	azimuth := float64(angle(xy, half) * (90 / math.Pi))
	if azimuth < 0 {
		azimuth += 180
	}
	if azimuth >= 180 { // what was just below 0 was rounded up
		azimuth = 0
	}
	cell := g.CellKM()
	return Ellipse{
		MajorKM:    float64(math.Sqrt(middle+root) * cell),
		MinorKM:    float64(math.Sqrt(max(middle-root, cellVariance)) * cell),
		AzimuthDeg: azimuth,
	}
}

// cellVariance is the variance of a place in a cell in every direction, in squared cells.
const cellVariance = 1.0 / 12

// covariance returns the covariances of a place's column and row, in squared cells. The sums are
// taken from the first cell on, and not from column and row 0: their rounding error is then at most
// that of the squared extent of the distribution, which is millions of cells at most, so far below
// cellVariance.
func covariance(width grid.Cell, d *mobility.Distribution) (xx, xy, yy float64) {
	first := d.Cells[0]
	column, row := float64(first%width), first/width
	start, end, y := grid.Cell(0), int64(0), 0.0
	var total, sumX, sumY float64
	for i, c := range d.Cells {
		if int64(c) >= end {
			r := c / width
			start, end, y = r*width, int64(r+1)*int64(width), float64(r-row)
		}
		x, p := float64(c-start)-column, d.P[i]
		px, py := float64(p*x), float64(p*y)
		total += p
		sumX += px
		sumY += py
		xx += float64(px * x)
		xy += float64(px * y)
		yy += float64(py * y)
	}
	meanX, meanY := sumX/total, sumY/total
	xx = max(xx/total-float64(meanX*meanX), 0) + cellVariance
	yy = max(yy/total-float64(meanY*meanY), 0) + cellVariance
	return xx, xy/total - float64(meanX*meanY), yy
}

// angle returns the angle of the vector (x, y) from the x axis in radians, in (-π, π], and 0 for
// the zero vector: math.Atan2 without its signs of zero, to a few units in the last place. The
// standard library's lets the compiler fuse products on some architectures, which changes last
// bits.
func angle(y, x float64) float64 {
	far, near := math.Abs(x), math.Abs(y)
	steep := near > far
	if steep {
		far, near = near, far
	}
	if near == 0 && !steep && !(x < 0) {
		return 0
	}
	// atan t = 2·atan(t/(1+√(1+t²))): twice that leaves |t| ≤ tan(π/16) < .199, and of the
	// series the terms up to t²³/23. The next is below .199²⁴/25 < 2⁻⁶⁰ of the first.
	t := near / far
	t /= 1 + math.Sqrt(1+float64(t*t))
	t /= 1 + math.Sqrt(1+float64(t*t))
	s, sum := float64(t*t), 0.0
	for k := 23; k > 0; k -= 2 {
		sum = 1/float64(k) - float64(s*sum)
	}
	a := 4 * float64(t*sum)
	if steep {
		a = math.Pi/2 - a
	}
	if x < 0 {
		a = math.Pi - a
	}
	if y < 0 {
		a = -a
	}
	return a
}
