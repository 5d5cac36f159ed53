package tune

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/law"
)

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

func TestEpsilonDay(t *testing.T) {
	s := Setting{Step: time.Minute, Interval: 7 * time.Minute, Epsilon: .5}
	if s.ReleasesDay() != 206 || s.EpsilonDay() != 103 { // 1440/7 = 205.7
		t.Errorf("%d releases, ε %v a day", s.ReleasesDay(), s.EpsilonDay())
	}
}

// TestSolve: the ε of a power law is found exactly.
func TestSolve(t *testing.T) {
	law := func(epsilon float64) float64 { return 3 / epsilon }
	errors := map[float64]float64{1: law(1), 4: law(4), 16: law(16)}
	if epsilon, ok := solve(errors, .6); !ok || epsilon != 5 {
		t.Errorf("ε %v, %v, want 5", epsilon, ok)
	}
	if epsilon, ok := solve(errors, 5); !ok || epsilon != .5 {
		t.Errorf("below the least: %v, %v", epsilon, ok)
	}
	if _, ok := solve(errors, .1); ok {
		t.Error("an error that nothing reaches")
	}
}

func outcome(interval time.Duration, epsilon, median, factor float64) Outcome {
	return Outcome{
		Setting: Setting{
			CellM: 100, Step: time.Minute, Interval: interval, Epsilon: epsilon, Delta: .1,
		}, MedianKM: median, BlindKM: 10, Factor200M: factor,
	}
}

func TestFrontier(t *testing.T) {
	h := time.Hour
	all := []Outcome{
		outcome(h, 8, 2, 0), outcome(h, 1, 9, 0), outcome(h, 4, 3.2, 0), outcome(h, 2, 3, 0),
		outcome(2*h, 4, 2.9, 0), outcome(h, 16, 2, 0),
	}
	var got []float64
	for _, o := range frontier(all) {
		got = append(got, o.EpsilonDay(), o.MedianKM)
	}
	if want := []float64{24, 9, 48, 2.9, 192, 2}; !slices.Equal(got, want) {
		t.Errorf("frontier %v, want %v", got, want)
	}
}

// TestNear: what is far above the least error at its cost is not measured again, nor what is no
// better than nothing.
func TestNear(t *testing.T) {
	h := time.Hour
	got := near(
		[]Outcome{
			outcome(h, 1, 9.9, 0), outcome(h, 2, 5, 0), outcome(h, 4, 5.5, 0),
			outcome(h, 8, 6.5, 0), outcome(h, 16, 4, 0),
		}, 60,
	)
	var epsilons []float64
	for _, s := range got {
		epsilons = append(epsilons, s.Epsilon)
	}
	if want := []float64{2, 4, 16}; !slices.Equal(epsilons, want) {
		t.Errorf("ε %v, want %v", epsilons, want)
	}
}

// TestChoose: the cheapest that reaches an error, or the best that keeps an ε; of what is about as
// good, the one that tells near places apart least.
func TestChoose(t *testing.T) {
	h := time.Hour
	measured := []Outcome{
		outcome(h, 1, 5, 2), outcome(h, 4, 2, 900), outcome(h, 4.2, 1.95, 3),
		outcome(h, 8, 1.9, 1.5),
	}
	for _, c := range []struct {
		o    Options
		want float64
	}{
		{Options{TargetKM: 2}, 4.2},
		{Options{TargetKM: 1.91}, 8},
		{Options{TargetKM: 1}, 0},
		{Options{TargetEpsilonDay: 97}, 4},
		{Options{TargetEpsilonDay: 192}, 8},
		{Options{TargetEpsilonDay: 10}, 0},
		{Options{}, 0},
		{Options{TargetEpsilonDay: 97, MostFactor200M: 100}, 1},
	} {
		s := &search{lab: lab{options: c.o}, Result: Result{Measured: measured}}
		got := 0.
		if chosen := s.choose(measured); chosen != nil {
			got = chosen.Epsilon
		}
		if got != c.want {
			t.Errorf("%+v: ε %v, want %v", c.o, got, c.want)
		}
	}
}

// TestReleases: a codebook is tried once an ε, lattice with each δ, which are those given or
// depend on ε.
func TestReleases(t *testing.T) {
	o := Options{Mechanisms: []string{law.Codebook, law.Lattice}, Epsilons: []float64{2, 4}}
	for _, c := range []struct {
		deltas []float64
		want   []Setting
	}{
		{nil, []Setting{
			{Mechanism: law.Codebook, Epsilon: 2},
			{Mechanism: law.Codebook, Epsilon: 4},
			{Mechanism: law.Lattice, Epsilon: 2, Delta: .01},
			{Mechanism: law.Lattice, Epsilon: 2, Delta: .6},
			{Mechanism: law.Lattice, Epsilon: 4, Delta: .01},
			{Mechanism: law.Lattice, Epsilon: 4, Delta: .3},
		}},
		{[]float64{.1}, []Setting{
			{Mechanism: law.Codebook, Epsilon: 2},
			{Mechanism: law.Codebook, Epsilon: 4},
			{Mechanism: law.Lattice, Epsilon: 2, Delta: .1},
			{Mechanism: law.Lattice, Epsilon: 4, Delta: .1},
		}},
	} {
		o.Deltas = c.deltas
		if got := o.releases(Setting{}); !slices.Equal(got, c.want) {
			t.Errorf("δ %v: %+v, want %+v", c.deltas, got, c.want)
		}
	}
}
