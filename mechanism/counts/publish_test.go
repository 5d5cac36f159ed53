package counts

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/noise"
)

var someSettings = Settings{Source: "fleet", Edition: 1, Epsilon: 1, PerDay: 8}

func publisher(t *testing.T, seed uint64, z *Zones, s Settings) *Publisher {
	t.Helper()
	p, err := NewPublisher(noise.NewKeyed(noise.KeyFromSeed(seed)), z, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pmf is P(k) of the discrete Laplace law.
func pmf(k int, s Settings) float64 {
	a := math.Exp(-s.Epsilon / float64(s.PerDay))
	return (1 - a) / (1 + a) * math.Pow(a, math.Abs(float64(k)))
}

// TestNoiseLaw: the published numbers of true counts are discrete Laplace around them, by χ² with
// a false alarm in a million (oracle.FalseAlarm) for each law.
func TestNoiseLaw(t *testing.T) {
	z := areas(t, square("a", 0, 1))
	for _, s := range []Settings{
		someSettings,
		{"fleet", 1, .7, 3},
		{"fleet", 1, 3, 1},
	} {
		if broken := noiseBroken(t, z, s, s); broken > 1 {
			t.Errorf("ε = %g, %d a day: χ² is %.2f times its limit", s.Epsilon, s.PerDay, broken)
		}
		other := s
		other.Epsilon *= 1.05
		if noiseBroken(t, z, s, other) <= 1 {
			t.Errorf("ε = %g, %d a day: a law that is off by 5 %% is not noticed", s.Epsilon,
				s.PerDay)
		}
	}
}

func noiseBroken(t *testing.T, z *Zones, drawn, claimed Settings) float64 {
	t.Helper()
	const windows, reach = 40_000, 60
	counts, p := make([]int, 2*reach+1), make([]float64, 2*reach+1)
	for i := range p {
		p[i] = pmf(i-reach, claimed)
	}
	pub, truth, n := publisher(t, 7, z, drawn), []int64{5, 90}, 0
	for i := range int64(windows) {
		out, err := pub.Publish(Window{i * 3600_000, (i + 1) * 3600_000, 0}, truth, nil)
		if err != nil {
			t.Fatal(err)
		}
		for zone, v := range out.Vehicles {
			n++
			if k := v - truth[zone]; k >= -reach && k <= reach {
				counts[k+reach]++
			}
		}
	}
	return oracle.ChiSquare(counts, p, n)
}

// TestRatio: one user more in m counts changes the probability of any publication by at most
// e^{mε/PerDay}, and for PerDay counts that is e^ε: exact ratios of the law.
func TestRatio(t *testing.T) {
	for _, s := range []Settings{someSettings, {"fleet", 1, .3, 5}} {
		worst := 0.0
		for k := -300; k <= 300; k++ {
			worst = max(worst, math.Abs(math.Log(pmf(k, s)/pmf(k-1, s))))
		}
		if all := worst * float64(s.PerDay); all > s.Epsilon*(1+1e-9) || all < s.Epsilon*(1-1e-9) {
			t.Errorf("ε = %g: PerDay counts change the odds by e^%g", s.Epsilon, all)
		}
	}
}

// facts are publications that must not share noise: each differs from the first in one fact.
func facts(t *testing.T) (names []string, all [][]int64) {
	t.Helper()
	a, b := areas(t, square("a", 0, 1)), areas(t, square("b", 0, 1))
	w := Window{3600_000, 7200_000, 0}
	add := func(name string, z *Zones, w Window, change func(*Settings)) {
		s := someSettings
		change(&s)
		p := publisher(t, 7, z, s)
		var noise []int64
		for i := range int64(40) {
			shifted := Window{w.StartMS + i*dayMS, w.EndMS + i*dayMS, w.Day}
			out, err := p.Publish(shifted, []int64{0, 0}, nil)
			if err != nil {
				t.Fatal(err)
			}
			noise = append(noise, out.Vehicles[0])
			if name == "zone" {
				noise[i] = out.Vehicles[1]
			}
		}
		names, all = append(names, name), append(all, noise)
	}
	same := func(*Settings) {}
	add("none", a, w, same)
	add("source", a, w, func(s *Settings) { s.Source = "fleet2" })
	add("edition", a, w, func(s *Settings) { s.Edition = 2 })
	add("start", a, Window{0, 7200_000, 0}, same)
	add("end", a, Window{3600_000, 7200_001, 0}, same)
	add("zone set", b, w, same)
	add("zone", a, w, same)
	add("epsilon", a, w, func(s *Settings) { s.Epsilon = 1.000000001 })
	add("per day", a, w, func(s *Settings) { s.PerDay = 9 })
	return names, all
}

// TestNoNoiseIsShared: two sums never share noise. A false alarm, forty equal draws of two
// independent laws, has a probability below 10⁻⁴⁰.
func TestNoNoiseIsShared(t *testing.T) {
	names, all := facts(t)
	if len(all) != 9 {
		t.Fatalf("there are %d publications", len(all))
	}
	if broken := shared(names, all); broken != "" {
		t.Error(broken)
	}
	// A transcript without a fact gives the noise of the first publication.
	for i := 1; i < len(all); i++ {
		planted := slices.Clone(all)
		planted[i] = all[0]
		if shared(names, planted) == "" {
			t.Errorf("noise that does not depend on the %s is not found", names[i])
		}
	}
}

func shared(names []string, all [][]int64) string {
	for i := range all {
		for j := range i {
			if slices.Equal(all[i], all[j]) {
				return fmt.Sprintf("%s and %s share their noise", names[i], names[j])
			}
		}
	}
	return ""
}

// TestNoiseIgnoresCounts: the noise is no function of the counts, and equal facts give equal bytes.
func TestNoiseIgnoresCounts(t *testing.T) {
	z := areas(t, square("a", 0, 1))
	w := Window{0, 3600_000, 0}
	one, err := publisher(t, 7, z, someSettings).Publish(w, []int64{5, 9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := publisher(t, 7, z, someSettings).Publish(w, []int64{5, 9}, &one.Digest)
	if err != nil || !slices.Equal(again.Vehicles, one.Vehicles) || again.Digest != one.Digest {
		t.Errorf("the same counts give %v, %v", again, err)
	}
	other, err := publisher(t, 7, z, someSettings).Publish(w, []int64{6, 9}, nil)
	if err != nil || other.Vehicles[0] != one.Vehicles[0]+1 ||
		other.Vehicles[1] != one.Vehicles[1] {
		t.Errorf("one user more gives %v, %v", other, err)
	}
	for name, counts := range map[string][]int64{"one more": {6, 9}, "swapped": {9, 5}} {
		_, err := publisher(t, 7, z, someSettings).Publish(w, counts, &one.Digest)
		if !errors.Is(err, ErrChanged) {
			t.Errorf("%s: other counts of a published window give %v", name, err)
		}
	}
	next := someSettings
	next.Edition++
	fresh, err := publisher(t, 7, z, next).Publish(w, []int64{6, 9}, nil)
	if err != nil || fresh.Digest == other.Digest {
		t.Errorf("the next edition has the digest of the one before: %v", err)
	}
	if keyed, err := publisher(t, 8, z, someSettings).Publish(w, []int64{5, 9}, nil); err != nil ||
		keyed.Digest == one.Digest {
		t.Errorf("the digest does not depend on the key: %v", err)
	}
}

// TestNothingButNoisyNumbers: whatever is published of a window follows from its noisy numbers, not
// from the counts behind them.
func TestNothingButNoisyNumbers(t *testing.T) {
	z := areas(t, square("a", 0, 1))
	w := Window{0, 3600_000, 0}
	s := Settings{Source: "fleet", Edition: 1, Epsilon: 1, PerDay: 1}
	of, behind := map[string]string{}, map[string][]int64{}
	compared := 0
	for seed := range uint64(400) {
		counts := []int64{5 + int64(seed%2), 9, 0}[:z.Count()]
		p := publisher(t, seed, z, s)
		out, err := p.Publish(w, counts, nil)
		if err != nil {
			t.Fatal(err)
		}
		out.Digest = Digest{} // of the trusted side
		all := fmt.Sprint(out)
		for _, n := range out.Vehicles {
			low, high := p.Interval(n)
			all += fmt.Sprint(" ", low, high)
		}
		noisy := fmt.Sprint(out.Vehicles)
		if of[noisy] == "" {
			of[noisy], behind[noisy] = all, counts
		}
		if all != of[noisy] {
			t.Fatalf("of the numbers %s, %v is published of %v, and %v of %v", noisy, all, counts,
				of[noisy], behind[noisy])
		}
		if !slices.Equal(counts, behind[noisy]) {
			compared++
		}
	}
	if compared < 50 {
		t.Errorf("other counts had the same noisy numbers %d times", compared)
	}
}

// TestEveryZoneIsPublished: which numbers are published never depends on the counts.
func TestEveryZoneIsPublished(t *testing.T) {
	p := publisher(t, 7, areas(t, square("a", 0, 1), square("b", 1, 2)), someSettings)
	for _, counts := range [][]int64{{0, 0, 0}, {5, 0, 9}} {
		if out, err := p.Publish(Window{0, 3600_000, 0}, counts, nil); err != nil ||
			len(out.Vehicles) != 3 {
			t.Errorf("%v gave %v, %v", counts, out, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a window without a zone is published")
		}
	}()
	_, _ = p.Publish(Window{0, 3600_000, 0}, []int64{5, 9}, nil)
}

// TestDestroyedDayHasNoCounts: a key without a day's noise publishes nothing of it.
func TestDestroyedDayHasNoCounts(t *testing.T) {
	key, err := noise.KeyFromSeed(7).From(20000)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPublisher(noise.NewKeyed(key), areas(t, square("a", 0, 1)), someSettings)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Publish(Window{19999 * dayMS, 19999*dayMS + 1, 0}, []int64{0, 0}, nil)
	if !errors.Is(err, noise.ErrDestroyed) {
		t.Errorf("a destroyed day gives %v", err)
	}
	_, err = p.Publish(Window{20000 * dayMS, 20000*dayMS + 1, 0}, []int64{0, 0}, nil)
	if err != nil {
		t.Error(err)
	}
}

// TestInterval: the least interval that holds 90 % of the law, by summing it up.
func TestInterval(t *testing.T) {
	z := areas(t, square("a", 0, 1))
	for _, s := range []Settings{
		someSettings,
		{"x", 1, 4, 1},
		{"x", 1, 100, 1},
		{"x", 1, .05, 24},
	} {
		p := publisher(t, 7, z, s)
		inside := pmf(0, s)
		least := int64(0)
		for inside < .9 {
			least++
			inside += 2 * pmf(int(least), s)
		}
		if p.HalfWidth() != least {
			t.Errorf("ε = %g, %d a day: ±%d, want ±%d", s.Epsilon, s.PerDay, p.HalfWidth(), least)
		}
	}
	p := publisher(t, 7, z, someSettings)
	if low, high := p.Interval(-30); p.HalfWidth() != 18 || low != 0 || high != 0 {
		t.Errorf("-30 ± %d is %d to %d", p.HalfWidth(), low, high)
	}
	if low, high := p.Interval(30); low != 12 || high != 48 {
		t.Errorf("30 is %d to %d", low, high)
	}
}

// TestIntervalHolds: intervals hold 90 % of the counts that were published, and ones that are
// shorter by one do not. The bounds are five standard deviations away, a false alarm in three
// million.
func TestIntervalHolds(t *testing.T) {
	z := areas(t, square("a", 0, 1))
	for _, s := range []Settings{someSettings, {"fleet", 1, 2, 3}} {
		p, truth := publisher(t, 7, z, s), []int64{0, 90}
		const windows = 40_000
		held, shorter := 0, 0
		for i := range int64(windows) {
			out, err := p.Publish(Window{i * 3600_000, (i + 1) * 3600_000, 0}, truth, nil)
			if err != nil {
				t.Fatal(err)
			}
			for zone, v := range out.Vehicles {
				low, high := p.Interval(v)
				if low <= truth[zone] && truth[zone] <= high {
					held++
				}
				if off := max(v-truth[zone], truth[zone]-v); off < p.HalfWidth() {
					shorter++
				}
			}
		}
		deviation := 5 * math.Sqrt(.9*.1/(2*windows))
		if share := float64(held) / (2 * windows); share < .9-deviation {
			t.Errorf("%+v: %.4f are held", s, share)
		}
		if share := float64(shorter) / (2 * windows); share > .9-deviation {
			t.Errorf("%+v: intervals that are shorter by one hold %.4f, unnoticed", s, share)
		}
	}
}

// TestFarDraws: noise beyond all bounds, which no run will meet, is limited by its result alone.
func TestFarDraws(t *testing.T) {
	for _, v := range []int64{math.MinInt64/2 + 1, -most - 1, -most, 0, most, math.MaxInt64 / 2} {
		if got := clamp(v); got != max(-most, min(v, most)) {
			t.Errorf("%d becomes %d", v, got)
		}
	}
}

func TestSettingsRefuse(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"no source":    func(s *Settings) { s.Source = "" },
		"no edition":   func(s *Settings) { s.Edition = 0 },
		"no epsilon":   func(s *Settings) { s.Epsilon = 0 },
		"negative":     func(s *Settings) { s.Epsilon = -1 },
		"NaN":          func(s *Settings) { s.Epsilon = math.NaN() },
		"ten decimals": func(s *Settings) { s.Epsilon = .1234567891 },
		"no cap":       func(s *Settings) { s.PerDay = 0 },
		"a large cap":  func(s *Settings) { s.PerDay = MaxPerDay + 1 },
	} {
		s := someSettings
		change(&s)
		streams := noise.NewKeyed(noise.KeyFromSeed(7))
		if _, err := NewPublisher(streams, areas(t, square("a", 0, 1)), s); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, epsilon := range []float64{1, .001, .123456789, 100, 2.64} {
		s := someSettings
		s.Epsilon = epsilon
		if got, err := s.billionths(); err != nil || got != uint64(math.Round(epsilon*1e9)) {
			t.Errorf("%g is %d billionths, %v", epsilon, got, err)
		}
	}
}
