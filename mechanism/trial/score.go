package trial

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
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

// Losses are what distances to the truth sum up to, in metres.
type Losses interface {
	RMS() float64
	Mean() float64
	Median() float64
}

// BlindDistances summarizes distances of what somebody says who sees no release, each by the best
// estimate for its loss: the root of the mean square is that of means, and the mean and the median
// are those of geometric medians. The zero value is empty.
type BlindDistances struct {
	Distances // of geometric medians

	squares float64 // of means
}

// Add adds the distances of one report's two places, in kilometres: see [mechanism.Best.Distances].
func (d *BlindDistances) Add(meanKM, medianKM float64) {
	d.squares += float64(meanKM * meanKM)
	d.Distances.Add(medianKM)
}

// Merge adds all of other's distances, in their order.
func (d *BlindDistances) Merge(other *BlindDistances) {
	d.squares += other.squares
	d.Distances.Merge(&other.Distances)
}

// RMS returns the root of the mean square in metres.
func (d *BlindDistances) RMS() float64 { return 1000 * math.Sqrt(d.per(d.squares)) }

// Score is how near releases and estimates came to the truth: the paper's metrics (section 6), with
// the estimate and the blind baseline beside the release. The zero value is empty.
type Score struct {
	Release  Distances      // of the released place
	Estimate Distances      // of the estimate
	Blind    BlindDistances // of the best estimates without any release

	releases int64
	setCells int64
	drifts   int64
}

// Add adds a result: the distance of the release where a new one was drawn, and those of the
// estimates where something would be published. Blind stays empty if no blind filter ran.
func (s *Score) Add(r *Result) {
	out := &r.Outcome
	if out.Kind == mechanism.Released {
		s.AddRelease(out.SetSize, out.Drift)
		s.Release.Add(out.Release.Distance(r.Place))
	}
	if !out.Kind.Published() {
		return
	}
	s.Estimate.Add(out.Estimate.Distance(r.Place))
	if r.beside {
		s.Blind.Add(r.Blind.Distances(r.Place))
	}
}

// AddRelease counts a new release with its |ΔX| and whether the true cell lay outside ΔX.
func (s *Score) AddRelease(setSize int, drift bool) {
	s.releases++
	s.setCells += int64(setSize)
	if drift {
		s.drifts++
	}
}

// Merge adds all that another score has counted, its distances in their order.
func (s *Score) Merge(other *Score) {
	s.Release.Merge(&other.Release)
	s.Estimate.Merge(&other.Estimate)
	s.Blind.Merge(&other.Blind)
	s.releases += other.releases
	s.setCells += other.setCells
	s.drifts += other.drifts
}

// Releases returns the number of new releases.
func (s *Score) Releases() int64 { return s.releases }

// Drifts returns how many of them had the true cell outside ΔX.
func (s *Score) Drifts() int64 { return s.drifts }

// LocationSetMean returns the mean |ΔX| in cells.
func (s *Score) LocationSetMean() float64 { return Share(s.setCells, s.releases) }

// DriftRatio returns the share of releases whose true cell lay outside ΔX.
func (s *Score) DriftRatio() float64 { return Share(s.drifts, s.releases) }

// LeastGain is the share of the blind error that releases have to take off for a single vehicle's
// records to be worth their ε. Less is hardly seen on a map.
const LeastGain = .25

// LittleGain returns a warning in plain words where an estimate's error is at least 1 - [LeastGain]
// of the blind error, in the same unit, and "" where it is smaller or nothing was measured.
func LittleGain(estimate, blind float64) string {
	gain := 1 - estimate/blind
	switch {
	case blind <= 0 || gain >= LeastGain:
		return ""
	case gain < .005:
		return "the records are no nearer to the truth than the model alone, which costs " +
			"nothing. Do not publish them. Fewer and larger releases err less, and so does more " +
			"ε a day"
	}
	return fmt.Sprintf("the records are only %.0f %% nearer to the truth than the model alone, "+
		"which costs nothing. Fewer and larger releases err less, and so does more ε a day. "+
		"Counts of the fleet may serve better", 100*gain)
}

// Share returns part / whole, and 0 of nothing.
func Share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
