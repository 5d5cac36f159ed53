package hours

import (
	"cmp"
	"slices"
	"time"
)

// Interval is the time from From inclusive to To exclusive, milliseconds since 1970.
type Interval struct{ From, To int64 }

// Between returns the open times within an interval, ascending and with gaps between them. A nil
// *Hours is open throughout. It costs about a microsecond for each day and entry.
func (h *Hours) Between(fromMS, toMS int64) []Interval {
	if fromMS >= toMS {
		return nil
	}
	if h == nil {
		return []Interval{{fromMS, toMS}}
	}
	var all []Interval
	for i := range h.spans {
		all = h.spans[i].between(all, fromMS, toMS)
	}
	slices.SortFunc(all, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	merged := all[:0]
	for _, next := range all {
		if n := len(merged); n > 0 && next.From <= merged[n-1].To {
			merged[n-1].To = max(merged[n-1].To, next.To)
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

// between appends the open times of one span. From one change of the zone's offset to the next the
// wall clock runs evenly.
func (s *span) between(all []Interval, from, to int64) []Interval {
	for from < to {
		local := time.UnixMilli(from).In(s.zone)
		_, seconds := local.Zone()
		offset, until := int64(seconds)*1000, to
		if _, end := local.ZoneBounds(); end.After(local) {
			until = min(to, end.UnixMilli())
		} else if !end.IsZero() {
			// On the 31st of December of a leap year Go 1.26 returns that day's beginning. No clock
			// changes within a quarter of an hour.
			quarter, _ := divide(from, quarterMS)
			until = min(to, (quarter+1)*quarterMS)
		}
		today, _ := divide(from+offset, dayMS)
		for number := today - 1; number*dayMS < until+offset; number++ {
			if !s.days.Has(weekday(number)) {
				continue
			}
			midnight := number*dayMS - offset
			next := Interval{
				max(from, midnight+int64(s.from)*minuteMS),
				min(until, midnight+int64(s.to)*minuteMS),
			}
			if next.From < next.To {
				all = append(all, next)
			}
		}
		from = until
	}
	return all
}

// Most looks at every stretch of time of a length, from 2000 to 2037, and returns the longest time
// that is open in one of them and the largest number of open intervals that one of them touches.
// The length is positive. For a nil *Hours that is all of it, and 1.
func (h *Hours) Most(length time.Duration) (open time.Duration, pieces int) {
	if h == nil {
		return length, 1
	}
	span, all := length.Milliseconds(), h.all()
	// The open time is largest for a stretch that starts or ends with an interval. Those that end
	// with one are those of the mirrored times that start with one.
	mirrored := make([]Interval, len(all))
	for i, one := range all {
		mirrored[len(all)-1-i] = Interval{-one.To, -one.From}
	}
	most := max(mostFrom(all, span), mostFrom(mirrored, span))
	for i, j := 0, 0; i < len(all); i++ {
		for j < len(all) && all[j].From-(all[i].To-1) <= span {
			j++
		}
		pieces = max(pieces, j-i)
	}
	return time.Duration(most) * time.Millisecond, pieces
}

// all returns the open times from 2000 to 2037.
func (h *Hours) all() []Interval {
	return h.Between(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(),
		time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
}

// Cut returns how long after the hours open the first step starts at most, and how long after they
// close the last step that starts within them ends at most, from 2000 to 2037. Steps start at whole
// multiples of their length since 1970. Both are 0 where every border is one.
func (h *Hours) Cut(step time.Duration) (late, beyond time.Duration) {
	if h == nil {
		return 0, 0
	}
	left := func(ms int64) time.Duration { // to the next start of a step
		_, over := divide(-ms, step.Milliseconds())
		return time.Duration(over) * time.Millisecond
	}
	for _, open := range h.all() {
		late, beyond = max(late, left(open.From)), max(beyond, left(open.To))
	}
	return late, beyond
}

// mostFrom is the largest open time of a length that starts with an interval, milliseconds.
func mostFrom(all []Interval, length int64) (most int64) {
	whole := int64(0) // of the intervals from i to before j, which start within the length
	for i, j := 0, 0; i < len(all); i++ {
		for ; j < len(all) && all[j].From < all[i].From+length; j++ {
			whole += all[j].To - all[j].From
		}
		beyond := max(0, all[j-1].To-(all[i].From+length))
		most = max(most, whole-beyond)
		whole -= all[i].To - all[i].From
	}
	return most
}
