package train

import (
	"iter"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train/internal/smooth"
)

// Personals returns each user's own counts, in ascending order of the users' names: what [mobility.NewPersonal] lays over the popular
// model. weight is κ; 0 means [mobility.DefaultPersonalWeight]. Users without a fix in the box have none.
//
// Counts are whole and not capped. A cap keeps one user from speaking for others; here nobody else is spoken for, and given the
// cell the transitions out of it are what a Markov chain takes for independent draws, however long somebody stayed. On Geolife a cap of
// 300 a cell changed nothing, and one of 30 foretold worse.
func (t *Trainer) Personals(weight float64) iter.Seq2[string, mobility.PersonalCounts] {
	t.settle()
	return func(yield func(string, mobility.PersonalCounts) bool) {
		for name := range t.Users() {
			pairs, stays, _ := t.pairs(name)
			c := mobility.PersonalCounts{Weight: weight, Transitions: countsOf(smooth.Merge(pairs)), Visits: countsOf(smooth.Merge(stays))}
			if len(c.Visits) > 0 && !yield(name, c) {
				return
			}
		}
	}
}

func countsOf(list []smooth.Pair) []mobility.Count {
	counts := make([]mobility.Count, len(list))
	for i, w := range list {
		counts[i] = mobility.Count{From: w.From, To: w.To, N: w.Weight}
	}
	return counts
}
