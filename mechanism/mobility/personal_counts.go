package mobility

import "iter"

// Personals returns each user's own counts, in ascending order of the users' names: what [NewPersonal] lays over the popular
// model. weight is κ; 0 means [DefaultPersonalWeight]. Users without a fix in the box have none.
//
// Counts are whole and not capped. A cap keeps one user from speaking for others; here nobody else is spoken for, and given the
// cell the transitions out of it are what a Markov chain takes for independent draws, however long somebody stayed. On Geolife a cap of
// 300 a cell changed nothing, and one of 30 foretold worse.
func (t *Trainer) Personals(weight float64) iter.Seq2[string, PersonalCounts] {
	t.settle()
	return func(yield func(string, PersonalCounts) bool) {
		for name := range t.Users() {
			pairs, stays, _ := t.pairs(name)
			c := PersonalCounts{Weight: weight, Transitions: countsOf(merge(pairs)), Visits: countsOf(merge(stays))}
			if len(c.Visits) > 0 && !yield(name, c) {
				return
			}
		}
	}
}

func countsOf(list []weighted) []Count {
	counts := make([]Count, len(list))
	for i, w := range list {
		counts[i] = Count{w.from, w.to, w.weight}
	}
	return counts
}
