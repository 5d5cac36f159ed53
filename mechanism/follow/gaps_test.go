package follow

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
	}{
		{"within", "5A 7A 13A", 0, followed},
		{"beyond", "5A 14A", 0, followed},
		{"from the chain to the law", "5B 8A", 0, followed},
		{"from the law to the chain", "5A 13A 15B", 0, followed},
		{"to another map", "5C 12A", 0, followed},
		{"lost, within", "5A 6A* 7A 14A", 0, lost},
		{"lost, beyond", "5A 6A* 7A 16A", 0, followed},
		{"records may lack, beyond the chain", "5A 15A", 2, followed},
		{"records may lack, carried over", "5A 8A 11A", 6, followed},
	} {
		for _, name := range []string{law.Lattice, law.Codebook} {
			track, _ := walked(t, models, name, test.reports, test.interval)
			if track.standing != test.standing {
				t.Errorf("%s, %s: standing %d", name, test.name, track.standing)
			}
		}
	}
}

// TestArrivesOverAGap: a user's filter that arrives on a map, from another one or after an erasure,
// starts in the step of the record before. Over the gap it goes by the law of gaps, and without a
// law by the chain. Each record is followed.
func TestArrivesOverAGap(t *testing.T) {
	t.Parallel()
	models := Models{withGaps(t), restless(t, 8, 6), restless(t, 7, 9)}
	for _, reports := range []string{
		"5C 6C 12A", "5C 6C 12A 13A", "5A 6A !12A", "5B 6B !12A 14A", "5A 6A !12B",
	} {
		o := mechanism.Options{
			Mechanism: law.Lattice, Epsilon: 2, Delta: .05, Prune: -1, MaxGap: 8,
		}
		f := newFollower(t, models, o)
		var track Track
		for _, r := range recordsOf(t, models, o, reports) {
			if known, err := f.Follow(&track, r); err != nil || !known {
				t.Errorf("%s: step %d is not followed: %v", reports, r.Step, err)
			}
		}
	}
}
