package tune

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

func trainFix(ms int64) train.Fix {
	return train.Fix{User: "ann", TimeMS: ms, Lat: 10.01, Lon: 20.01}
}

func TestDecimals(t *testing.T) {
	for _, c := range []struct {
		x        float64
		down, up float64
	}{
		{1.234, 1.2, 1.3},
		{12.5, 12, 13},
		{.0678, .067, .068},
		{1999, 1900, 2000},
		{4, 4, 4},
		{.3, .3, .3},
		{8.1, 8.1, 8.1},
	} {
		if down, up := decimals(c.x, math.Floor), decimals(c.x, math.Ceil); down != c.down ||
			up != c.up {
			t.Errorf("%v: %v and %v, want %v and %v", c.x, down, up, c.down, c.up)
		}
	}
}

// TestPlans: at any Σε a day, plans spend nearly all of it and no more, in releases that last for
// the time that they are spread over; a short day has shorter intervals.
func TestPlans(t *testing.T) {
	lengths := []time.Duration{day, 8 * time.Hour, 47 * time.Minute}
	for _, epsilon := range []float64{5, 10, 20, 33, 40, 80, 1000} {
		s := Setting{Mechanism: law.Codebook, CellM: 500, Step: time.Minute, DayEpsilon: epsilon}
		plans := s.plans(lengths)
		shortest := day
		for _, p := range plans {
			spent := float64(p.ReleasesDay()) * p.Epsilon
			if spent > epsilon+1e-9 || spent < .88*epsilon || p.Interval%p.Step != 0 ||
				law.ValidateEpsilon(p.Epsilon) != nil {
				t.Errorf("Σε = %v: %v spends %v", epsilon, p, spent)
			}
			if lasts := p.Interval * time.Duration(p.ReleasesDay()); lasts < 47*time.Minute {
				t.Errorf("Σε = %v: %v lasts for %v", epsilon, p, lasts)
			}
			shortest = min(shortest, p.Interval)
		}
		if len(plans) < 2 || len(plans) > 9 || shortest > 48*time.Minute {
			t.Errorf("Σε = %v: %d plans, a release every %v at most", epsilon, len(plans), shortest)
		}
	}
	for _, p := range (Setting{Step: time.Minute, DayEpsilon: 20}).plans([]time.Duration{day}) {
		if p.Epsilon < 4 {
			t.Errorf("ε = %v is too small for its price", p.Epsilon)
		}
	}
}

// TestDays: a day is one unit whatever gaps it has, and starts at four by the local time.
func TestDays(t *testing.T) {
	const hour = 3_600_000
	o := Options{Box: box, Step: time.Minute} // 20° E: one hour ahead of UTC
	f := NewFixes(o)
	for _, at := range []int64{4, 5, 12, 26, 27, 28} {
		f.Add(trainFix(at * hour))
	}
	f.Add(trainFix(3*hour - 1))
	days := f.days(0, "ann", (o.local() - dayStarts).Milliseconds())
	var sizes []int
	for _, d := range days {
		sizes = append(sizes, len(d.fixes))
	}
	if want := []int{1, 4, 2}; !slices.Equal(sizes, want) {
		t.Errorf("days of %v fixes, want %v", sizes, want)
	}
	if got := lengths(days, time.Minute); !slices.Equal(got,
		[]time.Duration{day, 22 * time.Hour, 4 * time.Minute}) {
		t.Errorf("lengths %v", got)
	}
	// Two bins of the traces may lie in one step of the model.
	f = NewFixes(Options{Box: box})
	for i := range int64(20) {
		f.Add(trainFix(5*hour + i*30_000))
	}
	half := f.days(0, "ann", 0)
	if got := lengths(half, time.Minute); len(half) != 1 || half[0].bins != 20 ||
		!slices.Equal(got, []time.Duration{day, 10 * time.Minute, 10 * time.Minute}) {
		t.Errorf("%d bins of half a minute are lengths %v", half[0].bins, got)
	}
}
