// Package hours says at which moments a weekly plan in local time is open: "mon-fri 06:00-18:00
// Europe/London". The rules of all time zones are part of the package, so the same moment is open
// on every machine.
package hours

import (
	"errors"
	"fmt"
	"time"
)

const (
	day       = 24 * 60        // minutes
	quarterMS = 15 * minuteMS  // of an hour, milliseconds
	minuteMS  = 60 * 1000      // milliseconds
	dayMS     = day * minuteMS // milliseconds
	firstDay  = time.Thursday  // of 1970
	weekDays  = 7
	maxSpans  = 50 // bounds the work of one step
	everyDay  = Days(1<<weekDays - 1)
)

// Days is a set of days of the week: bit d is time.Weekday d.
type Days uint8

// Has says whether a day is in the set.
func (d Days) Has(day time.Weekday) bool { return d>>day&1 != 0 }

// Span is a stretch of local time that recurs every week.
//
// The wall clock decides, minute by minute. In the hour that a clock shows twice in autumn both
// passes are inside or both outside, and the hour that it leaves out in spring does not occur.
type Span struct {
	// Days are the days on which the stretch starts.
	Days Days
	// From and To are minutes after midnight, From inclusive and To exclusive: From is at most
	// 23:59 and To at most 24:00. Where From is later than To, the stretch ends on the next day.
	// They differ.
	From, To int
	// Zone is a name of the IANA time zone database, such as Europe/London or UTC.
	Zone string
}

// Hours are the stretches of a plan. A nil *Hours is always open. Any number of goroutines may
// use one.
type Hours struct{ spans []span }

// span is a Span with its zone's rules.
type span struct {
	days     Days
	from, to int // to is above from, and above 24:00 where it is on the next day
	zone     *time.Location
}

// New returns the plan of some spans, nil for none. It costs reading the zones' rules, some 100 µs.
func New(spans []Span) (*Hours, error) {
	if len(spans) == 0 {
		return nil, nil
	}
	if len(spans) > maxSpans {
		return nil, fmt.Errorf("%d entries of hours are more than %d", len(spans), maxSpans)
	}
	h, errs := &Hours{make([]span, len(spans))}, make([]error, len(spans))
	for i, s := range spans {
		var err error
		if h.spans[i], err = s.compile(); err != nil {
			errs[i] = fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h, nil
}

func (s Span) compile() (span, error) {
	switch {
	case s.Days == 0 || s.Days&^everyDay != 0:
		return span{}, errors.New("it has no days, such as mon-fri")
	case s.From < 0 || s.From >= day || s.To < 0 || s.To > day:
		return span{}, errors.New("from is not 00:00 to 23:59, or to not 00:00 to 24:00")
	case s.From == s.To:
		return span{}, fmt.Errorf("from and to are both %s: a day is 00:00 to 24:00", clock(s.From))
	}
	zone, err := Zone(s.Zone)
	if s.To < s.From {
		s.To += day
	}
	return span{s.Days, s.From, s.To, zone}, err
}

func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// Open says whether a moment, in milliseconds since 1970, lies in one of the stretches. It does not
// allocate and costs one look at a zone's rules for each entry, some 100 ns.
func (h *Hours) Open(ms int64) bool {
	if h == nil {
		return true
	}
	for i := range h.spans {
		if h.spans[i].holds(ms) {
			return true
		}
	}
	return false
}

func (s *span) holds(ms int64) bool {
	today, left := divide(ms, dayMS)
	_, offset := time.UnixMilli(ms).In(s.zone).Zone() // seconds, less than two days
	shift, left := divide(left+int64(offset)*1000, dayMS)
	today += shift
	minute := int(left / minuteMS)
	return s.days.Has(weekday(today)) && s.from <= minute && minute < s.to ||
		s.days.Has(weekday(today-1)) && minute+day < s.to
}

// divide returns quotient and remainder, which is not negative.
func divide(a, b int64) (quotient, remainder int64) {
	quotient, remainder = a/b, a%b
	if remainder < 0 {
		quotient, remainder = quotient-1, remainder+b
	}
	return quotient, remainder
}

// weekday is that of a day, which is numbered from 1970 on.
func weekday(number int64) time.Weekday {
	_, left := divide(number+int64(firstDay), weekDays)
	return time.Weekday(left)
}
