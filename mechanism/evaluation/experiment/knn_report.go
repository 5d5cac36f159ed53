package experiment

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func reportKNN(s *study.Study, r *study.Results) (report.Section, error) {
	o := s.Options
	intro := study.NewProse(knnText).Say("intro",
		study.Figures{"delta": o.Delta, "epsilon": o.Epsilon})
	section := report.Section{Title: "Nearest neighbours", Parts: []report.Part{report.Text(intro)}}
	long := &report.Table{
		Name: "knn", Long: true, Caption: "Every number of the section.",
		Columns: []string{
			"data", "mechanism", "inference", "epsilon", "delta", "asked from", "k", "k'",
			"metric", "value", "low", "high",
		},
	}
	for _, x := range knns(s) {
		answers, err := x.answers(r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, x.parts(answers)...)
		for _, a := range answers {
			long.Rows = append(long.Rows, a.rows(x.data)...)
		}
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

func (x *knn) parts(answers []answered) []report.Part {
	d := x.data
	parts := []report.Part{report.Text(x.prose.Say("places", study.Figures{
		"data": d.Title, "origin": d.Places.Origin, "k": fixedK,
		"share": 100 * float64(fixedK) / float64(d.Places.Len()),
	}))}
	for _, g := range x.Groups() {
		parts = append(parts, x.figure(g, answers, false))
		if x.Also(study.AlsoEstimate) {
			parts = append(parts, x.figure(g, answers, true))
		}
	}
	return append(parts, x.table(answers))
}

// answered is what was measured of a variant at a setting, or of the blind baseline.
type answered struct {
	variant study.Variant
	at      study.Setting
	blind   bool
	tallies []Neighbours
}

// answers reads what was measured, blind last.
func (x *knn) answers(r *study.Results) (list []answered, err error) {
	for _, at := range x.settings() {
		for _, v := range x.Variants() {
			a := answered{variant: v, at: at}
			if a.tallies, err = x.tallies(r, v.At(at)); err != nil {
				return nil, err
			}
			list = append(list, a)
		}
	}
	blind := answered{blind: true, at: study.Setting{Epsilon: 0, Delta: x.Options.Delta}}
	blind.tallies, err = x.tallies(r, "blind")
	return append(list, blind), err
}

func (a *answered) label() string {
	if a.blind {
		return "blind"
	}
	return a.variant.Label()
}

// question is one column of a figure.
type question struct {
	title, x, y string
	at          func(Query) (x float64, in bool)
	of          func([]Neighbours, int, Query, bool) study.Band
}

func questions() []question {
	equal := func(q Query) (float64, bool) { return float64(q.K), q.K == q.Fetched }
	more := func(q Query) (float64, bool) { return float64(q.Fetched), q.K == fixedK }
	nearest := fmt.Sprintf("the nearest %d wanted", fixedK)
	return []question{
		{
			"as many answers as wanted", "k = k', places", "precision = recall, share", equal,
			precision,
		},
		{nearest, "answers k', places", "precision, share of the answers", more, precision},
		{nearest, "answers k', places", "recall, share of the wanted", more, recall},
	}
}

// line returns a question's line.
func (q question) line(queries []Query, a *answered, estimate bool) chart.Series {
	series := chart.Series{Name: a.label()}
	if a.blind {
		series.Reference = true
	} else {
		series.Look = a.variant.Look()
	}
	for i, query := range queries {
		if at, in := q.at(query); in {
			add(&series, at, q.of(a.tallies, i, query, estimate))
		}
	}
	return series
}

func (x *knn) figure(g study.Group, answers []answered, estimate bool) *report.Figure {
	d := x.data
	from := "releases"
	figure := &report.Figure{Name: "knn-" + d.Name}
	if estimate {
		from = "estimates"
		figure.Name += "-estimate"
	}
	title := fmt.Sprintf("%s: nearest places found from %s", d.Title, from)
	if g.Name != "" {
		figure.Name += "-" + g.Name
		title += "; " + g.Title
	}
	figure.Caption = x.prose.Say("caption",
		study.Figures{"data": d.Title, "from": from, "group": g.Title})
	queries := queriesOf(d.Places)
	f := &chart.Figure{
		Title: title, Columns: 3, PanelWidth: 3.5, PanelHeight: 2.8,
		Note: x.prose.Say("note", study.Figures{
			"places": d.Places.Len(), "users": len(x.Traces(d)), "runs": x.Options.Runs,
			"delta": x.Options.Delta,
		}),
	}
	for _, at := range x.settings() {
		for _, question := range questions() {
			panel := &chart.Lines{
				Title: fmt.Sprintf("ε = %g: %s", at.Epsilon, question.title),
				X:     chart.Axis{Label: question.x, Log: true}, Y: chart.Axis{
					Label: question.y, Zero: true,
				},
			}
			for i := range answers {
				if a := &answers[i]; a.blind || a.at == at &&
					slices.Contains(g.Variants, a.variant) {
					panel.Series = append(panel.Series, question.line(queries, a, estimate))
				}
			}
			f.Panels = append(f.Panels, panel)
		}
	}
	figure.Chart = f
	return figure
}

// table has some of the queries.
func (x *knn) table(answers []answered) *report.Table {
	d := x.data
	table := &report.Table{
		Name:    "knn-" + d.Name,
		Caption: d.Title + ": share of the nearest places found, with 95 % confidence over users.",
		Columns: []string{"ε", "mechanism", "asked from"},
	}
	queries := queriesOf(d.Places)
	var shown []int
	for i, q := range queries {
		if q == (Query{1, 1}) || q == (Query{5, 5}) || q == (Query{50, 50}) {
			table.Columns = append(table.Columns, fmt.Sprintf("k = k' = %d", q.K))
			shown = append(shown, i)
		}
		if q == (Query{5, 100}) {
			table.Columns = append(table.Columns, "recall for k = 5, k' = 100")
			shown = append(shown, i)
		}
	}
	for i := range answers {
		a := &answers[i]
		for _, estimate := range []bool{false, true} {
			row := []string{fmt.Sprint(a.at.Epsilon), a.label(), askedFrom(estimate)}
			if a.blind {
				if !estimate {
					continue
				}
				row = []string{"", "blind", "the model's guess"}
			}
			for _, k := range shown {
				row = append(row, recall(a.tallies, k, queries[k], estimate).String())
			}
			table.Rows = append(table.Rows, row)
		}
	}
	return table
}

func askedFrom(estimate bool) string {
	if estimate {
		return "estimate"
	}
	return "release"
}

func (a *answered) rows(d *study.Data) (rows [][]string) {
	for i, q := range queriesOf(d.Places) {
		for _, estimate := range []bool{false, true} {
			head := []string{
				d.Name, a.variant.Mechanism, a.variant.Inference, study.Number(a.at.Epsilon),
				study.Number(a.at.Delta),
				askedFrom(estimate),
			}
			if a.blind {
				if !estimate {
					continue
				}
				head = []string{d.Name, "blind", "", "", "", "estimate"}
			}
			head = append(head, fmt.Sprint(q.K), fmt.Sprint(q.Fetched))
			for _, m := range []struct {
				name string
				band study.Band
			}{
				{"precision", precision(a.tallies, i, q, estimate)},
				{"recall", recall(a.tallies, i, q, estimate)},
			} {
				rows = append(rows, append(append(slices.Clone(head), m.name), m.band.Fields()...))
			}
		}
	}
	return rows
}
