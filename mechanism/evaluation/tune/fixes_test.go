package tune

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

var box = grid.Box{South: 10, West: 20, North: 10.05, East: 20.05}

func mapOf(tb testing.TB, cellM float64) *grid.Grid {
	tb.Helper()
	g, err := grid.New(box, cellM)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// dense returns fixes of some users every few seconds, in the order of time, a few of them outside
// the box.
func dense(n int) (fixes []train.Fix) {
	random := rand.New(rand.NewPCG(1, 2))
	lat, lon, ms := 10.02, 20.02, int64(1_700_000_000_000)
	for i := range n {
		ms += 1000 + int64(random.IntN(9000))
		if i%97 == 0 {
			ms += 20 * 60_000
		}
		lat = min(max(lat+.001*(random.Float64()-.5), 9.999), 10.05)
		lon = min(max(lon+.001*(random.Float64()-.5), 20), 20.05)
		fixes = append(fixes, train.Fix{
			User: []string{"ann", "bob", "cid"}[i%3], TimeMS: ms, Lat: lat, Lon: lon,
		})
	}
	return fixes
}

// TestFixesThin: any order of fixes, in any number of parts, gives the same thin traces; they hold
// the first and the last fix of each bin and no other.
func TestFixesThin(t *testing.T) {
	fixes := dense(9000)
	gather := func(parts int, order []train.Fix) *Fixes {
		all := make([]*Fixes, parts)
		for i := range all {
			all[i] = NewFixes(Options{Box: box, Step: time.Minute})
		}
		for i, f := range order {
			all[i%parts].Add(f)
		}
		for _, other := range all[1:] {
			all[0].Merge(other)
		}
		return all[0]
	}
	shuffled := slices.Clone(fixes)
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(shuffled),
		func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	one, many := gather(1, fixes), gather(4, shuffled)
	if many.All != 9000 || many.Inside != one.Inside || one.Inside < 8000 || many.Swapped != 0 {
		t.Errorf("%d of %d fixes inside, %d swapped", many.Inside, many.All, many.Swapped)
	}
	for _, user := range []string{"ann", "bob", "cid"} {
		a, b := one.thinned(user), many.thinned(user)
		if !reflect.DeepEqual(a, b) || len(a) == 0 {
			t.Fatalf("%s: %d and %d fixes are kept", user, len(a), len(b))
		}
		kept, ends := map[int64]int{}, map[int64][2]int64{}
		for _, at := range a {
			kept[at.timeMS/60_000]++
		}
		for _, f := range fixes {
			if bin := f.TimeMS / 60_000; f.User == user && f.Lat >= 10 {
				e, ok := ends[bin]
				if !ok {
					e[0] = f.TimeMS
				}
				e[1] = f.TimeMS
				ends[bin] = e
			}
		}
		for bin, e := range ends {
			has := func(ms int64) bool {
				return slices.ContainsFunc(a, func(at fix) bool { return at.timeMS == ms })
			}
			if kept[bin] < 1 || kept[bin] > 2 || !has(e[0]) || !has(e[1]) {
				t.Fatalf("%s: %d fixes of a bin are kept, or not its ends", user, kept[bin])
			}
		}
		if len(kept) != len(ends) {
			t.Errorf("%s: %d bins of %d", user, len(kept), len(ends))
		}
	}
}

// TestThinTrainsTheSame: models for a bin, and for steps of more of them, are those of all fixes.
func TestThinTrainsTheSame(t *testing.T) {
	fixes := dense(6000)
	thin := NewFixes(Options{Box: box})
	for _, f := range fixes {
		thin.Add(f)
	}
	for _, step := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		for _, o := range []train.Options{{}, {Interpolate: true, MaxGap: 5 * time.Minute}} {
			ids := map[string]bool{}
			all, err := train.New(mapOf(t, 500), step, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range fixes {
				all.Add(f)
			}
			some, err := train.New(mapOf(t, 500), step, o)
			if err != nil {
				t.Fatal(err)
			}
			for user := range thin.users {
				for _, at := range thin.thinned(user) {
					some.Add(train.Fix{User: user, TimeMS: at.timeMS, Lat: at.lat, Lon: at.lon})
				}
			}
			for _, trainer := range []*train.Trainer{all, some} {
				m, _, err := trainer.Finish()
				if err != nil {
					t.Fatal(err)
				}
				ids[m.ID()] = true
			}
			if len(ids) != 1 {
				t.Errorf("step %v, interpolate %v: another model", step, o.Interpolate)
			}
		}
	}
}

func TestMedianGap(t *testing.T) {
	f := NewFixes(Options{Box: box, Step: time.Second})
	// gaps of 10, 20, 30 and 40 seconds, and one that is too long
	for i, seconds := range []int64{0, 10, 30, 60, 100, 9000} {
		f.Add(
			train.Fix{
				User: "ann", TimeMS: 1000 * seconds, Lat: 10.01 + float64(i)/1000, Lon: 20.01,
			},
		)
	}
	if gap := f.medianGap(); gap != 30*time.Second {
		t.Errorf("median gap %v", gap)
	}
	if gap := NewFixes(Options{Box: box, Step: time.Second}).medianGap(); gap != 0 {
		t.Errorf("of nothing %v", gap)
	}
}
