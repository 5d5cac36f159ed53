package tune

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSummarize(t *testing.T) {
	o := summarize(Setting{}, []part{
		{
			km: []float64{3, 1, 3}, users: []int32{4, 4, 4}, releases: 2, days: 2, spent: 7,
			beside: 1.5,
		},
		{km: []float64{2}, users: []int32{9}, releases: 2, days: 1, spent: 5, beside: .5},
	})
	if o.Users != 2 || o.MedianKM != 2 || o.MeanKM != 2.25 || o.NearShare != .5 || o.Days != 3 ||
		o.SpentDay != 4 {
		t.Errorf("%+v", o)
	}
}

// TestMedianOver: the median is the sorted middle; the interval holds it, has no length for one
// user, and holds the median of all users in nine of ten samples of thirty of them.
func TestMedianOver(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const trials = 200
	holds := 0
	for range trials {
		var km []float64
		var of []int32
		for u := range int32(30) {
			own := random.NormFloat64() // a user's fixes are correlated
			for range 1 + random.IntN(9) {
				km = append(km, 10+own+.3*random.NormFloat64())
				of = append(of, u)
			}
		}
		users, median, low, high := medianOver(km, of)
		if sorted := slices.Sorted(slices.Values(km)); users != 30 ||
			median != sorted[(len(sorted)-1)/2] || low > median || high < median {
			t.Fatalf("%d users, %v (%v to %v)", users, median, low, high)
		}
		if low <= 10 && high >= 10 { // by symmetry the median of all
			holds++
		}
	}
	// .9 of 200, less two standard deviations: 1 % of false alarms at a coverage of .93
	if holds < 175 {
		t.Errorf("the interval holds the median in %d of %d samples", holds, trials)
	}
	if _, median, low, high := medianOver(
		[]float64{1, 2, 3}, []int32{7, 7, 7},
	); median != 2 || low != 2 || high != 2 {
		t.Errorf("one user: %v (%v to %v)", median, low, high)
	}
}
