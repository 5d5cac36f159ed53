package train

import (
	"cmp"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Pair is a pair of cells with a weight: a number of transitions from one to the other or, where To
// equals From, of steps spent in the cell.
type Pair struct {
	From, To grid.Cell
	Weight   float64
}

func compareCells(a, b Pair) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// mergePairs sorts a list by cells and adds up equal pairs in the order in which they came. It
// works in place.
func mergePairs(list []Pair) []Pair {
	slices.SortStableFunc(list, compareCells)
	kept := list[:0]
	for _, w := range list {
		if n := len(kept); n > 0 && compareCells(kept[n-1], w) == 0 {
			kept[n-1].Weight += w.Weight
		} else {
			kept = append(kept, w)
		}
	}
	return kept
}
