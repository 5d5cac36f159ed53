// Package trial measures how good releases are, on the trusted side, where
// the truth is known. What it holds are aggregates: no place and no user.
package trial

import (
	"math"
	"slices"
)

// Distances summarizes distances to the truth. The zero value is empty. It
// keeps every distance, 8 bytes each, for the exact median.
type Distances struct {
	values  []float64 // kilometres
	sum     float64
	squares float64
}

// Add adds one distance in kilometres.
func (d *Distances) Add(km float64) {
	d.values = append(d.values, km)
	d.sum += km
	d.squares += float64(km * km)
}

// Merge adds all of other's distances, in their order.
func (d *Distances) Merge(other *Distances) {
	for _, km := range other.values {
		d.Add(km)
	}
}

// Len returns the number of distances.
func (d *Distances) Len() int { return len(d.values) }

// RMS returns the root of the mean square, √E‖z-x*‖², in metres: the paper's
// distance (section 6). 0 without any distance, as are the others.
func (d *Distances) RMS() float64 { return 1000 * math.Sqrt(d.per(d.squares)) }

// Mean returns the mean distance in metres.
func (d *Distances) Mean() float64 { return 1000 * d.per(d.sum) }

// Median returns the median distance in metres, the mean of the middle two of
// an even number. It costs a sorted copy.
func (d *Distances) Median() float64 {
	n := len(d.values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d.values))
	return 1000 * (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (d *Distances) per(total float64) float64 {
	if len(d.values) == 0 {
		return 0
	}
	return total / float64(len(d.values))
}

// Metrics are the paper's metrics of a run (section 6) with the estimate and
// the blind baseline beside the release. The zero value is empty.
type Metrics struct {
	Release  Distances // of the released place
	Estimate Distances // of the posterior mean
	Blind    Distances // of the posterior mean without any release

	releases int64
	setCells int64
	drifts   int64
}

// AddRelease counts a fresh release with its |ΔX| and whether the true cell lay
// outside ΔX.
func (m *Metrics) AddRelease(setSize int, drift bool) {
	m.releases++
	m.setCells += int64(setSize)
	if drift {
		m.drifts++
	}
}

// Releases returns the number of fresh releases.
func (m *Metrics) Releases() int64 { return m.releases }

// LocationSetMean returns the mean |ΔX| in cells.
func (m *Metrics) LocationSetMean() float64 { return Share(m.setCells, m.releases) }

// DriftRatio returns the share of releases whose true cell lay outside ΔX.
func (m *Metrics) DriftRatio() float64 { return Share(m.drifts, m.releases) }

// Share returns part / whole, and 0 of nothing.
func Share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
