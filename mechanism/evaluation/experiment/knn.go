package experiment

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/trial"
)

//go:embed knn.md
var knnText string

// Query is a pair of k, how many nearest places of the truth are wanted, and k', how many places
// nearest to the release are fetched.
type Query struct{ K, Fetched int }

// The paper's two rows of queries: k = k', and k = 5 with growing k'.
var (
	equalKs     = []int{1, 2, 5, 10, 20, 50}
	fixedK      = 5
	fetchedMore = []int{5, 10, 20, 50, 100}
)

// queriesOf returns those that a set of places can answer, each once: the ones with k = k' first.
func queriesOf(p *study.Places) (list []Query) {
	for _, k := range equalKs {
		list = append(list, Query{k, k})
	}
	for _, fetched := range fetchedMore {
		if q := (Query{fixedK, fetched}); !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	return slices.DeleteFunc(list, func(q Query) bool { return q.Fetched > p.Len() })
}

// Neighbours adds up one user's |R∩R'|, for each query. R are the k places nearest to the truth,
// R' the k' nearest to what is published.
type Neighbours struct {
	N        int64     // timestamps, of all runs
	Release  []float64 // Σ|R∩R'| for the release
	Estimate []float64 // and for the estimate
}

// neighbourhood answers the queries for the cells of a map.
type neighbourhood struct {
	places  *study.Places
	queries []Query
	most    Query // of each number the most
	grid    *grid.Grid
	truths  map[grid.Cell][]int
	fetched []int
	rank    map[int]int
}

func newNeighbourhood(d *study.Data) *neighbourhood {
	n := &neighbourhood{
		places: d.Places, queries: queriesOf(d.Places), grid: d.Grid, truths: map[grid.Cell][]int{},
		rank: map[int]int{},
	}
	for _, q := range n.queries {
		n.most.K, n.most.Fetched = max(n.most.K, q.K), max(n.most.Fetched, q.Fetched)
	}
	return n
}

// truth returns the places nearest to a cell's centre.
func (n *neighbourhood) truth(c grid.Cell) []int {
	found, ok := n.truths[c]
	if !ok {
		found = n.places.Nearest(nil, n.grid.Centre(c), n.most.K)
		n.truths[c] = found
	}
	return found
}

// count adds to hits |R∩R'| of each query.
func (n *neighbourhood) count(hits []float64, truth []int, at grid.Point) {
	n.fetched = n.places.Nearest(n.fetched[:0], at, n.most.Fetched)
	clear(n.rank)
	for i, place := range n.fetched {
		n.rank[place] = i
	}
	for i, q := range n.queries {
		for _, place := range truth[:min(q.K, len(truth))] {
			if rank, ok := n.rank[place]; ok && rank < q.Fetched {
				hits[i]++
			}
		}
	}
}

func (n *neighbourhood) add(t *Neighbours, cell grid.Cell, out mechanism.Outcome) {
	if t.Release == nil {
		t.Release, t.Estimate = make([]float64, len(n.queries)), make([]float64, len(n.queries))
	}
	t.N++
	truth := n.truth(cell)
	n.count(t.Release, truth, out.Release)
	n.count(t.Estimate, truth, out.Estimate)
}

// knn is the experiment on one data set: nearest places asked from releases.
type knn struct {
	*study.Study
	prose study.Prose
	data  *study.Data
}

// knns returns the experiment on each data set.
func knns(s *study.Study) (list []*knn) {
	prose := study.NewProse(knnText)
	for _, d := range s.Data {
		list = append(list, &knn{s, prose, d})
	}
	return list
}

func knnExperiment() study.Experiment {
	return study.Experiment{
		Name: "knn", Title: "Nearest neighbours",
		Plan: func(s *study.Study) (pieces []study.Piece, err error) {
			for _, x := range knns(s) {
				pieces = append(pieces, x.pieces()...)
			}
			return pieces, nil
		},
		Report: reportKNN,
	}
}

// settings are the paper's ε and δ, and ten times that ε.
func (x *knn) settings() []study.Setting {
	o := x.Options
	list := []study.Setting{{Epsilon: o.Epsilon, Delta: o.Delta}}
	if more := 10 * o.Epsilon; law.ValidateEpsilon(more) == nil {
		list = append(list, study.Setting{Epsilon: more, Delta: o.Delta})
	}
	return list
}

func (x *knn) name(what string, fold int) string {
	return fmt.Sprintf("knn/%s/%s/fold %d", x.data.Name, what, fold)
}

// pieces are, for each fold, the blind baseline and one for each variant and setting.
func (x *knn) pieces() (pieces []study.Piece) {
	d, o := x.data, x.Options
	inputs := fmt.Sprintf("%s places %s users %d", d.ID, d.Places.ID, len(x.Traces(d)))
	x.EachFold(d, func(of []study.Trace) {
		timestamps, fold := study.Timestamps(of), of[0].Fold
		pieces = append(pieces, study.Piece{
			Name: x.name("blind", fold), Inputs: inputs, Work: timestamps,
			Run: func(tick study.Tick) (any, error) {
				return x.neighbours(
					of,
					asked{
						variant: study.PIM, at: study.Setting{Epsilon: 1, Delta: .01}, runs: 1,
						blind: true,
					},
					tick,
				)
			},
		})
		for _, v := range x.Variants() {
			for _, at := range x.settings() {
				pieces = append(pieces, study.Piece{
					Name:   x.name(v.At(at), fold),
					Inputs: fmt.Sprintf("%s seed %d runs %d", inputs, o.Seed, o.Runs),
					Work:   timestamps * int64(o.Runs),
					Run: func(tick study.Tick) (any, error) {
						return x.neighbours(
							of, asked{variant: v, at: at, runs: o.Runs, seed: o.Seed}, tick)
					},
				})
			}
		}
	})
	return pieces
}

// asked says from what places are asked for: the releases of a variant at a setting, or the blind
// baseline.
type asked struct {
	variant study.Variant
	at      study.Setting
	runs    int
	seed    uint64
	blind   bool
}

// neighbours measures a fold's traces under the popular model.
func (x *knn) neighbours(traces []study.Trace, from asked, tick study.Tick) ([]Neighbours, error) {
	d := x.data
	model, err := d.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	around := newNeighbourhood(d)
	tallies := make([]Neighbours, len(traces))
	for run := range from.runs {
		options := d.Release(from.variant, from.at.Epsilon, from.at.Delta)
		s, err := mechanism.NewSanitizer(model, study.Keyed(from.seed, run), options)
		if err != nil {
			return nil, err
		}
		runner := trial.Runner{Sanitizer: s, Release: !from.blind}
		for i := range traces {
			t := &traces[i]
			tell := study.Strides(len(t.Steps), tick)
			err := runner.Run(t.Track(d.Grid, nil), func(r *trial.Result) error {
				around.add(&tallies[i], r.Cell, r.Outcome)
				return tell(r.Number)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return tallies, nil
}

// tallies returns the users' tallies of what was measured: a variant at a setting, or "blind".
func (x *knn) tallies(r *study.Results, what string) ([]Neighbours, error) {
	return study.Gathered(x.Study, x.data, func(fold int) ([]Neighbours, error) {
		var got []Neighbours
		err := r.Get(x.name(what, fold), &got)
		return got, err
	})
}

// precision returns |R∩R'|/k' of a query, over users; recall returns |R∩R'|/k.
func precision(tallies []Neighbours, query int, q Query, estimate bool) study.Band {
	return hitBand(tallies, query, float64(q.Fetched), estimate)
}

func recall(tallies []Neighbours, query int, q Query, estimate bool) study.Band {
	return hitBand(tallies, query, float64(q.K), estimate)
}

func hitBand(tallies []Neighbours, query int, of float64, estimate bool) study.Band {
	over, by := make([]float64, len(tallies)), make([]float64, len(tallies))
	for i, t := range tallies {
		over[i], by[i] = t.hits(estimate)[query]/of, float64(t.N)
	}
	b := study.Ratio(over, by)
	b.High = min(1, b.High)
	return b
}

func (t *Neighbours) hits(estimate bool) []float64 {
	if estimate {
		return t.Estimate
	}
	return t.Release
}
