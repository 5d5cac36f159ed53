package schemas

import (
	"math/big"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// FuzzMillis compares times with exact rational numbers.
func FuzzMillis(f *testing.F) {
	for _, text := range []string{"1795248000.123", "1.7E9", "-1", "0.000001", "1e-3", "99999e15"} {
		f.Add(text, uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		unit := TimeUnits()[which%4]
		got, ok := unit.Millis(text)
		if _, err := strconv.ParseFloat(text, 64); len(text) > 30 || !ok || err != nil {
			return
		}
		number, ok := new(big.Rat).SetString(text)
		if !ok {
			return
		}
		ten := new(big.Rat).SetInt64(10)
		for range max(unit.shift(), -unit.shift()) {
			if unit.shift() > 0 {
				number.Mul(number, ten)
			} else {
				number.Quo(number, ten)
			}
		}
		floor := new(big.Int).Div(number.Num(), number.Denom())
		want := int64(lastTimestamp + 1)
		switch {
		case floor.Sign() < 0:
			want = -1
		case floor.Cmp(big.NewInt(lastTimestamp+1)) < 0:
			want = floor.Int64()
		}
		if got != want {
			t.Errorf("%s %s is %d ms, want %d", text, unit, got, want)
		}
	})
}

// rfc3339 is the grammar of RFC 3339, section 5.6. Package time takes more, such as an hour of one
// digit.
var rfc3339 = regexp.MustCompile(
	`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// FuzzTime: what follows the grammar is read as package time reads it, and nothing else is read.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{
		"2023-11-14T22:13:20Z", "2023-11-14T22:13:20.123456+05:30", "2023-11-14T2:13:20Z",
		"1969-12-31T23:59:59.9999-23:59", "0000-02-29T00:00:00Z", "2023-02-29T00:00:00Z",
		"2023-11-14 22:13:20", "2023-11-14T22:13:20,5Z", "2023-11-14T22:13:20+24:00",
		"2023-11-14T22:13:20", "2023-11-14T22:13:20+05:60",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := ParseTime([]byte(text))
		want, err := time.Parse(time.RFC3339Nano, text)
		if reads := rfc3339.MatchString(text) && err == nil; ok != reads ||
			ok && got != want.UnixMilli() {
			t.Fatalf("%q: got %d %v, want %d %v", text, got, ok, want.UnixMilli(), err)
		}
	})
}

// Every time has three decimals: pandas refuses a column with some of other forms.
func TestAppendTime(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "1970-01-01T00:00:00.000Z", 1700000000500: "2023-11-14T22:13:20.500Z",
		1700000000123: "2023-11-14T22:13:20.123Z", lastTimestamp: "9999-12-31T23:59:59.999Z",
	} {
		got := string(AppendTime(nil, ms))
		if back, ok := ParseTime([]byte(got)); got != want || !ok || back != ms {
			t.Errorf("%d is %s, read as %d, %t", ms, got, back, ok)
		}
	}
}
