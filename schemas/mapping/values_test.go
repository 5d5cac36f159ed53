package mapping

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/geodither/geodither/schemas"
)

// TestScaled: a decimal of Debezium is a number wherever a number is, in Avro and in JSON.
func TestScaled(t *testing.T) {
	decimal := func(scale, value any) map[string]any {
		return map[string]any{"scale": scale, "value": value}
	}
	for _, c := range []struct {
		value any
		want  float64
	}{
		{decimal(int64(5), []byte{0x51, 0x8d, 0x4a}), 53.44586},
		{decimal(json.Number("5"), "UY1K"), 53.44586},
		{decimal(int64(4), []byte{0xff, 0x8d, 0xf0}), -2.92},
		{decimal(int64(0), []byte{53}), 53},
		{decimal(int64(-1), []byte{5}), 50},
	} {
		if got, reason := degreesOf(c.value); got != c.want || reason != "" {
			t.Errorf("%v is %v, %s, want %v", c.value, got, reason, c.want)
		}
	}
	for _, wrong := range []any{
		decimal(int64(5), "no base64"), decimal(int64(5), []byte{}), decimal("x", []byte{1}),
		decimal(int64(1<<40), []byte{1}),
		map[string]any{"value": []byte{1}},
	} {
		if got, reason := degreesOf(wrong); reason != schemas.ReasonWrongType {
			t.Errorf("%v is %v, %s", wrong, got, reason)
		}
	}
	ms, reason := millisOf(decimal(int64(3), []byte{0x01, 0x9b, 0, 0, 0, 0}), schemas.Seconds)
	if ms != 0x019b00000000 || reason != "" {
		t.Errorf("the time is %d, %s", ms, reason)
	}
	if user, ok := userOf(decimal(int64(0), []byte{1, 2})); user != "258" || !ok {
		t.Errorf("the user is %q", user)
	}
	if user, ok := userOf(decimal(int64(1), []byte{1, 2})); ok {
		t.Errorf("a user with decimals is %q", user)
	}
}

func TestMillis(t *testing.T) {
	wrong := schemas.ReasonWrongType
	for _, c := range []struct {
		value  any
		unit   schemas.TimeUnit
		want   int64
		reason schemas.Reason
	}{
		{json.Number("1795248000"), schemas.Seconds, 1795248000000, ""},
		// As a float64 this is 1795248000.1229999...
		{json.Number("1795248000.123"), schemas.Seconds, 1795248000123, ""},
		{1795248000.123, schemas.Seconds, 1795248000123, ""},
		{json.Number("1795248000.1239"), schemas.Seconds, 1795248000123, ""},
		// Java writes a double so.
		{json.Number("1.795248000123E9"), schemas.Seconds, 1795248000123, ""},
		{json.Number("1795248000123"), schemas.Milliseconds, 1795248000123, ""},
		{int64(1795248000123), schemas.Milliseconds, 1795248000123, ""},
		{json.Number("1795248000123999"), schemas.Microseconds, 1795248000123, ""},
		{int64(1795248000123999999), schemas.Nanoseconds, 1795248000123, ""},
		{"1795248000", schemas.Seconds, 1795248000000, ""},
		{"", schemas.Seconds, 0, wrong},
		{"0x10", schemas.Seconds, 0, wrong},
		{"1e", schemas.Seconds, 0, wrong},
		{"1.2.3", schemas.Seconds, 0, wrong},
		{"--1", schemas.Seconds, 0, wrong},
		{"2026-11-21T08:00:00.5Z", schemas.RFC3339, 1795248000500, ""},
		{"2026-11-21T09:00:00+01:00", schemas.RFC3339, 1795248000000, ""},
		{"2026-11-21T09:00:00+0100", schemas.RFC3339, 1795248000000, ""},
		{"2026-11-21 08:00:00", schemas.RFC3339, 0, wrong},
		{"2026-11-21T08:00:00", schemas.RFC3339, 0, wrong},
		{json.Number("1795248000"), schemas.RFC3339, 0, wrong},
		{"2026-11-21T08:00:00Z", schemas.Seconds, 0, wrong},
		{true, schemas.Seconds, 0, wrong},
		{[]any{}, schemas.Milliseconds, 0, wrong},
		{json.Number("-0"), schemas.Seconds, 0, ""},
		{json.Number("-5"), schemas.Seconds, -1, ""},
		{json.Number("1e400"), schemas.Seconds, 253402300800000, ""},
		{json.Number("1e-400"), schemas.Seconds, 0, ""},
		{json.Number("1e99999999"), schemas.Seconds, 0, wrong},
		{json.Number("99999999999999999999999"), schemas.Milliseconds, 253402300800000, ""},
		{math.NaN(), schemas.Seconds, 0, schemas.ReasonNotFinite},
		{int64(math.MaxInt64), schemas.Seconds, 253402300800000, ""},
		{int64(math.MinInt64), schemas.Milliseconds, -1, ""},
		{json.Number("1795248000123"), ofRaw, 1795248000123, ""},
		{"2026-11-21T08:00:00Z", ofRaw, 1795248000000, ""},
		{"1795248000123", ofRaw, 0, wrong},
	} {
		got, reason := millisOf(c.value, c.unit)
		if got != c.want || reason != c.reason {
			t.Errorf("%v in %s: %d, %q; want %d, %q", c.value, c.unit, got, reason, c.want,
				c.reason)
		}
	}
}

func TestDegrees(t *testing.T) {
	for _, c := range []struct {
		value  any
		want   float64
		reason schemas.Reason
	}{
		{json.Number("53.40718281828459"), 53.40718281828459, ""},
		{int64(-3), -3, ""},
		{-2.5, -2.5, ""},
		{"53.4", 53.4, ""},
		{"inf", 0, schemas.ReasonWrongType},
		{"0x1p-2", 0, schemas.ReasonWrongType},
		{"NaN", 0, schemas.ReasonWrongType},
		{" 53", 0, schemas.ReasonWrongType},
		{"1_0", 0, schemas.ReasonWrongType},
		{"-", 0, schemas.ReasonWrongType},
		{json.Number("1e999"), 0, schemas.ReasonNotFinite},
		{nil, 0, schemas.ReasonWrongType},
		{true, 0, schemas.ReasonWrongType},
	} {
		got, reason := degreesOf(c.value)
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
			schemas.Seconds: float64(ms) / 1000, schemas.Milliseconds: ms,
			schemas.Microseconds: ms * 1000,
			schemas.Nanoseconds:  ms*1e6 + 999_999,
			schemas.RFC3339:      time.UnixMilli(ms).UTC().Format(time.RFC3339Nano),
		} {
			if got, reason := millisOf(value, unit); got != ms || reason != "" {
				t.Fatalf("%v %s is %d, %q; want %d", value, unit, got, reason, ms)
			}
		}
	}
}
