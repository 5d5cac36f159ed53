package train

import (
	"iter"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// tracer cuts what users reported, which is settled, into tracks. Any number of goroutines may use
// it.
type tracer struct {
	settings
	shared sharedFixes
}

// tracks returns one user's tracks in order of time.
func (t tracer) tracks(name string, v *visits) iter.Seq[mobility.Track] {
	return func(yield func(mobility.Track) bool) {
		track := mobility.Track{User: name}
		for at := range t.places(v) {
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

// moves are one user's transitions, each with the step that it leaves, and stays: one for each step
// with a place. None is merged with another.
type moves struct {
	transitions, stays []Pair
	steps              []int64
}

func (t tracer) moves(name string, v *visits) (m moves) {
	for track := range t.tracks(name, v) {
		for i, cell := range track.Cells {
			m.stays = append(m.stays, Pair{From: cell, To: cell, Weight: 1})
			if i > 0 {
				m.transitions = append(m.transitions,
					Pair{From: track.Cells[i-1], To: cell, Weight: 1})
				m.steps = append(m.steps, track.Steps[i-1])
			}
		}
	}
	return m
}

// position is where a user was in a step. follows is true if the move from the position before is a
// transition.
type position struct {
	step    int64
	cell    grid.Cell
	follows bool
}

func (t tracer) places(v *visits) iter.Seq[position] {
	if t.options.Interpolate {
		return t.interpolated(v)
	}
	return func(yield func(position) bool) {
		var before *visit
		for at := range t.unshared(v) {
			follows := before != nil && t.linked(*before, *at)
			if !yield(position{at.step, at.last.cell(t.grid), follows}) {
				return
			}
			before = at
		}
	}
}

// unshared returns a user's records without those that rest on a fix that another user reports too.
func (t tracer) unshared(v *visits) iter.Seq[*visit] {
	return func(yield func(*visit) bool) {
		for i := range v.records {
			if at := &v.records[i]; !t.drops(at) && !yield(at) {
				return
			}
		}
	}
}

// drops says whether a record is left out, as if the user had not reported in its step.
func (t tracer) drops(v *visit) bool {
	if t.options.KeepShared {
		return false
	}
	return t.shared.has(v.step, t.stepMS, v.last) ||
		t.options.Interpolate && t.shared.has(v.step, t.stepMS, v.first)
}

// interpolated returns the place at the end of each step: on the straight line between the last fix
// before it and the first fix at or after it, where these are at most MaxGap apart.
//
// It takes the end of a step rather than its middle for two reasons. The end lies between the last
// fix of one step and the first fix of a later one, and only first and last fixes are kept. And the
// end is what the last fix of a step stands for when nothing is interpolated.
func (t tracer) interpolated(v *visits) iter.Seq[position] {
	return func(yield func(position) bool) {
		var before *visit
		follows := false
		for at := range t.unshared(v) {
			if before != nil && t.gapMS(*before, *at) <= t.options.MaxGap.Milliseconds() {
				for step := before.step; step < at.step; step++ {
					if !yield(position{step, t.between(before, at, step), follows}) {
						return
					}
					follows = true
				}
			} else {
				follows = false
			}
			before = at
		}
	}
}

// between returns the cell at the end of a step, between a's last fix and b's first.
func (t tracer) between(a, b *visit, step int64) grid.Cell {
	since := (step-a.step+1)*t.stepMS - int64(a.last.ms)
	share := float64(since) / float64(t.gapMS(*a, *b))
	at := func(from, to int32) float64 {
		return (float64(from) + float64(share*float64(int64(to)-int64(from)))) / pointsPerDegree
	}
	return t.grid.Locate(at(a.last.lat, b.first.lat), at(a.last.lon, b.first.lon))
}

// linked says whether the move from a to b is a transition.
func (t tracer) linked(a, b visit) bool {
	if !t.options.EveryFix && b.step != a.step+1 {
		return false
	}
	limit := t.options.MaxGap.Milliseconds()
	return limit == 0 || t.gapMS(a, b) <= limit
}

// gapMS is the time from a's last fix to b's first one.
func (t tracer) gapMS(a, b visit) int64 {
	return (b.step-a.step)*t.stepMS + int64(b.first.ms) - int64(a.last.ms)
}

func (p point) cell(g *grid.Grid) grid.Cell {
	return g.Locate(float64(p.lat)/pointsPerDegree, float64(p.lon)/pointsPerDegree)
}
