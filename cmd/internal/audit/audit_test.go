package audit

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestRefused: what has no proof is not audited.
func TestRefused(t *testing.T) {
	for _, change := range []func(o *mechanism.Options){
		func(o *mechanism.Options) { o.Mechanism = law.PIM },
		func(o *mechanism.Options) { o.Inference = mechanism.InferencePaper },
	} {
		s := townSettings(t)
		change(&s.Release)
		if _, err := Run(t.Context(), Engine, s, Options{}); err == nil ||
			!strings.Contains(err.Error(), "audit codebook or lattice") {
			t.Errorf("%v", err)
		}
	}
}

// TestNothingTold: an audit in which no release tells places apart ends with an error.
func TestNothingTold(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *Settings){
		"lattice":  func(*Settings) {},
		"codebook": func(s *Settings) { s.Release.Mechanism = law.Codebook },
	} {
		s := townSettings(t)
		change(&s)
		s.Release.MinCells = -1
		s.Model = s.Model.Copy()
		s.Model.Initial = mobility.Distribution{Cells: []grid.Cell{7}, P: []float64{1}}
		stay := &mobility.Matrix{RowStart: []int64{0}}
		for c := range grid.Cell(s.Model.Grid.Cells()) {
			stay.Columns, stay.Values = append(stay.Columns, c), append(stay.Values, 1)
			stay.RowStart = append(stay.RowStart, int64(len(stay.Values)))
		}
		s.Model.Matrices = []*mobility.Matrix{stay}
		_, err := Run(t.Context(), Engine, s, Options{Draws: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "no release tells two places apart") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReportDoesNotDependOnWorkers also shows that a seed repeats an audit.
func TestReportDoesNotDependOnWorkers(t *testing.T) {
	t.Parallel()
	var reports []*Report
	for _, workers := range []int{1, 3} {
		r, err := Run(t.Context(), Engine, ruled(coded(t)),
			Options{Seed: 5, Workers: workers, Draws: 2003})
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	if !reflect.DeepEqual(reports[0], reports[1]) {
		t.Errorf("%+v, with more workers %+v", reports[0], reports[1])
	}
}

// TestProgressEndsTheAudit: its error is the audit's.
func TestProgressEndsTheAudit(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	_, err := Run(t.Context(), Engine, townSettings(t), Options{
		Seed: 5, Draws: 1000, Progress: func(done, total int64) error {
			if done <= 0 || done > total || total != 1000 {
				t.Errorf("%d of %d", done, total)
			}
			return stop
		},
	})
	if !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// TestSweep plants a fault into each number that the sweep looks at: T, votes, weights, the hull,
// the line and the likelihoods.
func TestSweep(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{townSettings(t), coded(t)} {
		e, err := mechanism.NewEmission(s.Model.Grid, s.Release)
		if err != nil {
			t.Fatal(err)
		}
		e.Prepare(&s.Model.Initial)
		all := make([]grid.Cell, s.Model.Grid.Cells())
		for i := range all {
			all[i] = grid.Cell(i)
		}
		var sound Check
		sweep(&sound, e, all, rngOf(1, "sweep", 0))
		if sound.Failures > 0 || sound.Trials < int64(2*len(all)) {
			t.Errorf("%s: %+v", s.Release.Mechanism, sound)
		}
	}
	g := townSettings(t).Model.Grid
	points := []convex.Lattice{{X: 2 * law.CodeSteps, Y: law.CodeSteps}, {X: 9 * law.CodeSteps}}
	votes := make([]uint8, g.Cells())
	for x := range votes {
		votes[x] = uint8(nearestPoint(g, points, grid.Cell(x)))
	}
	otherVotes := append([]uint8{1 - votes[0]}, votes[1:]...)
	t1 := otherWeight(1).Uint64()
	likelihoods := make([]float64, len(votes))
	for x, vote := range votes {
		if likelihoods[x] = float64(t1) * 0x1p-64; vote == 1 {
			likelihoods[x] = 1
		}
	}
	square := []convex.Lattice{{X: -1, Y: -1}, {X: 1, Y: -1}, {X: 1, Y: 1}, {X: -1, Y: 1}}
	line := []convex.Lattice{{X: -2}, {X: 2}}
	for _, c := range []struct {
		name, want string
		check      func(c *Check)
	}{
		{"T", "", func(c *Check) { checkOther(c, 1, t1) }},
		{"T rounded down", "weight of another", func(c *Check) { checkOther(c, 1, t1-1) }},
		{"votes", "", func(c *Check) { checkVotes(c, g, points, votes) }},
		{"a wrong vote", "not the nearest", func(c *Check) {
			checkVotes(c, g, points, otherVotes)
		}},
		{"weights", "", func(c *Check) { checkWeights(c, votes, 1, likelihoods, t1) }},
		{"weights of another vote", "not that of the cell's vote", func(c *Check) {
			checkWeights(c, otherVotes, 1, likelihoods, t1)
		}},
		{"another T in weights", "not that of the cell's vote", func(c *Check) {
			checkWeights(c, votes, 1, likelihoods, t1+1<<12)
		}},
		{"hull", "", func(c *Check) {
			checkHull(c, square, []convex.Lattice{{X: 5, Y: 5}, {X: 6, Y: 4}})
		}},
		{"a hull that is too small", "differ by more than ε", func(c *Check) {
			checkHull(c, square, []convex.Lattice{{X: 5, Y: 5}, {X: 7, Y: 5}})
		}},
		{"line", "", func(c *Check) { checkHull(c, line, []convex.Lattice{{X: 5}, {X: 7}}) }},
		{"a line that is too short", "differ by more than ε", func(c *Check) {
			checkHull(c, line, []convex.Lattice{{X: 5}, {X: 8}})
		}},
		{"a place beside the line", "beside its line", func(c *Check) {
			checkHull(c, line, []convex.Lattice{{X: 5}, {X: 6, Y: 1}})
		}},
		{"a point for two places", "is a point", func(c *Check) {
			checkHull(c, []convex.Lattice{{}}, []convex.Lattice{{X: 5}, {X: 6}})
		}},
		{"likelihoods", "", func(c *Check) { checkLikelihoods(c, []float64{.5, 1, .4}, 1) }},
		{"likelihoods too far apart", "more than e^ε", func(c *Check) {
			checkLikelihoods(c, []float64{.36, 1, .4}, 1)
		}},
	} {
		var check Check
		c.check(&check)
		found := strings.Join(check.Details, "; ")
		if (found != "") != (c.want != "") || !strings.Contains(found, c.want) ||
			check.Trials == 0 {
			t.Errorf("%s: %q, want %q", c.name, found, c.want)
		}
	}
}
