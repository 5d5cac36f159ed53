package experiment

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/trial"
)

//go:embed knn.md
var knnText string

// knn is nearest places asked from releases, under the popular model.
var knn = study.Experiment{
	Name: "knn", Title: "Nearest neighbours", Text: knnText,
	Plan: func(s *study.Study) (pieces []study.Piece) {
		for _, d := range s.Data {
			for _, at := range askedFrom(s, d) {
				pieces = append(pieces, neighbours.Pieces(s, at)...)
			}
		}
		return pieces
	},
	Show: showKNN,
}

// neighbours measures for each query how many of the wanted places are among the fetched ones:
// first those asked from the release, then those asked from the estimate.
var neighbours = &study.Walks{
	Name: "knn",
	Runs: func(s *study.Study) int { return s.Options.Runs },
	Inputs: func(_ *study.Study, at study.Point) string {
		return "places " + at.Data.Places.ID
	},
	Probe: func(_ *study.Study, w *study.Walk) (study.Probe, error) {
		n := newNeighbourhood(w.Data)
		return func(to *study.Sums, r *trial.Result) error {
			to.Add(1, n.found(r.Cell, r.Outcome.Release, r.Outcome.Estimate)...)
			return nil
		}, nil
	},
}

// askedFrom are the points of a data set: the paper's ε and δ, ten times that ε, and blind.
func askedFrom(s *study.Study, d *study.Data) (points []study.Point) {
	c := study.Case{Data: d, Kind: study.Popular}
	for _, at := range knnSettings(s) {
		points = append(points, s.Ways(c, at)...)
	}
	blind := study.Point{Case: c, Blind: true}
	return append(slices.DeleteFunc(points, func(p study.Point) bool { return p.Blind }), blind)
}

func knnSettings(s *study.Study) []study.Setting {
	list := []study.Setting{s.Fixed()}
	if more := 10 * s.Options.Epsilon; law.ValidateEpsilon(more) == nil {
		list = append(list, study.Setting{Epsilon: more, Delta: s.Options.Delta})
	}
	return list
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
func queriesOf(p *study.Places) (list []query) {
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
	places  *study.Places
	queries []query
	most    query // of each number the most
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
func shareFound(s study.Sample, quantity, of int) report.Band {
	b := score{quantity: quantity, per: float64(of)}.of(s)
	b.High = min(1, b.High)
	return b
}

// The metrics, and what is asked from.
const (
	precision, recall = "precision", "recall"
	fromRelease       = "release"
	fromEstimate      = "estimate"
)

func showKNN(p *study.Page) {
	p.Text("intro", study.Figures{"delta": p.Options.Delta, "epsilon": p.Options.Epsilon})
	all := study.Long("knn", "data", "mechanism", "epsilon", "delta", "asked from", "k", "k'",
		"metric")
	for _, d := range p.Data {
		for _, at := range askedFrom(p.Study, d) {
			addAnswers(all, at, p.Read(neighbours, at).All())
		}
		showAnswers(p, d, all.Where("data", d.Name))
	}
	p.Add(all)
}

// addAnswers adds a point's shares. Without releases there is only the model's estimate to ask
// from.
func addAnswers(t *report.Table, at study.Point, s study.Sample) {
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

func showAnswers(p *study.Page, d *study.Data, t *report.Table) {
	p.Text("places", study.Figures{
		"data": d.Title, "origin": d.Places.Origin, "k": fixedK,
		"share": 100 * float64(fixedK) / float64(d.Places.Len()),
	})
	for _, g := range p.Groups() {
		drawn := t.Where("mechanism", g.Labels()...)
		showFound(p, d, g, fromRelease, drawn)
		if p.Also(study.AlsoEstimate) {
			showFound(p, d, g, fromEstimate, drawn)
		}
	}
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

// question is one column of a figure.
type question struct {
	title, x, y string
	rows        func(*report.Table) *report.Table
}

func questions() []question {
	some := func(metric string) func(*report.Table) *report.Table {
		return func(t *report.Table) *report.Table {
			return t.Where("metric", metric).Where("k", fixedK)
		}
	}
	nearest := fmt.Sprintf("the nearest %d wanted", fixedK)
	return []question{
		{
			"as many answers as wanted", "k = k', places", "precision = recall, share",
			func(t *report.Table) *report.Table {
				return t.Where("metric", precision).Equal("k", "k'")
			},
		},
		{nearest, "answers k', places", "precision, share of the answers", some(precision)},
		{nearest, "answers k', places", "recall, share of the wanted", some(recall)},
	}
}

// showFound draws what is found from releases or from estimates.
func showFound(p *study.Page, d *study.Data, g study.Group, from string, t *report.Table) {
	file := "knn-" + d.Name
	if from == fromEstimate {
		file += "-estimate"
	}
	title := fmt.Sprintf("%s: nearest places found from %ss", d.Title, from)
	f := &chart.Figure{
		Title: g.Titled(title, "; "), Columns: 3, PanelWidth: 3.5, PanelHeight: 2.8,
		Note: p.Say("note", study.Figures{
			"places": d.Places.Len(), "users": len(p.Traces(d)), "runs": p.Options.Runs,
			"delta": p.Options.Delta,
		}),
	}
	for _, at := range knnSettings(p.Study) {
		rows := t.Where("asked from", from, nil).Where("epsilon", at.Epsilon, nil)
		for _, q := range questions() {
			f.Panels = append(f.Panels, &chart.Lines{
				Title:  fmt.Sprintf("ε = %g: %s", at.Epsilon, q.title),
				X:      chart.Axis{Label: q.x, Log: true},
				Y:      chart.Axis{Label: q.y, Zero: true},
				Series: styled(q.rows(rows).Lines("mechanism", []string{"k'"}, nil)),
			})
		}
	}
	p.Figure(g.File(file), p.Say("caption",
		study.Figures{"data": d.Title, "from": from + "s", "group": g.Title}), f)
}
