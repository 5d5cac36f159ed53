package noise

import (
	"fmt"
	"time"
)

// Day is a day in UTC, counted from 1970-01-01, which is day 0. A key has a noise key of its own
// for each day, so that the noise keys of past days can be destroyed. Day 0 also stands for
// everything before it, LastDay for everything after it.
type Day int32

// dayBits is the height of the tree of days, and LastDay its last leaf: 2²¹ days are some 5,700
// years.
const dayBits = 21

// LastDay is 7711-10-22. A step that begins later is on this day too.
const LastDay Day = 1<<dayBits - 1

const (
	dayMS     = 24 * 60 * 60 * 1000
	dayLayout = time.DateOnly
)

// DayAt returns the day of a time in Unix milliseconds. Any time has one.
func DayAt(unixMS int64) Day {
	return Day(min(max(unixMS, 0)/dayMS, int64(LastDay)))
}

// ParseDay reads a day such as 2026-11-21.
func ParseDay(text string) (Day, error) {
	at, err := time.Parse(dayLayout, text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a day: write it as 2026-11-21, in UTC", text)
	}
	day := DayAt(at.UnixMilli())
	if !at.Equal(day.Start()) {
		return 0, fmt.Errorf("the day %s is out of range: choose one from %v to %v", text, Day(0), LastDay)
	}
	return day, nil
}

// Start returns the moment at which the day begins.
func (d Day) Start() time.Time { return time.UnixMilli(int64(d) * dayMS).UTC() }

// String returns the day as 2026-11-21.
func (d Day) String() string { return d.Start().Format(dayLayout) }
