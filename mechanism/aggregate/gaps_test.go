package aggregate

import (
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// withGaps is the town with a law of gaps of up to 8 steps.
func withGaps(tb testing.TB) *mobility.Model {
	tb.Helper()
	m := testcase.Town(tb)
	var some [len(mobility.GapMoves)]float64
	some[0], some[2] = .25, .25
	m.Gaps = mobility.GapLaw{
		{Chain: 1}, {Moves: some, Chain: .25, Anew: .25}, {Moves: some, Chain: .25, Anew: .25},
	}
	return m
}

// TestFollowByLaw: over gaps that the law of gaps knows the reader goes on as the service does, and
// finds a lost user again beyond. The law does not count where reports may leave no record.
func TestFollowByLaw(t *testing.T) {
	t.Parallel()
	models := Models{withGaps(t), restless(t, 8, 6), restless(t, 7, 9)}
	for _, test := range []struct {
		name, reports string
		interval      int
		standing      standing
		origin        int64
	}{
		{"within", "5A 7A 13A", 0, followed, 5},
		{"beyond", "5A 14A", 0, followed, 14},
		{"from the chain to the law", "5B 8A", 0, followed, 5},
		{"from the law to the chain", "5A 13A 15B", 0, followed, 5},
		{"to another map", "5C 12A", 0, followed, 5},
		{"lost, within", "5A 6A* 7A 14A", 0, lost, 5},
		{"lost, beyond", "5A 6A* 7A 16A", 0, followed, 16},
		{"records may lack, beyond the chain", "5A 15A", 2, followed, 15},
		{"records may lack, carried over", "5A 8A 11A", 6, followed, 5},
	} {
		for _, name := range []string{law.Lattice, law.Codebook} {
			track, _ := walked(t, models, name, test.reports, test.interval)
			if track.standing != test.standing || track.origin != test.origin {
				t.Errorf("%s, %s: standing %d, origin %d", name, test.name,
					track.standing, track.origin)
			}
		}
	}
}

// TestBlindOverAGap: where the model alone has a user after a gap is what its law says.
func TestBlindOverAGap(t *testing.T) {
	t.Parallel()
	model := withGaps(t)
	v, err := newFilter(model, mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05})
	if err != nil {
		t.Fatal(err)
	}
	for gap, byLaw := range map[int64]bool{1: false, 6: true, 9: false} {
		b, u := newExactFilter(), &user{name: "u"}
		u.filter, u.origin, u.last = v, 5, 5
		if err := b.bridge(u, v, 5+gap); err != nil {
			t.Fatal(err)
		}
		u.last = 5 + gap
		got, err := b.alone(u)
		if err != nil {
			t.Fatal(err)
		}
		var want mobility.Distribution
		p := mobility.NewPredictor(model)
		if !p.PredictGap(&want, &model.Initial, 5, uint64(gap), 0) {
			p.Predict(&want, &model.Initial, 5, int(gap))
		}
		for i, c := range want.Cells {
			if !near(got.At(c), want.P[i], 1e-6) {
				t.Fatalf("gap %d, cell %d: %g, want %g", gap, c, got.At(c), want.P[i])
			}
		}
		if turned := u.turns != (turnsHash{}); turned != byLaw {
			t.Errorf("gap %d: by law %t", gap, turned)
		}
	}
}

// TestArrivesOverAGap: a user's filter that arrives on a map, from another one or after an erasure,
// starts in the step of the record before. Over the gap it goes by the law of gaps, and without a
// law by the chain. The prior and the posterior of a window are the service's.
func TestArrivesOverAGap(t *testing.T) {
	t.Parallel()
	models := Models{withGaps(t), restless(t, 8, 6), restless(t, 7, 9)}
	o := mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05, Prune: -1, MaxGap: 8}
	for _, test := range []struct {
		reports  string
		arrived  int   // model
		origin   int64 // step in which it started
		arrival  int64 // step of the first record after
		last     int64
		byTheLaw bool
	}{
		{"5C 6C 12A", 0, 6, 12, 12, true},
		{"5C 6C 12A 13A", 0, 6, 12, 13, true},
		{"5A 6A !12A", 0, 6, 12, 12, true},
		{"5B 6B !12A 14A", 0, 6, 12, 14, true},
		{"5A 6A !12B", 1, 6, 12, 12, false},
	} {
		records := recordsOf(t, models, o, test.reports)
		windows, counts := collect(t, models, o,
			CollectOptions{WindowSteps: 10, FromMS: 600_000}, records)
		if len(windows) != 1 || counts.Followed != int64(len(records)) {
			t.Fatalf("%s: %d windows, %+v", test.reports, len(windows), counts)
		}
		model := models[test.arrived]
		p := mobility.NewPredictor(model)
		blind, next := &mobility.Distribution{}, &mobility.Distribution{}
		over := func(from *mobility.Distribution, at, to int64) {
			if byLaw := p.PredictGap(next, from, at, uint64(to-at), 0); !byLaw {
				p.Predict(next, from, at, int(to-at))
			} else if !test.byTheLaw {
				t.Fatalf("%s: there is a law", test.reports)
			}
			blind, next = next, blind
		}
		over(&model.Initial, test.origin, test.arrival)
		if test.last > test.arrival {
			over(blind, test.arrival, test.last)
		}
		f := newFollower(t, models, o)
		var track Track
		for _, r := range records {
			if _, err := f.Follow(&track, r); err != nil {
				t.Fatal(err)
			}
		}
		prior, posterior := make([]float64, 48), make([]float64, 48)
		for i, c := range blind.Cells {
			prior[c] = blind.P[i]
		}
		for i, c := range f.state.Posterior.Cells {
			posterior[c] = f.state.Posterior.P[i]
		}
		if d := Variation(windows[0].Fleet().Prior, prior); d > 1e-5 {
			t.Errorf("%s: the model alone is %g from the law", test.reports, d)
		}
		if d := Variation(valuesOf(windows[0].posterior), posterior); d > 1e-5 {
			t.Errorf("%s: the posterior is %g from the service's", test.reports, d)
		}
	}
}

// TestTurnsTakeNoRoom: what is kept of a user's turns does not grow with their number. It still
// tells one history from another.
func TestTurnsTakeNoRoom(t *testing.T) {
	t.Parallel()
	v, err := newFilter(withGaps(t),
		mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05})
	if err != nil {
		t.Fatal(err)
	}
	bridged := func(first int64) user {
		b, u := newExactFilter(), &user{name: "u"}
		u.filter, u.origin, u.last = v, 5, 5
		known := map[any]bool{}
		for gap := first; u.last < 200; gap = 6 {
			if err := b.bridge(u, v, u.last+gap); err != nil {
				t.Fatal(err)
			}
			u.last += gap
			if known[u.turns] || len(u.turns) > 16 {
				t.Fatalf("step %d: %d bytes, known %t", u.last, len(u.turns), known[u.turns])
			}
			known[u.turns] = true
		}
		return *u
	}
	one, same, other := bridged(3), bridged(3), bridged(4)
	if one.turns != same.turns || one.turns == other.turns {
		t.Error("other histories have the same turns, or the same ones others")
	}
}
