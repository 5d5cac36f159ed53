package cli

import "testing"

func TestMetres(t *testing.T) {
	for m, want := range map[float64]string{
		0: "0 m", 999.6: "1000 m", 10_000: "10.0 km", 123_456: "123.5 km",
	} {
		if got := Metres(m); got != want {
			t.Errorf("%g is %q, want %q", m, got, want)
		}
	}
}
