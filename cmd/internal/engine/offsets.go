package engine

import "slices"

// Offsets are offsets of raw records, in ascending runs. It takes 16 bytes for each run of
// neighbours. Nil has none.
type Offsets struct{ runs []offsetRun }

type offsetRun struct{ from, end int64 }

// Add takes an offset, mostly behind all before.
func (o *Offsets) Add(offset int64) {
	if n := len(o.runs); n > 0 && o.runs[n-1].end == offset {
		o.runs[n-1].end++
		return
	}
	o.runs = append(o.runs, offsetRun{offset, offset + 1})
}

// Sort brings what was added into order, which Has needs.
func (o *Offsets) Sort() {
	slices.SortFunc(o.runs, func(a, b offsetRun) int { return int(a.from - b.from) })
}

// Has reports whether an offset is one of them.
func (o *Offsets) Has(offset int64) bool {
	if o == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(o.runs, offset, func(run offsetRun, offset int64) int {
		switch {
		case run.end <= offset:
			return -1
		case run.from > offset:
			return 1
		}
		return 0
	})
	return found
}
