package trial

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/mobility"
)

// TestUnit: the split takes its share, is the same again, and another salt is independent of it. Of
// 10,000 users a share of .3 is off by more than five deviations, .023, in one of 10⁶ splits; of
// those held under both salts, .09 and .014.
func TestUnit(t *testing.T) {
	one, both := 0.0, 0.0
	for i := range 10_000 {
		user := fmt.Sprint(i)
		if Unit(user, 1) < .3 {
			one++
			if Unit(user, 2) < .3 {
				both++
			}
		}
	}
	if math.Abs(one/10_000-.3) > .023 || math.Abs(both/10_000-.09) > .0145 {
		t.Errorf("%g users are held, %g under both salts", one, both)
	}
	if got := Unit("a", 1); got != Unit("a", 1) || got < 0 || got >= 1 {
		t.Errorf("a user's number is %g", got)
	}
	if Unit("a", 1) < 0 || Unit("a", 1) >= 1 {
		t.Error("a share of 0 holds somebody, or one of 1 not everybody")
	}
}

// TestGather: short tracks are left out, users come in order, and the bound takes from those with
// most.
func TestGather(t *testing.T) {
	tracks := []mobility.Track{
		track("b", 1, 2, 3, 4, 5), track("a", 1, 2, 3), track("b", 6), track("b", 7, 8, 9, 10),
	}
	sizes := func(o FitOptions) (list []string) {
		held, _ := gather(slices.Values(tracks), o)
		for _, t := range held {
			list = append(list, fmt.Sprintf("%s%d", t.User, len(t.Cells)))
			if len(t.Cells) != len(t.Steps) {
				list = append(list, "torn")
			}
		}
		return list
	}
	if got := sizes(FitOptions{MinSegment: 2}); !slices.Equal(got, []string{"a3", "b3"}) {
		t.Errorf("tracks of two steps or more, of none more than of all others, are %v", got)
	}
	for seed := range uint64(5) {
		got := sizes(FitOptions{MinSegment: 2, MaxSteps: 7, Seed: seed})
		if !slices.Equal(got, []string{"a3", "b3"}) {
			t.Errorf("7 of 12 steps are %v", got)
		}
	}
	chosen := map[string]bool{}
	for seed := range uint64(20) {
		got := sizes(FitOptions{MinSegment: 2, MaxSteps: 3, Seed: seed})
		if len(got) != 1 || got[0][1:] != "3" && got[0][1:] != "2" {
			t.Errorf("3 of 12 steps are %v", got)
		}
		chosen[got[0][:1]] = true
	}
	if len(chosen) != 2 {
		t.Errorf("of two users one is never chosen: %v", chosen)
	}
	if tracks[0].Steps[0] != 5 || len(tracks[0].Cells) != 5 {
		t.Error("the caller's tracks have changed")
	}
}

// TestRenumber: with every fix a step, steps follow each other and no two of a user are the same.
func TestRenumber(t *testing.T) {
	tracks := []mobility.Track{
		{User: "a", Steps: []int64{3, 3, 9}, Cells: []int32{1, 2, 3}},
		{User: "a", Steps: []int64{4, 20}, Cells: []int32{1, 2}},
		{User: "b", Steps: []int64{4, 4}, Cells: []int32{1, 2}},
	}
	renumber(tracks)
	want := [][]int64{{3, 4, 5}, {6, 7}, {4, 5}}
	for i, track := range tracks {
		if !slices.Equal(track.Steps, want[i]) {
			t.Errorf("track %d has steps %v, want %v", i, track.Steps, want[i])
		}
	}
}

// TestBootstrap: users who are all the same leave no doubt, and one who differs from all others
// much.
func TestBootstrap(t *testing.T) {
	alike := slices.Repeat([]clusterCount{{n: 10, hits: 1}}, 20)
	if low, high := bootstrapShare(alike, 1); low != .1 || high != .1 {
		t.Errorf("users who are the same: %g to %g", low, high)
	}
	odd := append(slices.Repeat([]clusterCount{{n: 10}}, 19), clusterCount{10, 10})
	low, high := bootstrapShare(odd, 1)
	// The odd one is drawn Binomial(20, 1/20) times: not at all in .36 of samples, four times or
	// more in .016.
	if low != 0 || high != .15 {
		t.Errorf("one user of 20 who drifts: %g to %g", low, high)
	}
	if again, _ := bootstrapShare(odd, 1); again != low {
		t.Error("the same seed gives another interval")
	}
	if low, high := bootstrapShare(nil, 1); low != 0 || high != 0 {
		t.Errorf("nobody: %g to %g", low, high)
	}
}
