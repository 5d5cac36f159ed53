package cli

import (
	"testing"
	"time"
)

func TestMetres(t *testing.T) {
	for m, want := range map[float64]string{
		0: "0 m", 999.6: "1000 m", 10_000: "10.0 km", 123_456: "123.5 km",
	} {
		if got := Metres(m); got != want {
			t.Errorf("%g is %q, want %q", m, got, want)
		}
	}
}

// TestDuration: what a person reads. Whole numbers of a unit keep it.
func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0 seconds", 250 * time.Millisecond: "0.25 seconds",
		12345 * time.Millisecond: "12.3 seconds", time.Second: "1 second",
		90 * time.Second: "90 seconds", time.Minute: "1 minute",
		59*time.Second + 900*time.Millisecond: "1 minute",
		100*time.Second + time.Millisecond:    "1 minute 40 seconds",
		3599*time.Second + 600*1e6:            "1 hour",
		7205 * time.Second:                    "2 hours",
		24 * time.Hour:                        "24 hours", 36 * time.Hour: "36 hours",
		2 * day: "2 days", 400 * day: "400 days", 25*time.Hour + time.Minute: "1 day 1 hour",
		26_052_285*time.Second + 600*time.Millisecond: "301 days 13 hours",
		2*day - time.Second:                           "2 days",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
