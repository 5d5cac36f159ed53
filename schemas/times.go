package schemas

import (
	"strconv"
	"strings"
	"time"
)

// TimeUnit is what a number, or a text, means as a time.
type TimeUnit string

// The units. There is none that guesses: 1700000000 is a time in 2023 in seconds and one in 1970 in
// milliseconds.
const (
	Seconds      TimeUnit = "s" // since 1970; a fraction counts down to a millisecond
	Milliseconds TimeUnit = "ms"
	Microseconds TimeUnit = "us"
	Nanoseconds  TimeUnit = "ns"
	RFC3339      TimeUnit = "rfc3339" // text with a zone, such as 2026-11-21T08:00:00Z
)

// TimeUnits are all units.
func TimeUnits() []TimeUnit {
	return []TimeUnit{Seconds, Milliseconds, Microseconds, Nanoseconds, RFC3339}
}

// shift is the exponent of ten from the unit to a millisecond.
func (u TimeUnit) shift() int {
	switch u {
	case Seconds:
		return 3
	case Microseconds:
		return -3
	case Nanoseconds:
		return -6
	case Milliseconds, RFC3339: // a text has no such exponent
	}
	return 0
}

// The nearest times that Raw.Validate refuses.
const (
	tooEarly = -1
	tooLate  = lastTimestamp + 1
)

// Millis returns a decimal number of the unit in milliseconds, rounded down, exactly: no float64 is
// on the way. A time that is negative or after 9999 becomes one that Raw.Validate refuses.
func (u TimeUnit) Millis(number string) (int64, bool) {
	shift, mantissa, exponent := u.shift(), number, ""
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		mantissa, exponent = number[:at], number[at+1:]
		power, err := strconv.ParseInt(exponent, 10, 16)
		if err != nil {
			return 0, false
		}
		shift += int(power)
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	if !negative {
		mantissa = strings.TrimPrefix(mantissa, "+")
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if whole == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	point := len(whole) + shift // so many digits stand before the point
	digits = strings.TrimLeft(digits, "0")
	point -= len(whole) + len(fraction) - len(digits)
	const longest = 18 // digits of an int64 that is in range whatever they are
	switch {
	case digits == "":
		return 0, true
	case negative:
		return tooEarly, true
	case point > longest:
		return tooLate, true
	case point <= 0:
		return 0, true
	case point < len(digits):
		digits = digits[:point]
	default:
		digits += strings.Repeat("0", point-len(digits))
	}
	ms, err := strconv.ParseInt(digits, 10, 64)
	return min(ms, tooLate), err == nil
}

// ParseTime reads a time in RFC 3339, rounded down to a millisecond since 1970. It refuses leap
// seconds, as package time does, and what package time accepts beyond the grammar: a comma in place
// of the point, an hour of one digit, and zones of 24 hours.
func ParseTime(text []byte) (ms int64, ok bool) {
	const seconds = len("2006-01-02T15:04:05")
	n := len(text)
	if n <= seconds || text[13] != ':' || text[seconds] == ',' {
		return 0, false
	}
	if text[n-1] != 'Z' && (n < seconds+6 || string(text[n-5:n-3]) > "23" ||
		string(text[n-2:]) > "59") {
		return 0, false
	}
	var t time.Time
	err := t.UnmarshalText(text)
	return t.UnixMilli(), err == nil
}

// AppendTime appends a time in milliseconds since 1970 as RFC 3339 in UTC. It always has three
// decimals of a second: some readers refuse a column that mixes times with and without.
func AppendTime(dst []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
}
