package private

import (
	"cmp"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// move is one transition that counts, and the calendar's class of its time.
type move struct {
	class    int
	from, to grid.Cell
}

func (m move) compare(n move) int {
	return cmp.Or(cmp.Compare(m.class, n.class), cmp.Compare(m.from, n.from),
		cmp.Compare(m.to, n.to))
}

// tally is how often a move counts, over all users.
type tally struct {
	move
	n int64
}

// contribute returns the moves of one user that count: at most contribution of them, in no
// particular order. moves are all of the user's moves within the radius; they are sorted in place.
// The choice depends on these and on a secret random source of the user's own, so no user's choice
// depends on who else is there.
//
// Each move has the same chance. The moves kept are evenly spaced in the order of classes and
// cells, so every part of the map and every kind of move has its share of them, to within one. The
// alternative, the same number of moves for each cell, would fill up with short visits and
// underrate staying: for Geolife's users it cost 0.1 to 0.2 of the logarithm of a step's
// likelihood.
func contribute(moves []move, contribution int, random noise.Source) []move {
	slices.SortFunc(moves, move.compare)
	return thin(moves, contribution, random)
}

// thin keeps n of the moves, evenly spaced from a random start, or all if there are no more than n.
// It works in place.
func thin(moves []move, n int, random noise.Source) []move {
	if len(moves) <= n {
		return moves
	}
	// A move is kept where a multiple of n, plus the random start, passes a multiple of len(moves).
	at := noise.Below(random, uint64(len(moves)))
	kept := moves[:0]
	for _, m := range moves {
		if at += uint64(n); at >= uint64(len(moves)) {
			at -= uint64(len(moves))
			kept = append(kept, m)
		}
	}
	return kept
}

// tallied counts equal moves and returns them in ascending order.
func tallied(moves []move) []tally {
	slices.SortFunc(moves, move.compare)
	var list []tally
	for i, m := range moves {
		if i == 0 || moves[i-1] != m {
			list = append(list, tally{move: m})
		}
		list[len(list)-1].n++
	}
	return list
}
