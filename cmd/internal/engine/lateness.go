package engine

import (
	"fmt"
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

// LatenessBounds returns the buckets' upper bounds; the last bucket has none. The caller
// owns the slice.
func LatenessBounds() []time.Duration {
	bounds := latenessBounds
	return bounds[:]
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

// merge adds the fixes of another histogram.
func (l *Lateness) merge(more *Lateness) {
	for i, n := range more.Counts {
		l.Counts[i] += n
	}
	l.Seconds += more.Seconds
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

// plain writes a whole number of seconds, minutes or hours without the zeros behind it.
func plain(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// setBounds are the upper bounds of the buckets of location sets' sizes, in cells, ascending. One
// more bucket is for larger ones.
var setBounds = [...]int{1, 2, 5, 10, 20, 50, 100, 200, 500}

// SetSizes is a histogram of the sizes of location sets.
type SetSizes [len(setBounds) + 1]int64

// SetBounds returns the buckets' upper bounds; the last bucket has none. The caller owns the slice.
func SetBounds() []int {
	bounds := setBounds
	return bounds[:]
}

// Add counts one location set.
func (s *SetSizes) Add(cells int) {
	bucket := 0
	for bucket < len(setBounds) && cells > setBounds[bucket] {
		bucket++
	}
	s[bucket]++
}

// merge adds the sets of another histogram.
func (s *SetSizes) merge(more *SetSizes) {
	for i, n := range more {
		s[i] += n
	}
}
