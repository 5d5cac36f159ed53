package mobility

import (
	"iter"
	"maps"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Track is a stretch of one user's trace without a gap: Cells[i] is where the user was in Steps[i], and each step is the one
// after the one before. With EveryFix it is a run of successive fixes, whose steps may lie apart or be the same.
type Track struct {
	User  string
	Steps []int64
	Cells []grid.Cell
}

// Tracks returns what training counts, user by user in ascending order of their names and then of time: each pair of
// successive cells of a track is a transition. keep chooses the users; nil: all.
func (t *Trainer) Tracks(keep func(user string) bool) iter.Seq[Track] {
	t.settle()
	return func(yield func(Track) bool) {
		for _, name := range slices.Sorted(maps.Keys(t.users)) {
			if keep != nil && !keep(name) {
				continue
			}
			for track := range t.tracksOf(name, t.users[name]) {
				if !yield(track) {
					return
				}
			}
		}
	}
}

// tracksOf cuts one user's records, which are settled.
func (t *Trainer) tracksOf(name string, user *visits) iter.Seq[Track] {
	return func(yield func(Track) bool) {
		track := Track{User: name}
		for i, v := range user.records {
			if i > 0 && !t.linked(user.records[i-1], v) {
				if !yield(track) {
					return
				}
				track = Track{User: name}
			}
			track.Steps = append(track.Steps, v.step)
			track.Cells = append(track.Cells, v.last.cell(t.grid))
		}
		if len(track.Steps) > 0 {
			yield(track)
		}
	}
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
