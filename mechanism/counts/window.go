package counts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/hours"
)

const (
	dayMS = 24 * 60 * 60 * 1000 // milliseconds
	// reachMS is how far the clock of any time zone is from UTC at most, and some hours more.
	reachMS = dayMS + 4*60*60*1000
)

// Date is a day of a calendar, numbered from 1970-01-01 on, which is 0.
type Date int32

// ParseDate reads a day such as 2026-11-21.
func ParseDate(text string) (Date, error) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 1980 || at.Year() > 2999 {
		return 0, fmt.Errorf("%q is no day from 1980 on: write it as 2026-11-21", text)
	}
	return Date(at.Unix() * 1000 / dayMS), nil
}

// String returns the day as 2026-11-21.
func (d Date) String() string {
	return time.UnixMilli(int64(d) * dayMS).UTC().Format(time.DateOnly)
}

// Window is a stretch of time, from StartMS inclusive to EndMS exclusive, milliseconds since 1970.
type Window struct {
	StartMS, EndMS int64
	// Day is the date on which the window starts, by the clock of the plan's time zone.
	Day Date
}

// Plan cuts time into windows. Windows start where the clock of a time zone shows a whole multiple
// of their length, and where this clock is changed. So the hour that a clock shows twice in autumn
// is never part of one window, and the hour that it leaves out in spring is in none. The days of a
// clock change have 23 or 25 hours. Each moment is in one window, and each window on one day.
//
// The rules of time zones are those of hours.ZoneVersion. Any number of goroutines may use a Plan.
type Plan struct {
	zone   *time.Location
	name   string
	length int64 // milliseconds
}

// NewPlan returns the plan of a zone of the IANA time zone database and a length, which divides a
// day of 24 hours into whole minutes.
func NewPlan(zone string, length time.Duration) (*Plan, error) {
	if length < time.Minute || length%time.Minute != 0 || 24*time.Hour%length != 0 {
		return nil, fmt.Errorf("windows of %v do not divide a day: choose 15m, 1h or 6h", length)
	}
	location, err := hours.Zone(zone)
	if err != nil {
		return nil, err
	}
	return &Plan{location, zone, length.Milliseconds()}, nil
}

// Zone returns the name of the time zone.
func (p *Plan) Zone() string { return p.name }

// Length returns the length of a window without a clock change.
func (p *Plan) Length() time.Duration { return time.Duration(p.length) * time.Millisecond }

// LongestDay is the longest stretch of time that a day of the zone's clock takes, from 2000 to
// 2037: 25 hours where the clock is put back by an hour.
func (p *Plan) LongestDay() time.Duration {
	longest := int64(dayMS)
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	end := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)
	for ms := start.UnixMilli(); ms < end.UnixMilli(); ms += dayMS {
		longest = max(longest, dayMS+p.offset(ms)-p.offset(ms+dayMS))
	}
	return time.Duration(longest) * time.Millisecond
}

// Hour returns the hour of the day that the clock shows at a moment, 0 to 23.
func (p *Plan) Hour(ms int64) int { return time.UnixMilli(ms).In(p.zone).Hour() }

// At returns the window of a moment. It costs some 100 ns.
func (p *Plan) At(ms int64) Window {
	offset := p.offset(ms)
	start := ms - remainder(ms+offset, p.length)
	end := start + p.length
	if p.offset(start) != offset {
		start = p.change(start, ms)
	}
	if p.offset(end-1) != offset {
		end = p.change(ms, end-1)
	}
	local := start + p.offset(start)
	return Window{start, end, Date((local - remainder(local, dayMS)) / dayMS)}
}

// offset is how far the zone's clock is ahead of UTC, milliseconds.
func (p *Plan) offset(ms int64) int64 {
	_, seconds := time.UnixMilli(ms).In(p.zone).Zone()
	return int64(seconds) * 1000
}

// change returns the first moment after one, and at most another, at which the clock differs from
// UTC by another offset than at the one. Zones change their clocks once in a day at most.
func (p *Plan) change(before, after int64) int64 {
	old := p.offset(before)
	for after-before > 1 {
		if middle := before + (after-before)/2; p.offset(middle) == old {
			before = middle
		} else {
			after = middle
		}
	}
	return after
}

func remainder(a, b int64) int64 {
	if r := a % b; r < 0 {
		return r + b
	}
	return a % b
}

// Windows returns the windows that start on a day, in the order of time. Each window starts where
// the one before ends. Where a clock was put back from shortly after midnight to the evening
// before, as in St John's until 2011, the windows of the later day have a gap.
func (p *Plan) Windows(day Date) (all []Window) {
	from, to := int64(day)*dayMS-reachMS, int64(day+1)*dayMS+reachMS
	for w := p.At(from); w.StartMS < to; w = p.At(w.EndMS) {
		if w.Day == day {
			all = append(all, w)
		}
	}
	return all
}

// Index returns the place of the window that starts at a time among the windows of its day, as
// Windows lists them, and whether it is there.
func Index(day []Window, startMS int64) (at int, ok bool) {
	return slices.BinarySearchFunc(day, startMS, func(w Window, ms int64) int {
		return cmp.Compare(w.StartMS, ms)
	})
}

// maxDays bounds the memory of Between: 400 days of windows of a minute take 14 MB.
const maxDays = 400

// Between returns the windows of the days from first to last, one list for each day. A day that the
// zone's calendar leaves out, such as 2011-12-30 in Samoa, has none.
func (p *Plan) Between(first, last Date) ([][]Window, error) {
	if last < first {
		return nil, errors.New("the last day is before the first")
	}
	if last-first >= maxDays {
		return nil, fmt.Errorf("%d days are more than %d", last-first+1, maxDays)
	}
	var all [][]Window
	for day := first; day <= last; day++ {
		if windows := p.Windows(day); len(windows) > 0 {
			all = append(all, windows)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the calendar of %s has no %v", p.name, first)
	}
	return all, nil
}
