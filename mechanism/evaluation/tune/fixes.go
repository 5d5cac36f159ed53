package tune

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// fix is where a user was: milliseconds since 1970 and degrees. It stands for so many fixes, itself
// and those of its bin that were not kept.
type fix struct {
	timeMS   int64
	lat, lon float64
	weight   int64
}

// Fixes gathers fixes in the map's box, in any order. Of each user and interval of the length of a
// bin it keeps the first fix, the last one and one in between, chosen by a hash: for steps of one
// or more bins, training and releases are then the same as with all of them, and errors are
// measured all along the bin, that one standing for all in between. Memory: up to 96 bytes for each
// user and bin with a fix, up to three times as much while more come. It belongs to one goroutine.
type Fixes struct {
	// All is the number of fixes. Only those Inside the box are kept; Swapped would lie in it if
	// latitude and longitude changed places.
	All, Inside, Swapped int64

	box   grid.Box
	binMS int64
	users map[string]*thread
}

// Add takes a fix.
func (f *Fixes) Add(at train.Fix) {
	f.All++
	if !f.box.Contains(at.Lat, at.Lon) {
		if f.box.Contains(at.Lon, at.Lat) {
			f.Swapped++
		}
		return
	}
	f.Inside++
	t := f.users[at.User]
	if t == nil {
		t = &thread{}
		f.users[at.User] = t
	}
	t.add(fix{at.TimeMS, at.Lat, at.Lon, 1}, f.binMS)
}

// Merge takes all of other's fixes, whose box and bins must be the same.
func (f *Fixes) Merge(other *Fixes) {
	f.All, f.Inside, f.Swapped = f.All+other.All, f.Inside+other.Inside, f.Swapped+other.Swapped
	for user, theirs := range other.users {
		mine := f.users[user]
		if mine == nil {
			f.users[user] = theirs
			continue
		}
		mine.fixes = append(mine.fixes, theirs.fixes...)
		mine.thin(f.binMS)
	}
}

// LastDay is the last day (UTC, since 1970) that is not of a few wrong clocks alone: it has a
// hundredth of the fixes that the fullest day has. There must be a fix inside the box.
func (f *Fixes) LastDay() (last int64) {
	const few = 100
	days, most := map[int64]int64{}, int64(0)
	for _, t := range f.users {
		for _, at := range t.fixes {
			day := mobility.StepOf(at.timeMS, (24 * time.Hour).Milliseconds())
			days[day] += at.weight
			most = max(most, days[day])
		}
	}
	last = math.MinInt64
	for day, n := range days {
		if n*few >= most {
			last = max(last, day)
		}
	}
	return last
}

// thinned returns a user's fixes in the order of time.
func (f *Fixes) thinned(user string) []fix {
	t := f.users[user]
	t.thin(f.binMS)
	return t.fixes
}

// thread is one user's fixes.
type thread struct {
	fixes []fix
	next  int // number of fixes at which to thin
}

func (t *thread) add(at fix, binMS int64) {
	const least = 256
	t.fixes = append(t.fixes, at)
	if len(t.fixes) > max(t.next, least) {
		t.thin(binMS)
		t.next = 2 * len(t.fixes)
	}
}

// thin sorts the fixes and keeps three a bin. What it keeps of parts and then of all is what it
// keeps of all at once: first and last are extremes, and the one in between is that of the smallest
// hash, or has become an extreme.
func (t *thread) thin(binMS int64) {
	slices.SortFunc(t.fixes, func(a, b fix) int {
		return cmp.Or(cmp.Compare(a.timeMS, b.timeMS), cmp.Compare(a.lat, b.lat),
			cmp.Compare(a.lon, b.lon))
	})
	all := t.fixes[:0]
	for _, at := range t.fixes {
		if last := len(all) - 1; last >= 0 && at.timeMS == all[last].timeMS &&
			at.lat == all[last].lat && at.lon == all[last].lon {
			all[last].weight += at.weight
			continue
		}
		all = append(all, at)
	}
	kept := all[:0]
	for start := 0; start < len(all); {
		end, bin := start+1, mobility.StepOf(all[start].timeMS, binMS)
		for end < len(all) && mobility.StepOf(all[end].timeMS, binMS) == bin {
			end++
		}
		first, last := all[start], all[end-1]
		middle, least, weight := first, uint64(math.MaxUint64), int64(0)
		for _, at := range all[start+1 : max(start+1, end-1)] {
			weight += at.weight
			if h := at.hash(); h <= least {
				middle, least = at, h
			}
		}
		// Who is first or last now may have stood for others.
		if end-start > 2 {
			middle.weight = weight + first.weight + last.weight - 2
			first.weight, last.weight = 1, 1
		}
		kept = append(kept, first)
		if end-start > 2 {
			kept = append(kept, middle)
		}
		if end-start > 1 {
			kept = append(kept, last)
		}
		start = end
	}
	t.fixes = kept
}

// hash mixes a fix's bits (the finalizer of splitmix64, Steele, Lea and Flood 2014,
// doi:10.1145/2660193.2660195, over each number in turn).
func (f fix) hash() uint64 {
	h := uint64(0)
	for _, word := range [...]uint64{
		uint64(f.timeMS), math.Float64bits(f.lat), math.Float64bits(f.lon),
	} {
		h += word + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// bins returns the number of bins of a length that fixes in the order of time fall into.
func bins(fixes []fix, binMS int64) (n int64) {
	for i, at := range fixes {
		if i == 0 ||
			mobility.StepOf(at.timeMS, binMS) != mobility.StepOf(fixes[i-1].timeMS, binMS) {
			n++
		}
	}
	return n
}
