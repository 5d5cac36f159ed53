// Package counts says where a fleet is, under an ε for everything that a user does in a day. It is
// for the trusted side, which sees all users: there, a count needs far less noise than records
// that protect each vehicle by itself.
//
// Time is cut into windows (Plan), space into zones (Zones). In each window a user counts once, at
// the first usable fix, in at most PerDay windows of a day (Counter). Every zone of every window
// is published with its count plus discrete Laplace noise of scale PerDay/ε, empty ones included
// (Publisher). A typical day (Typical) is one publication about many days.
//
// Guarantee: adding or removing everything that a user does in a day changes at most PerDay counts
// by one each. So what is published of that day is ε-differentially private for a user and day.
// Adding or removing a part of a day, or putting one day in place of another, costs 2ε. Another
// place of one fix costs 2ε/PerDay, and another time 4ε/PerDay, at most 2ε. Days add up, and so do
// further editions, zone sets and window lengths of the same day. The guarantee is not about people
// who travel together: they share what is published of them. PROOFS.md, "counts: a user's day", has
// the proof.
//
// Files: counts.go who counts; window.go days and windows; zones.go places; typical.go the days and
// slots of a typical day; publish.go noise; estimate.go what follows from noisy numbers.
package counts

import (
	"cmp"
	"slices"
)

// Admission says which fixes count in a window. It looks at a fix by itself alone, because a rule
// that looks at other fixes would let one user change the counts of others without bound.
type Admission struct {
	// GraceMS is how long after a window's end a fix of it may still be appended, milliseconds.
	GraceMS int64
	// MaxAheadMS is how far a fix may lie after the time at which it is appended, milliseconds.
	MaxAheadMS int64
}

// Admits says whether a fix counts in a window, by the time of the fix and the time at which it
// was appended to the log, milliseconds since 1970. A file has the time of the fix alone, which
// stands for both.
func (a Admission) Admits(w Window, eventMS, appendMS int64) bool {
	return eventMS >= w.StartMS && eventMS < w.EndMS &&
		appendMS <= w.EndMS+a.GraceMS && eventMS <= appendMS+a.MaxAheadMS
}

// MaxPerDay is one more hour of windows of a minute than a day has. A window's index fits two
// bytes.
const MaxPerDay = 25 * 60

// Counter bounds what one user adds to the counts of one day: at most one in a window, in at most
// perDay windows. It keeps these visits and nothing else, so it takes at most 12 bytes for each of
// perDay windows. Drop it when the day's last window is closed, and not before, or the user counts
// twice. The zero Counter has no visit.
type Counter struct{ visits []Visit }

// Visit is where a user counts in a window.
type Visit struct {
	Order  uint32 // of the fix among the user's fixes of the day
	Window uint16 // its index in Plan.Windows of the day
	Zone   int32
}

// compare orders visits by their fixes. Fixes of the same order have the order of their zones, so
// that a Counter does not depend on the order in which it takes them.
func (v Visit) compare(other Visit) int {
	return cmp.Or(cmp.Compare(v.Order, other.Order), cmp.Compare(v.Window, other.Window),
		cmp.Compare(v.Zone, other.Zone))
}

// Take takes a usable fix and says whether it counts as far as is known. In the end those count
// that come first in their window, in the perDay windows whose first fixes have the lowest orders.
// The result depends on the set of fixes alone, so parts of a day can be taken in any order.
func (c *Counter) Take(v Visit, perDay int) (counted bool) {
	at := slices.IndexFunc(c.visits, func(old Visit) bool { return old.Window == v.Window })
	switch {
	case at >= 0 && v.compare(c.visits[at]) >= 0:
		return false
	case at >= 0:
		c.visits = slices.Delete(c.visits, at, at+1)
	case len(c.visits) == perDay && v.compare(c.visits[perDay-1]) > 0:
		return false
	}
	at, _ = slices.BinarySearchFunc(c.visits, v, Visit.compare)
	c.visits = slices.Insert(c.visits, at, v)
	c.visits = c.visits[:min(len(c.visits), perDay)]
	return true
}

// Next is Take of a fix that comes after all that were taken, as in a log: what has counted stays.
func (c *Counter) Next(window uint16, zone int32, perDay int) (counted bool) {
	order := uint32(0)
	if n := len(c.visits); n > 0 {
		order = c.visits[n-1].Order + 1
	}
	return c.Take(Visit{order, window, zone}, perDay)
}

// Merge takes the visits of another part of the same user's day.
func (c *Counter) Merge(other *Counter, perDay int) {
	for _, v := range other.visits {
		c.Take(v, perDay)
	}
}

// Visits returns where the user counts, in the order of the fixes. They belong to the Counter.
func (c *Counter) Visits() []Visit { return c.visits }

// Tally returns the counts of a day from the counters of all its users: of each window, how many
// users count in each zone. zones is Zones.Count.
func Tally(windows, zones int, users func(yield func(*Counter) bool)) [][]int64 {
	all := make([][]int64, windows)
	for w := range all {
		all[w] = make([]int64, zones)
	}
	for c := range users {
		for _, v := range c.visits {
			all[v.Window][v.Zone]++
		}
	}
	return all
}
