// Package train learns a mobility model from traces. A [Trainer] collects fixes, counts how often
// users move from one cell to another, caps what each user contributes, smooths the counts by a
// kernel of typical moves, and learns what becomes of users in times without a fix.
// [Trainer.Finish] returns the model.
//
// A model holds counts of what people did. The package private trains models that protect each user
// of the traces by differential privacy.
//
// Training is a function of the set of fixes and the options: it knows no clock and no randomness.
package train

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Trainer collects fixes, in any order, and turns them into a model.
//
// Memory: 32 bytes for each user and step with a fix (for each fix with EveryFix), and up to three
// times as much while slices grow. A Trainer belongs to one goroutine. Trainers that were derived
// from it by [Trainer.Without] may each belong to another.
type Trainer struct {
	settings
	users map[string]*visits
	// shared is known once sharedKnown is true, and until the next fix. inherited are the shared
	// fixes of the trainer that this one was derived from.
	shared      sharedFixes
	sharedKnown bool
	inherited   sharedFixes
}

// settings are what a trainer is made with.
type settings struct {
	grid    *grid.Grid
	stepMS  int64
	options Options // with every default filled in
}

// New returns a trainer for models of the grid and step. It returns an error for options that are
// not valid and for a model that would be too large.
func New(g *grid.Grid, step time.Duration, o Options) (*Trainer, error) {
	if err := o.Validate(step); err != nil {
		return nil, err
	}
	t := &Trainer{
		settings: settings{grid: g, stepMS: step.Milliseconds(), options: o.Defaults()},
		users:    make(map[string]*visits),
	}
	return t, t.CheckSize(0)
}

// Bounds of a trained model in memory. Its matrices have the same columns, kept once, and each its
// own values and weights of the kernel. Together they may take as much as a single matrix of
// [mobility.MaxEntries] does: 3.2 GB.
const (
	bytesPerColumn = 4
	bytesPerCell   = 8 + 12 // where its row starts, and the initial distribution
	bytesPerValue  = 8
	maxBytes       = (bytesPerColumn + bytesPerValue) * mobility.MaxEntries
)

// CheckSize returns an error if a model whose matrices have so many entries each would be too
// large: before the operating system finds that memory runs out.
func (t *Trainer) CheckSize(entries int64) error {
	classes, cells := int64(t.options.Calendar.Classes()), int64(t.grid.Cells())
	size := entries*(bytesPerColumn+classes*bytesPerValue) +
		cells*(bytesPerCell+classes*bytesPerValue)
	if size > maxBytes {
		return fmt.Errorf("train: %d × %d cells with %d classes of time make %.1f GB, more than "+
			"%.1f", t.grid.Width(), t.grid.Height(), classes, float64(size)/1e9,
			float64(maxBytes)/1e9)
	}
	return nil
}

// Add adds one fix. A fix outside the grid's box is counted and otherwise left out, as if the user
// had not reported. Add panics if a coordinate is not a number.
func (t *Trainer) Add(f Fix) {
	if math.IsNaN(f.Lat) || math.IsNaN(f.Lon) {
		panic("train: a fix has a coordinate that is not a number")
	}
	user := t.users[f.User]
	if user == nil {
		user = &visits{}
		t.users[f.User] = user
	}
	if !t.grid.Contains(f.Lat, f.Lon) {
		user.outside++
		return
	}
	if user.shared {
		user = user.own()
		t.users[f.User] = user
	}
	user.fixes++
	t.sharedKnown = false
	step := mobility.StepOf(f.TimeMS, t.stepMS)
	at := pointOf(f, f.TimeMS-step*t.stepMS)
	user.addVisit(visit{step, at, at}, t.options.EveryFix)
}

// Merge adds all fixes of another trainer of the same grid, step and options. The model depends
// neither on the order of the fixes nor on how they were split between trainers. The other's memory
// may become part of t: do not use the other again. Merge panics if grid, step or options differ.
func (t *Trainer) Merge(other *Trainer) {
	if t == other || t.grid.ID() != other.grid.ID() || t.stepMS != other.stepMS ||
		t.options.String() != other.options.String() {
		panic("train: only two trainers of the same grid, step and options can be merged")
	}
	for _, name := range slices.Sorted(maps.Keys(other.users)) {
		if mine := t.users[name]; mine != nil {
			mine = mine.own()
			mine.absorb(other.users[name], t.options.EveryFix)
			t.users[name] = mine
		} else {
			t.users[name] = other.users[name]
		}
	}
	t.inherited = union(t.inherited, other.inherited)
	t.sharedKnown = false
	other.users = nil
}

// Without returns a trainer with the same fixes except those of the users for whom held is true. It
// shares memory with t and costs a few bytes a user; both may take more fixes. Which fixes are
// shared between users stays decided by all users: a trace that a held-out user has in common with
// another says nothing about strangers.
func (t *Trainer) Without(held func(user string) bool) *Trainer {
	t.settle()
	derived := &Trainer{
		settings: settings{grid: t.grid, stepMS: t.stepMS, options: t.options},
		users:    make(map[string]*visits, len(t.users)),
		shared:   t.shared, sharedKnown: true, inherited: t.shared,
	}
	for name, user := range t.users {
		if !held(name) {
			user.shared = true
			derived.users[name] = user
		}
	}
	return derived
}

// Smooth replaces four options, which no fix that was added depends on: Backoff, UserCap, Uniform
// and Jumps. They must be valid.
func (t *Trainer) Smooth(o Options) {
	o = o.Defaults()
	t.options.Backoff, t.options.UserCap = o.Backoff, o.UserCap
	t.options.Uniform, t.options.Jumps = o.Uniform, o.Jumps
}

// settle makes every user's records ready to be read by several goroutines, and finds the shared
// fixes. Records that another trainer reads too are settled already and do not change.
func (t *Trainer) settle() {
	for _, user := range t.users {
		user.settle(t.options.EveryFix)
	}
	if !t.sharedKnown {
		t.shared = union(t.inherited, findShared(t.users, t.stepMS, printsAtOnce))
		t.sharedKnown = true
	}
}

// Grid returns the map that models are made for.
func (t *Trainer) Grid() *grid.Grid { return t.grid }

// Step returns the time step of the models.
func (t *Trainer) Step() time.Duration { return time.Duration(t.stepMS) * time.Millisecond }

// Options returns the options with every default filled in.
func (t *Trainer) Options() Options { return t.options }

// Users returns the users with a fix in the box, in ascending order.
func (t *Trainer) Users() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range slices.Sorted(maps.Keys(t.users)) {
			if t.users[name].fixes > 0 && !yield(name) {
				return
			}
		}
	}
}

// Seen returns a report with the users and fixes added so far. Its other counts are 0: only
// training makes them.
func (t *Trainer) Seen() (r mobility.Report) {
	for _, user := range t.users {
		r.Fixes += user.fixes
		r.OutsideBox += user.outside
		if user.fixes > 0 {
			r.Users++
		}
	}
	return r
}

// visits holds what one user reported: records in the order in which they came, until they are
// settled.
type visits struct {
	records []visit
	// sorted says that the records ascend. Compaction pays only where they do not.
	sorted bool
	// shared says that another trainer reads the records too. They are copied before they change.
	shared bool
	// fixes is how many fixes lie inside the box, outside how many lie outside.
	fixes, outside int64
}

// visit is what a user did in one step: its first and its last fix. Merging two visits of a step is
// commutative, which makes the model independent of the order of fixes. With EveryFix each fix is a
// visit. 32 bytes.
type visit struct {
	step        int64
	first, last point
}

// point is a fix within a step: milliseconds since the step began, and degrees in units of 1e-7,
// which is 11 mm. Coordinates of up to seven decimals keep their exact value.
type point struct{ ms, lat, lon int32 }

const pointsPerDegree = 1e7

func pointOf(f Fix, ms int64) point {
	degrees := func(v float64) int32 { return int32(math.Round(v * pointsPerDegree)) }
	return point{int32(ms), degrees(f.Lat), degrees(f.Lon)}
}

func (p point) compare(q point) int {
	return cmp.Or(cmp.Compare(p.ms, q.ms), cmp.Compare(p.lat, q.lat), cmp.Compare(p.lon, q.lon))
}

func (v visit) compare(w visit) int {
	return cmp.Or(cmp.Compare(v.step, w.step), v.last.compare(w.last), v.first.compare(w.first))
}

// merge returns one visit for two of the same step. Of fixes at the same millisecond the one
// further north, then further east, counts as the last, and the one further south, then further
// west, as the first. So the order of the fixes does not matter.
func (v visit) merge(w visit) visit {
	if w.first.compare(v.first) < 0 {
		v.first = w.first
	}
	if w.last.compare(v.last) > 0 {
		v.last = w.last
	}
	return v
}

// worthCompacting is the number of records below which compaction is not worth its time.
const worthCompacting = 1 << 10

func (u *visits) addVisit(v visit, every bool) {
	n := len(u.records)
	switch {
	case n == 0:
		u.sorted = true
	case !every && u.records[n-1].step == v.step:
		u.records[n-1] = u.records[n-1].merge(v)
		return
	case u.records[n-1].compare(v) > 0:
		u.sorted = false
	}
	if n == cap(u.records) && n >= worthCompacting && !u.sorted && !every {
		u.settle(every)
		u.sorted = u.records[len(u.records)-1].compare(v) < 0
		u.records = slices.Grow(u.records, n/2) // or the next one would sort again
	}
	u.records = append(u.records, v)
}

// settle sorts the records by time and leaves one for each step (or fix).
func (u *visits) settle(every bool) {
	if u.sorted {
		return
	}
	slices.SortFunc(u.records, visit.compare)
	u.sorted = true
	if every {
		return
	}
	kept := u.records[:0]
	for _, v := range u.records {
		if n := len(kept); n > 0 && kept[n-1].step == v.step {
			kept[n-1] = kept[n-1].merge(v)
		} else {
			kept = append(kept, v)
		}
	}
	u.records = kept
}

// absorb adds the records of other. It may take over other's memory.
func (u *visits) absorb(other *visits, every bool) {
	u.fixes += other.fixes
	u.outside += other.outside
	if len(u.records) == 0 {
		u.records, u.sorted, u.shared = other.records, other.sorted, other.shared
		return
	}
	for _, v := range other.records {
		u.addVisit(v, every)
	}
}

// own returns u if no other trainer reads it, and otherwise a copy, which may change.
func (u *visits) own() *visits {
	if !u.shared {
		return u
	}
	mine := *u
	mine.records, mine.shared = slices.Clone(u.records), false
	return &mine
}

// sharedFixes are the fingerprints, ascending, of fixes that two users report: the same time to the
// millisecond and the same place to 11 mm.
//
// Such fixes are one trace under two names, as 6.8 % of some users' fixes are in Geolife. Counted
// twice they weigh twice, and a held-out user would still be in the model.
//
// Only the first and the last fix of each user's steps are compared. Training uses no others, and
// those in between are not kept. A fingerprint has 64 bits: among 10⁸ fixes the chance that any
// two different ones have the same fingerprint is below 10⁻³, and it would cost two steps of two
// users.
type sharedFixes []uint64

// has says whether a fix of a step is shared.
func (s sharedFixes) has(step, stepMS int64, p point) bool {
	if len(s) == 0 {
		return false
	}
	_, found := slices.BinarySearch(s, fingerprint(step, stepMS, p))
	return found
}

func union(a, b sharedFixes) sharedFixes {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

// fingerprint mixes time and place. For each place it is a bijection of time, and for each time one
// of place (Stafford's mix 13, as in Steele, Lea and Flood 2014, doi:10.1145/2714064.2660195).
func fingerprint(step, stepMS int64, p point) uint64 {
	return mix(mix(uint64(uint32(p.lat))<<32|uint64(uint32(p.lon))) +
		uint64(step*stepMS+int64(p.ms)))
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// signed is a fingerprint and the number of its user.
type signed struct {
	print uint64
	user  uint32
}

// printsAtOnce bounds the memory of findShared, 16 bytes for each: more fingerprints than that are
// compared in slices of their range.
const printsAtOnce = 1 << 23

// findShared goes through all users' fixes, once for each slice of the range of fingerprints. It
// compares about atOnce fingerprints at a time. Cost: some 100 ns for a step with a fix.
func findShared(users map[string]*visits, stepMS int64, atOnce int) sharedFixes {
	names, fixes := slices.Sorted(maps.Keys(users)), 0
	for _, name := range names {
		fixes += 2 * len(users[name].records)
	}
	var found sharedFixes
	var list []signed
	slicesOf := uint64(1 + fixes/atOnce)
	for slice := range slicesOf {
		list = list[:0]
		for i, name := range names {
			for _, v := range users[name].records {
				first, last := fingerprint(v.step, stepMS, v.first),
					fingerprint(v.step, stepMS, v.last)
				if inSlice(first, slice, slicesOf) {
					list = append(list, signed{first, uint32(i)})
				}
				if last != first && inSlice(last, slice, slicesOf) {
					list = append(list, signed{last, uint32(i)})
				}
			}
		}
		found = append(found, inCommon(list)...)
	}
	return found
}

// inCommon sorts a list and returns the fingerprints that two users of it have, in ascending order.
func inCommon(list []signed) (shared sharedFixes) {
	slices.SortFunc(list, func(a, b signed) int {
		return cmp.Or(cmp.Compare(a.print, b.print), cmp.Compare(a.user, b.user))
	})
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; a.print == b.print && a.user != b.user {
			shared = append(shared, b.print)
		}
	}
	return slices.Compact(shared)
}

// inSlice says whether a number lies in one of so many equal slices of the 64-bit range.
func inSlice(x, slice, of uint64) bool {
	high, _ := bits.Mul64(x, of)
	return high == slice
}
