package oracle

import (
	"math"
	"testing"
)

// TestDistance checks the oracle against a published distance: Flinders Peak to Buninyong,
// 54,972.271 m on the Australian ellipsoid GRS80 (Geoscience Australia), which differs from WGS 84
// by less than a millimetre here.
func TestDistance(t *testing.T) {
	got := Distance(-(37 + 57/60. + 3.72030/3600), 144+25/60.+29.52440/3600,
		-(37 + 39/60. + 10.15610/3600), 143+55/60.+35.38390/3600)
	if math.Abs(got-54.972271) > 1e-6 {
		t.Errorf("%.6f km, want 54.972271", got)
	}
}
