package engine

import (
	"fmt"
	"strings"
	"time"
)

// latenessBounds are the upper bounds of the buckets of lateness, ascending. One more
// bucket is for whatever was later than the last of them.
var latenessBounds = [...]time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// Lateness is a histogram of how late fixes were: from the beginning of a fix's
// step to the beginning of its user's last one, so it is a multiple of the model's step.
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

// add counts one late fix.
func (l *Lateness) add(latenessMS int64) {
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

// plain writes a whole number of minutes or hours without the zeros behind it.
func plain(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}
