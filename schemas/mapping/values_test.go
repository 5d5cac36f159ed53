package mapping

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/geodither/geodither/schemas"
)

func TestMillis(t *testing.T) {
	wrong := schemas.ReasonWrongType
	for _, c := range []struct {
		value  any
		unit   Unit
		inText bool
		want   int64
		reason schemas.Reason
	}{
		{json.Number("1795248000"), Seconds, false, 1795248000000, ""},
		// As a float64 this is 1795248000.1229999...
		{json.Number("1795248000.123"), Seconds, false, 1795248000123, ""},
		{1795248000.123, Seconds, false, 1795248000123, ""},
		{json.Number("1795248000.1239"), Seconds, false, 1795248000123, ""},
		{json.Number("1.795248000123E9"), Seconds, false, 1795248000123, ""}, // Java's double
		{json.Number("1795248000123"), Milliseconds, false, 1795248000123, ""},
		{int64(1795248000123), Milliseconds, false, 1795248000123, ""},
		{json.Number("1795248000123999"), Microseconds, false, 1795248000123, ""},
		{int64(1795248000123999999), Nanoseconds, false, 1795248000123, ""},
		{"1795248000", Seconds, true, 1795248000000, ""},
		{"1795248000", Seconds, false, 0, wrong},
		{"", Seconds, true, 0, wrong},
		{"0x10", Seconds, true, 0, wrong},
		{"1e", Seconds, true, 0, wrong},
		{"1.2.3", Seconds, true, 0, wrong},
		{"--1", Seconds, true, 0, wrong},
		{"2026-11-21T08:00:00.5Z", RFC3339, false, 1795248000500, ""},
		{"2026-11-21T09:00:00+01:00", RFC3339, false, 1795248000000, ""},
		{"2026-11-21T09:00:00+0100", RFC3339, false, 1795248000000, ""},
		{"2026-11-21 08:00:00", RFC3339, false, 0, wrong},
		{"2026-11-21T08:00:00", RFC3339, false, 0, wrong},
		{json.Number("1795248000"), RFC3339, false, 0, wrong},
		{"2026-11-21T08:00:00Z", Seconds, true, 0, wrong},
		{true, Seconds, true, 0, wrong},
		{[]any{}, Milliseconds, true, 0, wrong},
		{json.Number("-0"), Seconds, false, 0, ""},
		{json.Number("-5"), Seconds, false, tooEarly, ""},
		{json.Number("1e400"), Seconds, false, tooLate, ""},
		{json.Number("1e-400"), Seconds, false, 0, ""},
		{json.Number("1e99999999"), Seconds, false, 0, wrong},
		{json.Number("99999999999999999999999"), Milliseconds, false, tooLate, ""},
		{math.NaN(), Seconds, false, 0, schemas.ReasonNotFinite},
		{int64(math.MaxInt64), Seconds, false, tooLate, ""},
		{int64(math.MinInt64), Milliseconds, false, tooEarly, ""},
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

// FuzzMillis compares times with exact rational numbers.
func FuzzMillis(f *testing.F) {
	for _, text := range []string{"1795248000.123", "1.7E9", "-1", "0.000001", "1e-3", "99999e15"} {
		f.Add(text, int8(3))
	}
	f.Fuzz(func(t *testing.T, text string, shift int8) {
		shift %= 7
		got, ok := scaled(text, int(shift))
		if _, err := strconv.ParseFloat(text, 64); len(text) > 30 || !ok || err != nil {
			return
		}
		number, ok := new(big.Rat).SetString(text)
		if !ok {
			return
		}
		ten := new(big.Rat).SetInt64(10)
		for range max(shift, -shift) {
			if shift > 0 {
				number.Mul(number, ten)
			} else {
				number.Quo(number, ten)
			}
		}
		floor := new(big.Int).Div(number.Num(), number.Denom())
		want := int64(tooLate)
		switch {
		case floor.Sign() < 0:
			want = tooEarly
		case floor.Cmp(big.NewInt(tooLate)) < 0:
			want = floor.Int64()
		}
		if got != want {
			t.Errorf("%s · 10^%d is %d, want %d", text, shift, got, want)
		}
	})
}

// TestTimesAreExact: a millisecond in seconds, micro- and nanoseconds is the same millisecond.
func TestTimesAreExact(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).UnixMilli()
	for ms := at; ms < at+1000; ms++ {
		for unit, value := range map[Unit]any{
			Seconds: float64(ms) / 1000, Milliseconds: ms, Microseconds: ms * 1000,
			Nanoseconds: ms*1e6 + 999_999,
			RFC3339:     time.UnixMilli(ms).UTC().Format(time.RFC3339Nano),
		} {
			if got, reason := millisOf(value, unit, false); got != ms || reason != "" {
				t.Fatalf("%v %s is %d, %q; want %d", value, unit, got, reason, ms)
			}
		}
	}
}
