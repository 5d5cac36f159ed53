package trial

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestDistancesByHand(t *testing.T) {
	tests := []struct {
		name              string
		km                []float64
		rms, mean, median float64
	}{
		{"none", nil, 0, 0, 0},
		{"one", []float64{2}, 2000, 2000, 2000},
		{"odd", []float64{3, 1, 8}, 1000 * math.Sqrt(74.0/3), 4000, 3000},
		{"even", []float64{4, 0, 3, 1}, 1000 * math.Sqrt(26.0/4), 2000, 2000},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var d Distances
			for _, km := range test.km {
				d.Add(km)
			}
			near(t, "RMS", d.RMS(), test.rms)
			near(t, "Mean", d.Mean(), test.mean)
			near(t, "Median", d.Median(), test.median)
			if d.Len() != len(test.km) {
				t.Errorf("Len is %d, want %d", d.Len(), len(test.km))
			}
		})
	}
}

// TestBlindDistancesByHand: the root of the mean square is that of the one place, all else that of
// the other, and sums of parts are those of the whole.
func TestBlindDistancesByHand(t *testing.T) {
	var whole, part BlindDistances
	whole.Add(3, 2)
	part.Add(4, 8)
	whole.Merge(&part)
	near(t, "RMS", whole.RMS(), 1000*math.Sqrt(12.5))
	near(t, "mean", whole.Mean(), 5000)
	near(t, "median", whole.Median(), 5000)
	if whole.Len() != 2 {
		t.Errorf("Len is %d, want 2", whole.Len())
	}
}

// TestMergeIsConcatenation: sums of parts are those of the whole, whose order a median keeps.
func TestMergeIsConcatenation(t *testing.T) {
	var whole, a, b Distances
	for i := range 10 {
		part := &a
		if i >= 4 {
			part = &b
		}
		km := float64(i * i % 7)
		whole.Add(km)
		part.Add(km)
	}
	before := slices.Clone(whole.values)
	median := whole.Median()
	a.Merge(&b)
	near(t, "RMS", a.RMS(), whole.RMS())
	near(t, "mean", a.Mean(), whole.Mean())
	near(t, "median", a.Median(), median)
	if !slices.Equal(whole.values, before) {
		t.Errorf("the median has changed the order of %v: %v", before, whole.values)
	}
}

func TestReleasesAreCounted(t *testing.T) {
	var m Score
	if m.LocationSetMean() != 0 || m.DriftRatio() != 0 || m.Releases() != 0 {
		t.Error("a score without a release must be 0")
	}
	for i := range 10 {
		m.AddRelease(i, i%3 == 0)
	}
	near(t, "|ΔX|", m.LocationSetMean(), 4.5)
	near(t, "drift", m.DriftRatio(), 0.4)
	if m.Releases() != 10 {
		t.Errorf("Releases is %d, want 10", m.Releases())
	}
}

// TestLittleGain: less than a quarter off the blind error is a warning that says how much it is.
func TestLittleGain(t *testing.T) {
	for _, c := range []struct {
		estimate, blind float64
		says            string
	}{
		{0, 0, ""},
		{75, 100, ""},
		{76, 100, "only 24 % nearer"},
		{4377, 4700, "only 7 % nearer"},
		{100, 100, "no nearer"},
		{110, 100, "no nearer"},
	} {
		if text := LittleGain(c.estimate, c.blind); !strings.Contains(text, c.says) ||
			(text == "") != (c.says == "") {
			t.Errorf("%v against %v: %q, want %q", c.estimate, c.blind, text, c.says)
		}
	}
}
