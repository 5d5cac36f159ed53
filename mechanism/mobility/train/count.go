package train

import (
	"maps"
	"slices"

	"github.com/geodither/geodither/mechanism/mobility/train/internal/smooth"
	"github.com/geodither/geodither/mechanism/parallel"
)

// counts are sums over all users, each capped per cell, sorted by cells.
type counts struct {
	transitions []smooth.Pair
	// classes are the transitions of each class of the calendar, capped by themselves; nil if there is but one.
	classes    [][]smooth.Pair
	popularity []smooth.Pair
	raw        int64
	dropped    int64
}

// own is one user's part of the counts.
type own struct {
	transitions, popularity sum
	classes                 []sum
	raw, dropped            int64
}

// count goes through the users on all cores, and adds them up in order of their names, so that sums of capped weights come out the
// same.
func (t *Trainer) count(work *parallel.Progress) (counts, error) {
	var all own
	if n := t.options.Calendar.Classes(); n > 1 {
		all.classes = make([]sum, n)
	}
	users := func(yield func(func() (own, error), error) bool) {
		for _, name := range slices.Sorted(maps.Keys(t.users)) {
			if !yield(func() (own, error) { return t.countUser(name), nil }, nil) {
				return
			}
		}
	}
	if err := parallel.Ordered(users, func(user own) error {
		all.transitions.add(user.transitions.list)
		all.popularity.add(user.popularity.list)
		for class := range all.classes {
			all.classes[class].add(user.classes[class].list)
		}
		all.raw += user.raw
		all.dropped += user.dropped
		return work.Add(1)
	}); err != nil {
		return counts{}, err
	}
	c := counts{transitions: all.transitions.merged(), popularity: all.popularity.merged(), raw: all.raw, dropped: all.dropped}
	for class := range all.classes {
		c.classes = append(c.classes, all.classes[class].merged())
	}
	return c, nil
}

func (t *Trainer) countUser(name string) own {
	pairs, stays, steps := t.pairs(name)
	user := own{raw: int64(len(pairs)), dropped: t.dropped(name)}
	if classes := t.options.Calendar.Classes(); classes > 1 {
		user.classes = make([]sum, classes)
		for i, pair := range pairs {
			class := &user.classes[t.options.Calendar.ClassAt(steps[i]*t.stepMS)]
			class.list = append(class.list, pair)
		}
		for class := range user.classes {
			user.classes[class].list = capped(smooth.Merge(user.classes[class].list), t.options.UserCap)
		}
	}
	user.transitions.list = capped(smooth.Merge(pairs), t.options.UserCap)
	user.popularity.list = capped(smooth.Merge(stays), t.options.UserCap)
	return user
}

// pairs returns one user's transitions with the steps that they leave, and stays, one by one.
func (t *Trainer) pairs(name string) (pairs, stays []smooth.Pair, steps []int64) {
	for track := range t.tracksOf(name) {
		for i, cell := range track.Cells {
			stays = append(stays, smooth.Pair{From: cell, To: cell, Weight: 1})
			if i > 0 {
				pairs = append(pairs, smooth.Pair{From: track.Cells[i-1], To: cell, Weight: 1})
				steps = append(steps, track.Steps[i-1])
			}
		}
	}
	return pairs, stays, steps
}

// sum adds up lists, equal pairs of cells in the order in which the lists came. Memory: that of the result, two to three times.
type sum struct {
	list []smooth.Pair
	tidy int // how many there were when they were merged last
}

func (s *sum) add(list []smooth.Pair) {
	s.list = append(s.list, list...)
	if len(s.list) > 2*s.tidy+1<<16 {
		s.merged()
	}
}

func (s *sum) merged() []smooth.Pair {
	s.list = smooth.Merge(s.list)
	s.tidy = len(s.list)
	return s.list
}

// capped scales each cell's weights down to a total of at most limit. list is one user's, merged: its weights are whole
// numbers.
func capped(list []smooth.Pair, limit int) []smooth.Pair {
	for start := 0; start < len(list); {
		end, total := start, 0.0
		for ; end < len(list) && list[end].From == list[start].From; end++ {
			total += list[end].Weight
		}
		if scale := float64(limit) / total; scale < 1 {
			for i := start; i < end; i++ {
				list[i].Weight *= scale
			}
		}
		start = end
	}
	return list
}
