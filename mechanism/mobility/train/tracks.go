package train

import (
	"iter"
	"maps"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Tracks returns what training counts, user by user in ascending order of their names and then of time: each pair of
// successive cells of a track is a transition. keep chooses the users; nil: all.
func (t *Trainer) Tracks(keep func(user string) bool) iter.Seq[mobility.Track] {
	t.settle()
	return func(yield func(mobility.Track) bool) {
		for _, name := range slices.Sorted(maps.Keys(t.users)) {
			if keep != nil && !keep(name) {
				continue
			}
			for track := range t.tracksOf(name) {
				if !yield(track) {
					return
				}
			}
		}
	}
}

// tracksOf cuts what one user's records say, which are settled, into stretches.
func (t *Trainer) tracksOf(name string) iter.Seq[mobility.Track] {
	return func(yield func(mobility.Track) bool) {
		track := mobility.Track{User: name}
		for at := range t.places(name) {
			if !at.follows && len(track.Steps) > 0 {
				if !yield(track) {
					return
				}
				track = mobility.Track{User: name}
			}
			track.Steps = append(track.Steps, at.step)
			track.Cells = append(track.Cells, at.cell)
		}
		if len(track.Steps) > 0 {
			yield(track)
		}
	}
}

// position is where a user was in a step, and whether that follows the place before as a transition.
type position struct {
	step    int64
	cell    grid.Cell
	follows bool
}

func (t *Trainer) places(name string) iter.Seq[position] {
	if t.options.Interpolate {
		return t.interpolated(name)
	}
	return func(yield func(position) bool) {
		var before *visit
		for v := range t.unshared(name) {
			if !yield(position{v.step, v.last.cell(t.grid), before != nil && t.linked(*before, *v)}) {
				return
			}
			before = v
		}
	}
}

// unshared returns a user's records without those that stand on a fix that another user reports too.
func (t *Trainer) unshared(name string) iter.Seq[*visit] {
	return func(yield func(*visit) bool) {
		records := t.users[name].records
		for i := range records {
			if v := &records[i]; !t.drops(v) && !yield(v) {
				return
			}
		}
	}
}

// drops says whether a record is left out, as if the user had not reported in its step.
func (t *Trainer) drops(v *visit) bool {
	if t.options.KeepShared {
		return false
	}
	return t.shared.has(v.step, t.stepMS, v.last) || t.options.Interpolate && t.shared.has(v.step, t.stepMS, v.first)
}

// dropped counts a user's records that are left out.
func (t *Trainer) dropped(name string) (n int64) {
	for i := range t.users[name].records {
		if t.drops(&t.users[name].records[i]) {
			n++
		}
	}
	return n
}

// interpolated returns the place at the end of each step, on the straight line between the last fix before it and the first fix at or
// after it, where they are at most MaxGap apart.
//
// The end of a step rather than its middle: it lies between the last fix of one step and the first of a later one, which are what is
// kept, and it is what the last fix of a step stands for when nothing is interpolated.
func (t *Trainer) interpolated(name string) iter.Seq[position] {
	return func(yield func(position) bool) {
		var before *visit
		follows := false
		for v := range t.unshared(name) {
			if before != nil && t.gapMS(*before, *v) <= t.options.MaxGap.Milliseconds() {
				for step := before.step; step < v.step; step++ {
					if !yield(position{step, t.between(before, v, step), follows}) {
						return
					}
					follows = true
				}
			} else {
				follows = false
			}
			before = v
		}
	}
}

// between returns the cell at the end of a step, between a's last fix and b's first.
func (t *Trainer) between(a, b *visit, step int64) grid.Cell {
	since := (step-a.step+1)*t.stepMS - int64(a.last.ms)
	share := float64(since) / float64(t.gapMS(*a, *b))
	at := func(from, to int32) float64 {
		return (float64(from) + float64(share*float64(int64(to)-int64(from)))) / pointsPerDegree
	}
	return t.grid.Locate(at(a.last.lat, b.first.lat), at(a.last.lon, b.first.lon))
}

// linked says whether b follows a as a transition.
func (t *Trainer) linked(a, b visit) bool {
	if !t.options.EveryFix && b.step != a.step+1 {
		return false
	}
	limit := t.options.MaxGap.Milliseconds()
	return limit == 0 || t.gapMS(a, b) <= limit
}

// gapMS is the time from a's last fix to b's first one.
func (t *Trainer) gapMS(a, b visit) int64 {
	return (b.step-a.step)*t.stepMS + int64(b.first.ms) - int64(a.last.ms)
}
