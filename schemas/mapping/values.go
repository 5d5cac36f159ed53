package mapping

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/schemas"
)

// Unit is what a number, or a text, means as a time.
type Unit string

// The units. There is none that guesses: 1700000000 is a time in 2023 in seconds and one in 1970 in
// milliseconds.
const (
	Seconds      Unit = "s" // since 1970; a fraction counts down to a millisecond
	Milliseconds Unit = "ms"
	Microseconds Unit = "us"
	Nanoseconds  Unit = "ns"
	RFC3339      Unit = "rfc3339" // text with a zone, such as 2026-11-21T08:00:00Z

	// ofRaw is that of raw.avsc in JSON: milliseconds, or RFC 3339 text. It is the unit of the
	// field "timestamp" where the options name no other.
	ofRaw Unit = ""
)

// exponents of ten from each unit to a millisecond.
var exponents = map[Unit]int{Seconds: 3, Milliseconds: 0, Microseconds: -3, Nanoseconds: -6}

// The nearest times that schemas.Raw.Validate refuses.
const (
	tooEarly = -1
	tooLate  = 253402300800000 // the year 10000
)

// userOf reads a user id: a text, or a whole number as it is written.
func userOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		text := v.String()
		return text, !strings.ContainsAny(text, ".eE")
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}

// degreesOf reads a coordinate. Numbers in texts are for whoever allows them.
func degreesOf(v any, inText bool) (float64, schemas.Reason) {
	switch v := v.(type) {
	case float64:
		return v, "" // Raw.Validate looks whether it is finite
	case int64:
		return float64(v), ""
	case json.Number, string:
		text, ok := numberText(v, inText)
		if !ok {
			return 0, schemas.ReasonWrongType
		}
		number, err := strconv.ParseFloat(text, 64)
		if math.IsInf(number, 0) {
			return 0, schemas.ReasonNotFinite
		}
		if err != nil {
			return 0, schemas.ReasonWrongType
		}
		return number, ""
	}
	return 0, schemas.ReasonWrongType
}

// numberText returns the digits of a number, or of a text that holds one and nothing else.
func numberText(v any, inText bool) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		// Digits alone: ParseFloat would take "inf", "0x10" and "1_0" too.
		return v, inText && v != "" && strings.Trim(v, "0123456789+-.eE") == ""
	}
	return "", false
}

// millisOf reads a time, rounded down to a millisecond. One that is too large for the number or
// negative is one that Raw.Validate refuses.
func millisOf(v any, unit Unit, inText bool) (int64, schemas.Reason) {
	text, isText := v.(string)
	if unit == RFC3339 || unit == ofRaw && isText {
		ms, ok := parseTime(text)
		if !isText || !ok {
			return 0, schemas.ReasonWrongType
		}
		return ms, ""
	}
	shift := exponents[unit]
	switch v := v.(type) {
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, schemas.ReasonNotFinite
		}
		// The shortest text that is this number: its binary digits would round down to the
		// millisecond before.
		text = strconv.FormatFloat(v, 'e', -1, 64)
	default:
		var ok bool
		if text, ok = numberText(v, inText); !ok {
			return 0, schemas.ReasonWrongType
		}
	}
	ms, ok := scaled(text, shift)
	if !ok {
		return 0, schemas.ReasonWrongType
	}
	return ms, ""
}

// scaled returns the decimal number text · 10^shift, rounded down, exactly: no float64 is on the
// way. What is out of range becomes tooEarly or tooLate.
func scaled(text string, shift int) (int64, bool) {
	mantissa, exponent := text, ""
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa, exponent = text[:at], text[at+1:]
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
	number, err := strconv.ParseInt(digits, 10, 64)
	return min(number, tooLate), err == nil
}

// parseTime reads RFC 3339, and a zone without its colon, as Java writes it by default (+0000).
func parseTime(text string) (ms int64, ok bool) {
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		t, err = time.Parse("2006-01-02T15:04:05Z0700", text)
		if err != nil {
			return 0, false
		}
	}
	return t.UnixMilli(), true
}
