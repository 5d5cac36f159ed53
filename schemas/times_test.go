package schemas

import (
	"math/big"
	"strconv"
	"testing"
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
