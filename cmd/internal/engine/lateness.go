package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// latenessBounds are the upper bounds of the buckets of lateness, ascending. One more
// bucket is for whatever was later than the last of them.
var latenessBounds = [...]time.Duration{
	time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
	15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// Lateness is a histogram of times by which fixes were late: from the beginning of a fix's
// step to the beginning of its user's last one, so each is a multiple of the model's step. Or of
// those by which fixes were ahead of their Kafka records.
type Lateness struct {
	Counts  [len(latenessBounds) + 1]int64 // of each bucket alone, its bound included
	Seconds float64                        // their sum
}

// Add counts one fix.
func (l *Lateness) Add(latenessMS int64) {
	bucket := 0
	for bucket < len(latenessBounds) && latenessMS > latenessBounds[bucket].Milliseconds() {
		bucket++
	}
	l.Counts[bucket]++
	l.Seconds += float64(latenessMS) / 1000
}

// addTimes adds another histogram so many times.
func (l *Lateness) addTimes(more *Lateness, times int64) {
	addNumbers(l.Counts[:], more.Counts[:], times)
	l.Seconds += float64(times) * more.Seconds
}

// Buckets returns what each bucket alone counts, the buckets' upper bounds in seconds, of which the
// last bucket has none, and the sum of all in seconds.
func (l *Lateness) Buckets() (counts []int64, bounds []float64, sum float64) {
	for _, bound := range latenessBounds {
		bounds = append(bounds, bound.Seconds())
	}
	return l.Counts[:], bounds, l.Seconds
}

// String lists the buckets that hold something, as in "≤1m 12, ≤1h 3, >24h 1".
func (l *Lateness) String() string {
	var parts []string
	for i, n := range l.Counts {
		switch {
		case n == 0:
		case i < len(latenessBounds):
			parts = append(parts, fmt.Sprintf("≤%s %d", plain(latenessBounds[i]), n))
		default:
			parts = append(parts, fmt.Sprintf(">%s %d", plain(latenessBounds[i-1]), n))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// plain writes a duration without the zeros behind whole minutes or hours, as in 1h.
func plain(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// SetBounds are the upper bounds of the buckets of location sets' sizes, in cells, ascending. One
// more bucket is for larger ones. Do not change them.
var SetBounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500}

// SetSizes is a histogram of the sizes of location sets.
type SetSizes [10]int64

// Add counts one location set.
func (s *SetSizes) Add(cells int) {
	bucket, _ := slices.BinarySearch(SetBounds, float64(cells))
	s[bucket]++
}

// addNumbers adds the numbers of more, so many times, to those of sum.
func addNumbers(sum, more []int64, times int64) {
	for i, n := range more {
		sum[i] += times * n
	}
}
