package train

import (
	"maps"
	"slices"

	"github.com/geodither/geodither/mechanism/parallel"
)

// counts are sums over all users, each user capped per cell, sorted by cells.
type counts struct {
	transitions []Pair
	// classes are the transitions of each class of the calendar, capped separately; nil if there is
	// only one class.
	classes    [][]Pair
	popularity []Pair
	raw        int64 // transitions before capping
	dropped    int64 // records left out because their fixes are shared
}

// userCounts are one user's part of the counts, or the sums of several users.
type userCounts struct {
	transitions, popularity sum
	classes                 []sum
	raw, dropped            int64
}

// count counts the users' transitions on all cores. It adds the users up in order of their names,
// so that sums of capped weights are the same bits every time.
func count(users map[string]*visits, t tracer, work *parallel.Progress) (counts, error) {
	var all userCounts
	if n := t.options.Calendar.Classes(); n > 1 {
		all.classes = make([]sum, n)
	}
	tasks := func(yield func(func() (userCounts, error), error) bool) {
		for _, name := range slices.Sorted(maps.Keys(users)) {
			if !yield(func() (userCounts, error) {
				return countUser(name, users[name], t), nil
			}, nil) {
				return
			}
		}
	}
	if err := parallel.Ordered(tasks, func(user userCounts) error {
		all.transitions.addPairs(user.transitions.list)
		all.popularity.addPairs(user.popularity.list)
		for class := range all.classes {
			all.classes[class].addPairs(user.classes[class].list)
		}
		all.raw += user.raw
		all.dropped += user.dropped
		return work.Add(1)
	}); err != nil {
		return counts{}, err
	}
	c := counts{
		transitions: all.transitions.merged(), popularity: all.popularity.merged(),
		raw: all.raw, dropped: all.dropped,
	}
	for class := range all.classes {
		c.classes = append(c.classes, all.classes[class].merged())
	}
	return c, nil
}

func countUser(name string, v *visits, t tracer) userCounts {
	moves := t.moves(name, v)
	user := userCounts{raw: int64(len(moves.transitions)), dropped: t.dropped(v)}
	limit := t.options.UserCap
	if classes := t.options.Calendar.Classes(); classes > 1 {
		user.classes = make([]sum, classes)
		for i, pair := range moves.transitions {
			class := &user.classes[t.options.Calendar.ClassAt(moves.steps[i]*t.stepMS)]
			class.list = append(class.list, pair)
		}
		for class := range user.classes {
			user.classes[class].list = capped(mergePairs(user.classes[class].list), limit)
		}
	}
	user.transitions.list = capped(mergePairs(moves.transitions), limit)
	user.popularity.list = capped(mergePairs(moves.stays), limit)
	return user
}

// sum adds up lists. Weights of equal pairs of cells are added in the order in which the lists
// came. Memory: two to three times that of the result.
type sum struct {
	list []Pair
	tidy int // length of the list when it was last merged
}

func (s *sum) addPairs(list []Pair) {
	s.list = append(s.list, list...)
	if len(s.list) > 2*s.tidy+1<<16 {
		s.merged()
	}
}

func (s *sum) merged() []Pair {
	s.list = mergePairs(s.list)
	s.tidy = len(s.list)
	return s.list
}

// capped scales each cell's weights down to a total of at most limit, in place. The list is one
// user's, merged: its weights are whole numbers.
func capped(list []Pair, limit int) []Pair {
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

// dropped counts a user's records that are left out.
func (t tracer) dropped(v *visits) (n int64) {
	for i := range v.records {
		if t.drops(&v.records[i]) {
			n++
		}
	}
	return n
}
