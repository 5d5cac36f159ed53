package mobility

import (
	"cmp"
	"maps"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// weighted is a capped number of transitions from one cell to another, or with to = from of steps spent in it.
type weighted struct {
	from, to grid.Cell
	weight   float64
}

func compareCells(a, b weighted) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
}

// counts are sums over all users, each capped per cell, sorted by cells.
type counts struct {
	transitions []weighted
	// classes are the transitions of each class of the calendar, capped by themselves; nil if there is but one.
	classes    [][]weighted
	popularity []weighted
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
func (t *Trainer) count(work *progress) (counts, error) {
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
	if err := inOrder(users, func(user own) error {
		all.transitions.add(user.transitions.list)
		all.popularity.add(user.popularity.list)
		for class := range all.classes {
			all.classes[class].add(user.classes[class].list)
		}
		all.raw += user.raw
		all.dropped += user.dropped
		return work.add(1)
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
			user.classes[class].list = capped(merge(user.classes[class].list), t.options.UserCap)
		}
	}
	user.transitions.list = capped(merge(pairs), t.options.UserCap)
	user.popularity.list = capped(merge(stays), t.options.UserCap)
	return user
}

// pairs returns one user's transitions with the steps that they leave, and stays, one by one.
func (t *Trainer) pairs(name string) (pairs, stays []weighted, steps []int64) {
	for track := range t.tracksOf(name) {
		for i, cell := range track.Cells {
			stays = append(stays, weighted{cell, cell, 1})
			if i > 0 {
				pairs = append(pairs, weighted{track.Cells[i-1], cell, 1})
				steps = append(steps, track.Steps[i-1])
			}
		}
	}
	return pairs, stays, steps
}

// sum adds up lists, equal pairs of cells in the order in which the lists came. Memory: that of the result, two to three times.
type sum struct {
	list []weighted
	tidy int // how many there were when they were merged last
}

func (s *sum) add(list []weighted) {
	s.list = append(s.list, list...)
	if len(s.list) > 2*s.tidy+1<<16 {
		s.merged()
	}
}

func (s *sum) merged() []weighted {
	s.list = merge(s.list)
	s.tidy = len(s.list)
	return s.list
}

// merge sorts by cells and adds up equal pairs, in the order they came. It works in place.
func merge(list []weighted) []weighted {
	slices.SortStableFunc(list, compareCells)
	kept := list[:0]
	for _, w := range list {
		if n := len(kept); n > 0 && compareCells(kept[n-1], w) == 0 {
			kept[n-1].weight += w.weight
		} else {
			kept = append(kept, w)
		}
	}
	return kept
}

// capped scales each cell's weights down to a total of at most limit. list is one user's, merged: its weights are whole
// numbers.
func capped(list []weighted, limit int) []weighted {
	for start := 0; start < len(list); {
		end, total := start, 0.0
		for ; end < len(list) && list[end].from == list[start].from; end++ {
			total += list[end].weight
		}
		if scale := float64(limit) / total; scale < 1 {
			for i := start; i < end; i++ {
				list[i].weight *= scale
			}
		}
		start = end
	}
	return list
}
