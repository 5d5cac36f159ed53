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
	popularity  []weighted
	raw         int64
}

// count goes through the users in order of their names, so that sums of capped weights add up in one order.
func (t *Trainer) count(work *progress) (counts, error) {
	var c counts
	for _, name := range slices.Sorted(maps.Keys(t.users)) {
		if err := work.add(1); err != nil {
			return counts{}, err
		}
		pairs, stays := t.pairs(name)
		c.raw += int64(len(pairs))
		c.transitions = append(c.transitions, capped(merge(pairs), t.options.UserCap)...)
		c.popularity = append(c.popularity, capped(merge(stays), t.options.UserCap)...)
	}
	c.transitions, c.popularity = merge(c.transitions), merge(c.popularity)
	return c, nil
}

// pairs returns one user's transitions and stays, one by one.
func (t *Trainer) pairs(name string) (pairs, stays []weighted) {
	for track := range t.tracksOf(name, t.users[name]) {
		for i, cell := range track.Cells {
			stays = append(stays, weighted{cell, cell, 1})
			if i > 0 {
				pairs = append(pairs, weighted{track.Cells[i-1], cell, 1})
			}
		}
	}
	return pairs, stays
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
