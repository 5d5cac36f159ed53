package hours

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// weekNames are the days in the order of a working week.
var weekNames = [weekDays]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// nameDay is the weekday at a place of weekNames.
func nameDay(i int) time.Weekday { return time.Weekday((i + 1) % weekDays) }

// ParseDays reads days and ranges of days, such as "mon-fri" or "mon,wed,sat-sun". A range may go
// over the end of a week: fri-mon is four days. Empty text means every day.
func ParseDays(text string) (days Days, err error) {
	if text == "" {
		return everyDay, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "-")
		if !isRange {
			last = first
		}
		i, j := dayIndex(first), dayIndex(last)
		if i < 0 || j < 0 {
			return 0, fmt.Errorf("%q is no day: write mon-fri, or mon,wed,sat-sun", text)
		}
		for ; ; i = (i + 1) % weekDays {
			days |= 1 << nameDay(i)
			if i == j {
				break
			}
		}
	}
	return days, nil
}

func dayIndex(name string) int {
	for i, known := range weekNames {
		if strings.TrimSpace(name) == known {
			return i
		}
	}
	return -1
}

// String returns the days as ParseDays reads them, the same text for the same days.
func (d Days) String() string {
	var parts []string
	for i := 0; i < weekDays; i++ {
		if !d.Has(nameDay(i)) {
			continue
		}
		first := i
		for i+1 < weekDays && d.Has(nameDay(i+1)) {
			i++
		}
		switch part := weekNames[first]; i - first {
		case 0:
			parts = append(parts, part)
		case 1:
			parts = append(parts, part, weekNames[i])
		default:
			parts = append(parts, part+"-"+weekNames[i])
		}
	}
	return strings.Join(parts, ",")
}

// ParseClock reads a time of the day, such as 06:00 or 24:00, as minutes after midnight.
func ParseClock(text string) (minutes int, err error) {
	hour, minute, ok := strings.Cut(text, ":")
	h, errHour := strconv.ParseUint(hour, 10, 8)
	m, errMinute := strconv.ParseUint(minute, 10, 8)
	minutes = int(60*h + m)
	if !ok || errHour != nil || errMinute != nil || len(hour) > 2 || len(minute) != 2 || m > 59 ||
		minutes > day {
		return 0, fmt.Errorf("%q is no time: write 06:00 or 24:00", text)
	}
	return minutes, nil
}

// String returns the span in words, such as "mon-fri 06:00-18:00 Europe/London". Equal spans have
// the same text.
func (s Span) String() string {
	return fmt.Sprintf("%s %s-%s %s", s.Days, clock(s.From), clock(s.To), s.Zone)
}
