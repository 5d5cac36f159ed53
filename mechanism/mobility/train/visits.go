package train

import (
	"cmp"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

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

func (p point) cell(g *grid.Grid) grid.Cell {
	return g.Locate(float64(p.lat)/pointsPerDegree, float64(p.lon)/pointsPerDegree)
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

func (u *visits) add(v visit, every bool) {
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
		u.add(v, every)
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
