package experiment

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/trial"
)

// knn is nearest places asked from releases, under the popular model.
var knn = Experiment{
	Name: "knn", Title: "Nearest neighbours",
	Plan: func(s *Study) (pieces []Piece) {
		for _, d := range s.Data {
			pieces = append(pieces, neighbours.all(s, askedFrom(s, d))...)
		}
		return pieces
	},
	Show: showKNN,
}

// neighbours measures for each query how many of the wanted places are among the fetched ones:
// first those asked from the release, then those asked from the estimate.
var neighbours = &Walks{
	Name: "knn",
	Runs: func(s *Study) int { return s.Options.Runs },
	Inputs: func(_ *Study, at Point) string {
		return "places " + at.Data.Places.ID
	},
	Probe: func(_ *Study, w *Walk) (Probe, error) {
		n := newNeighbourhood(w.Data)
		return func(to *Sums, r *trial.Result) error {
			to.Add(1, n.found(r.Cell, r.Outcome.Release, r.Outcome.Estimate)...)
			return nil
		}, nil
	},
}

// askedAt are the settings: the paper's, and ten times its ε.
var askedAt = []Setting{Fixed, {Epsilon: 10, Delta: Fixed.Delta}}

// askedFrom are the points of a data set: each variant at each setting, and blind.
func askedFrom(s *Study, d *Data) []Point {
	c := Case{Data: d, Kind: Popular}
	points := slices.DeleteFunc(append(s.Ways(c, askedAt[0]), s.Ways(c, askedAt[1])...),
		func(p Point) bool { return p.Blind })
	return append(points, Point{Case: c, Blind: true})
}

// query is a pair of k, how many nearest places of the truth are wanted, and k', how many places
// nearest to the release are fetched.
type query struct{ k, fetched int }

// The paper's two rows of queries: k = k', and k = 5 with growing k'.
var (
	equalKs     = []int{1, 2, 5, 10, 20, 50}
	fixedK      = 5
	fetchedMore = []int{5, 10, 20, 50, 100}
)

// queriesOf returns those that a set of places can answer, each once: the ones with k = k' first.
func queriesOf(p *Places) (list []query) {
	for _, k := range equalKs {
		list = append(list, query{k, k})
	}
	for _, fetched := range fetchedMore {
		if q := (query{fixedK, fetched}); !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	return slices.DeleteFunc(list, func(q query) bool { return q.fetched > p.Len() })
}

// neighbourhood answers the queries for the cells of a map.
type neighbourhood struct {
	places  *Places
	queries []query
	most    query // of each number the most
	grid    *grid.Grid
	truths  map[grid.Cell][]int
	fetched []int
	rank    map[int]int
}

func newNeighbourhood(d *Data) *neighbourhood {
	n := &neighbourhood{
		places: d.Places, queries: queriesOf(d.Places), grid: d.Grid, truths: map[grid.Cell][]int{},
		rank: map[int]int{},
	}
	for _, q := range n.queries {
		n.most.k, n.most.fetched = max(n.most.k, q.k), max(n.most.fetched, q.fetched)
	}
	return n
}

// truth returns the places nearest to a cell's centre.
func (n *neighbourhood) truth(c grid.Cell) []int {
	found, ok := n.truths[c]
	if !ok {
		found = n.places.Nearest(nil, n.grid.Centre(c), n.most.k)
		n.truths[c] = found
	}
	return found
}

// found returns |R∩R'| of each query, for each of some points asked from. R are the k places
// nearest to the true cell, R' the k' nearest to the point.
func (n *neighbourhood) found(truth grid.Cell, from ...grid.Point) (hits []float64) {
	wanted := n.truth(truth)
	for _, at := range from {
		n.fetched = n.places.Nearest(n.fetched[:0], at, n.most.fetched)
		clear(n.rank)
		for i, place := range n.fetched {
			n.rank[place] = i
		}
		for _, q := range n.queries {
			count := 0
			for _, place := range wanted[:min(q.k, len(wanted))] {
				if rank, ok := n.rank[place]; ok && rank < q.fetched {
					count++
				}
			}
			hits = append(hits, float64(count))
		}
	}
	return hits
}

// shareFound returns |R∩R'| / of, at most 1. quantity is the query's number, behind all
// queries for the estimate.
func shareFound(s Sample, quantity, of int) report.Band {
	b := score{quantity: quantity, per: float64(of)}.bandOf(s)
	b.High = min(1, b.High)
	return b
}

// The metrics, and what is asked from.
const (
	precision, recall = "precision", "recall"
	fromRelease       = "release"
	fromEstimate      = "estimate"
)

func showKNN(p *Page) {
	all := numbers("knn", "data", "mechanism", "epsilon", "delta", "asked from", "k", "k'",
		"metric")
	for _, d := range p.Data {
		for _, at := range askedFrom(p.Study, d) {
			addAnswers(all, at, p.Read(neighbours, at).All())
		}
		t := all.Where("data", d.Name)
		p.Add(foundFrom(p, d, t.Where("asked from", fromRelease, nil)))
		recalls := t.Where("metric", recall)
		few := recalls.Equal("k", "k'").Where("k", 1, fixedK, 50)
		few.Rows = append(few.Rows, recalls.Where("k", fixedK).Where("k'", 100).Rows...)
		p.Table("knn-"+d.Name,
			d.Title+": share of the nearest places found, with 95 % confidence over users.",
			few.Pivot([]string{"epsilon", "mechanism", "asked from"}, "k'", map[string]string{
				"epsilon": "ε", "1": "k = k' = 1", "5": "k = k' = 5", "50": "k = k' = 50",
				"100": "recall for k = 5, k' = 100",
			}))
	}
	p.Add(all)
}

// addAnswers adds a point's shares. Without releases there is only the model's estimate to ask
// from.
func addAnswers(t *report.Table, at Point, s Sample) {
	queries := queriesOf(at.Data.Places)
	label, epsilon, delta := at.Cells()
	for i, from := range []any{fromRelease, fromEstimate} {
		if at.Blind && from == fromRelease {
			continue
		}
		if at.Blind {
			from = nil
		}
		for k, q := range queries {
			add := func(metric string, of int) {
				t.Add(at.Data.Name, label, epsilon, delta, from, q.k, q.fetched, metric,
					shareFound(s, k+i*len(queries), of))
			}
			add(precision, q.fetched)
			add(recall, q.k)
		}
	}
}

// foundFrom draws what is found from releases at each setting: as many answers as wanted, and the
// recall of more of them.
func foundFrom(p *Page, d *Data, t *report.Table) *report.Chart {
	chart := &report.Chart{
		Name: "knn-" + d.Name, Title: d.Title + ": nearest places found from releases",
		Note: p.bands(len(p.Traces(d))),
	}
	for _, at := range askedAt {
		recalls := t.Where("epsilon", at.Epsilon, nil).Where("metric", recall)
		for title, rows := range []*report.Table{
			recalls.Equal("k", "k'"), recalls.Where("k", fixedK),
		} {
			chart.Panels = append(chart.Panels, report.Panel{
				Title: fmt.Sprintf("ε = %g, ", at.Epsilon) +
					[]string{"k = k'", fmt.Sprintf("k = %d", fixedK)}[title],
				X:      report.Axis{Label: "answers k', places", Log: true},
				Y:      report.Axis{Label: "recall, share of the wanted"},
				Series: rows.Lines("mechanism", []string{"k'"}, nil),
			})
		}
	}
	return chart
}
