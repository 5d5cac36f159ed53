package experiment

import (
	"cmp"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// ownWeight is κ of a personal model here: its rows are the user's own where there are any, as the
// paper's are.
const ownWeight = .1

// Personal returns the model of a kind for a trace, over the popular one; nil for Popular.
func (d *Data) Personal(kind Kind, popular *mobility.Model, t *Trace) (*mobility.Personal, error) {
	if kind == Popular {
		return nil, nil
	}
	transitions, visits := map[[2]grid.Cell]float64{}, map[[2]grid.Cell]float64{}
	number := int64(0)
	for _, track := range d.tracks[t.User] {
		for i, cell := range track.Cells {
			at := track.Steps[i]
			if d.EveryFix { // check-ins are counted one by one
				at = number
			}
			number++
			if kind == PersonalEarlier && at >= t.Steps[0] {
				break
			}
			visits[[2]grid.Cell{cell, cell}]++
			if i > 0 {
				transitions[[2]grid.Cell{track.Cells[i-1], cell}]++
			}
		}
	}
	return mobility.NewPersonal(
		popular,
		mobility.PersonalCounts{
			Weight: ownWeight, Transitions: counts(transitions), Visits: counts(visits),
		},
	)
}

func counts(of map[[2]grid.Cell]float64) []mobility.Count {
	list := make([]mobility.Count, 0, len(of))
	for cells, n := range of {
		list = append(list, mobility.Count{From: cells[0], To: cells[1], N: n})
	}
	slices.SortFunc(
		list,
		func(a, b mobility.Count) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		},
	)
	return list
}
