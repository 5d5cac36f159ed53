package main

import (
	"cmp"
	"slices"

	"github.com/geodither/geodither/schemas"
)

// cost is what one published record has cost its user.
type cost struct {
	step    int64
	epsilon float64
}

// costs are what was published of each user, in any partition: what an observer of the
// sanitized topic can add up, without knowing how the service keeps its account.
type costs map[string][]cost

func (c costs) add(r schemas.Sanitized) {
	if r.Epsilon != 0 {
		c[r.UserID] = append(c[r.UserID], cost{r.Step, r.Epsilon})
	}
}

// exceeded counts the users of whom more ε than the budget was published in any window of
// that many steps; most is the largest sum of any user in any window.
func (c costs) exceeded(budget float64, steps int64) (users int, most float64) {
	const rounding = 1e-9 // of a sum of at most some thousand costs
	for _, all := range c {
		slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.step, b.step) })
		first, sum, largest := 0, 0.0, 0.0
		for _, last := range all {
			sum += last.epsilon
			for all[first].step <= last.step-steps {
				sum -= all[first].epsilon
				first++
			}
			largest = max(largest, sum)
		}
		if largest > budget+rounding {
			users++
		}
		most = max(most, largest)
	}
	return users, most
}
