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

// fix is where a user was: milliseconds since 1970 and degrees.
type fix struct {
	timeMS   int64
	lat, lon float64
}

// Fixes gathers fixes in the map's box, in any order. Of each user and interval of the length of a
// bin it keeps the first and the last fix: for steps of one or more bins, training is then the same
// as with all of them, and so are the releases. Memory: up to 48 bytes for each user and bin with a
// fix, up to three times as much while more come. It belongs to one goroutine.
type Fixes struct {
	// All is the number of fixes. Only those Inside the box are kept; Swapped would lie in it if
	// latitude and longitude changed places.
	All, Inside, Swapped int64

	box   grid.Box
	binMS int64
	users map[string]*thread
}

// NewFixes returns an empty gathering for a search. Its bins are as long as the step, or as the
// shortest that the search may choose.
func NewFixes(o Options) *Fixes {
	bin := usualSteps[0]
	if o.Step > 0 {
		bin = o.Step
	}
	return &Fixes{box: o.Box, binMS: max(1, bin.Milliseconds()), users: map[string]*thread{}}
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
	const least = 256
	t.fixes = append(t.fixes, fix{at.TimeMS, at.Lat, at.Lon})
	if len(t.fixes) > max(t.next, least) {
		t.thin(f.binMS)
		t.next = 2 * len(t.fixes)
	}
}

// Merge takes all of other's fixes, whose box and bins must be the same.
func (f *Fixes) Merge(other *Fixes) {
	f.All, f.Inside, f.Swapped = f.All+other.All, f.Inside+other.Inside, f.Swapped+other.Swapped
	for user, theirs := range other.users {
		if mine := f.users[user]; mine != nil {
			theirs.fixes = append(theirs.fixes, mine.fixes...)
		}
		f.users[user] = theirs
	}
}

// thinned returns a user's fixes in the order of time.
func (f *Fixes) thinned(user string) []fix {
	t := f.users[user]
	t.thin(f.binMS)
	return t.fixes
}

// span returns the times of the first and of the last fix.
func (f *Fixes) span() (first, last time.Time) {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for user := range f.users {
		fixes := f.thinned(user)
		least, most = min(least, fixes[0].timeMS), max(most, fixes[len(fixes)-1].timeMS)
	}
	return time.UnixMilli(least).UTC(), time.UnixMilli(most).UTC()
}

// thread is one user's fixes.
type thread struct {
	fixes []fix
	next  int // number of fixes at which to thin
}

// thin sorts the fixes and keeps the ends of each bin. What it keeps of parts and then of all is
// what it keeps of all at once.
func (t *thread) thin(binMS int64) {
	slices.SortFunc(t.fixes, func(a, b fix) int {
		return cmp.Or(cmp.Compare(a.timeMS, b.timeMS), cmp.Compare(a.lat, b.lat),
			cmp.Compare(a.lon, b.lon))
	})
	all := slices.Compact(t.fixes)
	bin := func(i int) int64 { return mobility.StepOf(all[i].timeMS, binMS) }
	kept := all[:0]
	for i, at := range all {
		first := i == 0 || mobility.StepOf(kept[len(kept)-1].timeMS, binMS) != bin(i)
		if first || i+1 == len(all) || bin(i+1) != bin(i) {
			kept = append(kept, at)
		}
	}
	t.fixes = kept
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

// days cuts a user's fixes where a day ends, that is midnight of a time so far ahead of UTC.
func (f *Fixes) days(number int, name string, aheadMS int64) (days []userDay) {
	fixes := f.thinned(name)
	of := func(at fix) int64 { return mobility.StepOf(at.timeMS+aheadMS, day.Milliseconds()) }
	from := 0
	for i := range fixes {
		if i+1 == len(fixes) || of(fixes[i+1]) != of(fixes[i]) {
			days = append(days, userDay{
				user: number, fixes: fixes[from : i+1], bins: bins(fixes[from:i+1], f.binMS),
			})
			from = i + 1
		}
	}
	return days
}
