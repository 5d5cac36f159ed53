package mobility

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Calendar sorts steps into classes by public time alone: by parts of the day, and by working days
// and weekends. A model has one matrix for each class. The zero value has a single class.
type Calendar struct {
	// UTCOffset is the map's local time minus UTC, the same all year. Whole minutes.
	UTCOffset time.Duration `json:"utc_offset_ns"`
	// Hours are the local hours, 0 to 23 and ascending, at which the parts of the day start. The
	// last part lasts until the first hour of the next day. With fewer than two hours, days have no
	// parts.
	Hours []int `json:"hours"`
	// Weekend gives Saturdays and Sundays classes of their own.
	Weekend bool `json:"weekend"`
}

// parts returns how many parts a day has.
func (c Calendar) parts() int { return max(1, len(c.Hours)) }

// Classes returns the number of classes, at least 1.
func (c Calendar) Classes() int {
	if c.Weekend {
		return 2 * c.parts()
	}
	return c.parts()
}

// ClassAt returns the class of a time in milliseconds since 1970. The parts of working days come
// first, in order of Hours, then the parts of weekends.
func (c Calendar) ClassAt(timestampMS int64) int {
	local := time.UnixMilli(timestampMS).UTC().Add(c.UTCOffset)
	class := 0
	if len(c.Hours) > 1 {
		after, _ := slices.BinarySearch(c.Hours, local.Hour()+1)
		class = (after - 1 + len(c.Hours)) % len(c.Hours)
	}
	if day := local.Weekday(); c.Weekend && (day == time.Saturday || day == time.Sunday) {
		class += c.parts()
	}
	return class
}

// ClassName returns a class in words, such as "working days, 6 to 20 h".
func (c Calendar) ClassName(class int) string {
	var words []string
	if c.Weekend {
		words = append(words, [...]string{"working days", "weekends"}[class/c.parts()])
	}
	if c.parts() > 1 {
		part := class % c.parts()
		words = append(words, fmt.Sprintf("%d to %d h", c.Hours[part], c.Hours[(part+1)%c.parts()]))
	}
	if len(words) == 0 {
		return "always"
	}
	return strings.Join(words, ", ")
}

// Validate returns an error if c is not a valid calendar.
func (c Calendar) Validate() error {
	if c.UTCOffset%time.Minute != 0 || c.UTCOffset < -15*time.Hour || c.UTCOffset > 15*time.Hour {
		return errors.New("mobility: the calendar's offset must be whole minutes, at most 15 hours")
	}
	if len(c.Hours) == 1 {
		return errors.New("mobility: a day needs two parts or none, such as 6,20")
	}
	for i, hour := range c.Hours {
		if hour < 0 || hour > 23 || i > 0 && hour <= c.Hours[i-1] {
			return errors.New("mobility: the calendar's hours must be 0 to 23, ascending")
		}
	}
	return nil
}

// String returns c as text. Equal calendars have the same text.
func (c Calendar) String() string {
	if c.Classes() == 1 {
		return "always"
	}
	hours := strings.Trim(fmt.Sprint(c.Hours), "[]")
	return fmt.Sprintf("utc%+dm hours=%s weekend=%t", int(c.UTCOffset.Minutes()),
		strings.ReplaceAll(hours, " ", ","), c.Weekend)
}
