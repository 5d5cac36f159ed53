package mapping

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/geodither/geodither/schemas"
)

func TestMillis(t *testing.T) {
	wrong := schemas.ReasonWrongType
	for _, c := range []struct {
		value  any
		unit   schemas.TimeUnit
		inText bool
		want   int64
		reason schemas.Reason
	}{
		{json.Number("1795248000"), schemas.Seconds, false, 1795248000000, ""},
		// As a float64 this is 1795248000.1229999...
		{json.Number("1795248000.123"), schemas.Seconds, false, 1795248000123, ""},
		{1795248000.123, schemas.Seconds, false, 1795248000123, ""},
		{json.Number("1795248000.1239"), schemas.Seconds, false, 1795248000123, ""},
		// Java writes a double so.
		{json.Number("1.795248000123E9"), schemas.Seconds, false, 1795248000123, ""},
		{json.Number("1795248000123"), schemas.Milliseconds, false, 1795248000123, ""},
		{int64(1795248000123), schemas.Milliseconds, false, 1795248000123, ""},
		{json.Number("1795248000123999"), schemas.Microseconds, false, 1795248000123, ""},
		{int64(1795248000123999999), schemas.Nanoseconds, false, 1795248000123, ""},
		{"1795248000", schemas.Seconds, true, 1795248000000, ""},
		{"1795248000", schemas.Seconds, false, 0, wrong},
		{"", schemas.Seconds, true, 0, wrong},
		{"0x10", schemas.Seconds, true, 0, wrong},
		{"1e", schemas.Seconds, true, 0, wrong},
		{"1.2.3", schemas.Seconds, true, 0, wrong},
		{"--1", schemas.Seconds, true, 0, wrong},
		{"2026-11-21T08:00:00.5Z", schemas.RFC3339, false, 1795248000500, ""},
		{"2026-11-21T09:00:00+01:00", schemas.RFC3339, false, 1795248000000, ""},
		{"2026-11-21T09:00:00+0100", schemas.RFC3339, false, 1795248000000, ""},
		{"2026-11-21 08:00:00", schemas.RFC3339, false, 0, wrong},
		{"2026-11-21T08:00:00", schemas.RFC3339, false, 0, wrong},
		{json.Number("1795248000"), schemas.RFC3339, false, 0, wrong},
		{"2026-11-21T08:00:00Z", schemas.Seconds, true, 0, wrong},
		{true, schemas.Seconds, true, 0, wrong},
		{[]any{}, schemas.Milliseconds, true, 0, wrong},
		{json.Number("-0"), schemas.Seconds, false, 0, ""},
		{json.Number("-5"), schemas.Seconds, false, -1, ""},
		{json.Number("1e400"), schemas.Seconds, false, 253402300800000, ""},
		{json.Number("1e-400"), schemas.Seconds, false, 0, ""},
		{json.Number("1e99999999"), schemas.Seconds, false, 0, wrong},
		{json.Number("99999999999999999999999"), schemas.Milliseconds, false, 253402300800000, ""},
		{math.NaN(), schemas.Seconds, false, 0, schemas.ReasonNotFinite},
		{int64(math.MaxInt64), schemas.Seconds, false, 253402300800000, ""},
		{int64(math.MinInt64), schemas.Milliseconds, false, -1, ""},
		{json.Number("1795248000123"), ofRaw, false, 1795248000123, ""},
		{"2026-11-21T08:00:00Z", ofRaw, false, 1795248000000, ""},
		{"1795248000123", ofRaw, true, 0, wrong},
	} {
		got, reason := millisOf(c.value, c.unit, c.inText)
		if got != c.want || reason != c.reason {
			t.Errorf("%v in %s: %d, %q; want %d, %q", c.value, c.unit, got, reason, c.want,
				c.reason)
		}
	}
}

func TestDegrees(t *testing.T) {
	for _, c := range []struct {
		value  any
		inText bool
		want   float64
		reason schemas.Reason
	}{
		{json.Number("53.40718281828459"), false, 53.40718281828459, ""},
		{int64(-3), false, -3, ""},
		{-2.5, false, -2.5, ""},
		{"53.4", true, 53.4, ""},
		{"53.4", false, 0, schemas.ReasonWrongType},
		{"inf", true, 0, schemas.ReasonWrongType},
		{"0x1p-2", true, 0, schemas.ReasonWrongType},
		{"NaN", true, 0, schemas.ReasonWrongType},
		{" 53", true, 0, schemas.ReasonWrongType},
		{"1_0", true, 0, schemas.ReasonWrongType},
		{"-", true, 0, schemas.ReasonWrongType},
		{json.Number("1e999"), false, 0, schemas.ReasonNotFinite},
		{nil, true, 0, schemas.ReasonWrongType},
		{true, true, 0, schemas.ReasonWrongType},
	} {
		got, reason := degreesOf(c.value, c.inText)
		if got != c.want || reason != c.reason {
			t.Errorf("%v: %v, %q; want %v, %q", c.value, got, reason, c.want, c.reason)
		}
	}
}

// TestTimesAreExact: a millisecond in seconds, micro- and nanoseconds is the same millisecond.
func TestTimesAreExact(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).UnixMilli()
	for ms := at; ms < at+1000; ms++ {
		for unit, value := range map[schemas.TimeUnit]any{
			schemas.Seconds: float64(ms) / 1000, schemas.Milliseconds: ms, schemas.Microseconds: ms * 1000,
			schemas.Nanoseconds: ms*1e6 + 999_999,
			schemas.RFC3339:     time.UnixMilli(ms).UTC().Format(time.RFC3339Nano),
		} {
			if got, reason := millisOf(value, unit, false); got != ms || reason != "" {
				t.Fatalf("%v %s is %d, %q; want %d", value, unit, got, reason, ms)
			}
		}
	}
}
