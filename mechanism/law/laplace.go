package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// laplace is the baseline, the paper's Algorithm 3: Laplace noise of scale S/ε on each axis.
//
// Guarantee: ‖x1 - x2‖₁ ≤ S for all places of the set, both for S = Δ1+Δ2 as in the paper
// and for the greatest ℓ1 distance. So the density ratio is
//
//	e^{ε(‖z-x2‖₁ - ‖z-x1‖₁)/S} ≤ e^ε.
//
// On a line the noise still has both axes.
type laplace struct {
	hull    *SensitivityHull
	tight   bool
	single  bool
	rate    float64 // ε/S, 1/km
	logPeak float64
}

// Name implements Mechanism.
func (m *laplace) Name() string {
	if m.tight {
		return LaplaceTight
	}
	return Laplace
}

// Prepare implements Mechanism.
func (m *laplace) Prepare(h *SensitivityHull, epsilon float64) {
	m.hull, m.single = h, h.body.Dim() == 0
	m.rate, m.logPeak = 0, 0
	if m.single {
		return
	}
	sensitivity := h.sum
	if m.tight {
		sensitivity = h.ell1
	}
	m.rate = epsilon / sensitivity
	m.logPeak = math.Log(m.rate * m.rate / 4)
}

// Sample implements Mechanism.
func (m *laplace) Sample(src noise.Source, x grid.Cell) grid.Point {
	return m.sampleAt(src, m.hull.centre(x))
}

// sampleAt takes two words.
func (m *laplace) sampleAt(src noise.Source, x grid.Point) grid.Point {
	if m.single {
		return x
	}
	return grid.Point{X: x.X + noise.Laplace(src)/m.rate, Y: x.Y + noise.Laplace(src)/m.rate}
}

// LogPeak implements Mechanism.
func (m *laplace) LogPeak() float64 { return m.logPeak }

// Exponents implements Mechanism: -ε‖z-x‖₁/S.
func (m *laplace) Exponents(dst []float64, z grid.Point, places []convex.Vec) {
	if len(dst) != len(places) {
		panic("law: Exponents needs as many results as places")
	}
	for i, x := range places {
		distance := math.Abs(z.X-x.X) + math.Abs(z.Y-x.Y)
		switch {
		case !m.single:
			dst[i] = -m.rate * distance
		case distance == 0:
			dst[i] = 0
		default:
			dst[i] = math.Inf(-1)
		}
	}
}

// SquaredError implements Mechanism: twice the variance 2(S/ε)² of each axis.
func (m *laplace) SquaredError() float64 {
	if m.single {
		return 0
	}
	return 4 / (m.rate * m.rate)
}
