package experiment

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func knn() Experiment {
	return Experiment{Name: "knn", Title: "Nearest neighbours", Plan: planKNN, Report: reportKNN}
}

func reportKNN(s *Study, r *Results) (report.Section, error) {
	section := report.Section{Title: "Nearest neighbours", Parts: []report.Part{report.Text(fmt.Sprintf(
		"Somebody asks for the k places nearest to where they are, and a service answers with the k' places nearest to what was released. Precision is the share of the answers that are wanted, recall the share of the wanted places that are in the answer; for k = k' they are the same. δ = %g, and ε is what each timestamp costs: %g as in the paper, and ten times that. M is popular: trained on other users. Blind asks from where the model alone would have the user, which no release enters. A place outside the map is asked from as it is. Bands are 95 %% confidence over users.",
		s.Options.Delta, s.Options.Epsilon))}}
	long := &report.Table{
		Name: "knn", Long: true, Caption: "Every number of the section.",
		Columns: []string{"data", "mechanism", "inference", "epsilon", "delta", "asked from", "k", "k'", "metric", "value", "low", "high"},
	}
	for _, d := range s.Data {
		answers, err := s.answers(d, r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, report.Text(fmt.Sprintf("%s: the places are %s. Of any k of them k = %d is %s %%.",
			d.Title, d.Places.Origin, fixedK, short(100*float64(fixedK)/float64(d.Places.Len())))))
		for _, g := range s.groups() {
			section.Parts = append(section.Parts, s.knnFigure(d, g, answers, false))
			if s.also(AlsoEstimate) {
				section.Parts = append(section.Parts, s.knnFigure(d, g, answers, true))
			}
		}
		section.Parts = append(section.Parts, s.knnTable(d, answers))
		for _, a := range answers {
			long.Rows = append(long.Rows, a.rows(d)...)
		}
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

// answered is what was measured of a variant at a setting, or of the blind baseline.
type answered struct {
	variant Variant
	at      Setting
	blind   bool
	tallies []Neighbours
}

func (s *Study) answers(d *Data, r *Results) (list []answered, err error) {
	for _, at := range s.knnSettings() {
		for _, v := range s.Variants() {
			a := answered{variant: v, at: at}
			if a.tallies, err = s.Neighbours(r, d, v.at(at)); err != nil {
				return nil, err
			}
			list = append(list, a)
		}
	}
	blind := answered{blind: true, at: Setting{0, s.Options.Delta}}
	blind.tallies, err = s.Neighbours(r, d, "blind")
	return append(list, blind), err
}

func (a *answered) label() string {
	if a.blind {
		return "blind"
	}
	return a.variant.Label()
}

// questions are the three columns of a figure.
func questions() []question {
	return []question{
		{"as many answers as wanted", "k = k', places", "precision = recall, share", func(q Query) (float64, bool) { return float64(q.K), q.K == q.Fetched }, precision},
		{fmt.Sprintf("the nearest %d wanted", fixedK), "answers k', places", "precision, share of the answers", func(q Query) (float64, bool) { return float64(q.Fetched), q.K == fixedK }, precision},
		{fmt.Sprintf("the nearest %d wanted", fixedK), "answers k', places", "recall, share of the wanted", func(q Query) (float64, bool) { return float64(q.Fetched), q.K == fixedK }, recall},
	}
}

type question struct {
	title, x, y string
	at          func(Query) (x float64, in bool)
	of          func([]Neighbours, int, Query, bool) Band
}

// line returns a question's line.
func (q question) line(queries []Query, a *answered, estimate bool) chart.Series {
	series := chart.Series{Name: a.label()}
	if a.blind {
		series.Reference = true
	} else {
		series.Look = a.variant.look()
	}
	for i, query := range queries {
		x, in := q.at(query)
		if !in {
			continue
		}
		band := q.of(a.tallies, i, query, estimate)
		series.X, series.Y = append(series.X, x), append(series.Y, band.Value)
		series.Low, series.High = append(series.Low, band.Low), append(series.High, band.High)
	}
	return series
}

func (s *Study) knnFigure(d *Data, g group, answers []answered, estimate bool) *report.Figure {
	from := "releases"
	figure := &report.Figure{Name: "knn-" + d.Name}
	if estimate {
		from = "estimates"
		figure.Name += "-estimate"
	}
	title := fmt.Sprintf("%s: nearest places found from %s", d.Title, from)
	if g.name != "" {
		figure.Name += "-" + g.name
		title += "; " + g.title
	}
	figure.Caption = fmt.Sprintf("%s: precision and recall of the nearest places, asked from %s", d.Title, from)
	if g.title != "" {
		figure.Caption += ", " + g.title
	}
	figure.Caption += "."
	queries := d.Places.queries()
	f := &chart.Figure{
		Title: title, Columns: 3, PanelWidth: 3.5, PanelHeight: 2.8,
		Note: fmt.Sprintf("%d places; %s, %s each; popular M, δ = %g. Bands: 95 %% confidence over users. blind: asked from the model's own guess, without any release.",
			d.Places.Len(), plural(len(s.Traces(d)), "user"), plural(s.Options.Runs, "run"), s.Options.Delta),
	}
	for _, at := range s.knnSettings() {
		for _, question := range questions() {
			panel := &chart.Lines{Title: fmt.Sprintf("ε = %g: %s", at.Epsilon, question.title), X: chart.Axis{Label: question.x, Log: true}, Y: chart.Axis{Label: question.y, Zero: true}}
			for i := range answers {
				if a := &answers[i]; a.blind || a.at == at && slices.Contains(g.variants, a.variant) {
					panel.Series = append(panel.Series, question.line(queries, a, estimate))
				}
			}
			f.Panels = append(f.Panels, panel)
		}
	}
	figure.Chart = f
	return figure
}

// knnTable has some of the queries.
func (s *Study) knnTable(d *Data, answers []answered) *report.Table {
	table := &report.Table{
		Name: "knn-" + d.Name, Caption: d.Title + ": share of the nearest places found, with 95 % confidence over users.",
		Columns: []string{"ε", "mechanism", "asked from"},
	}
	queries := d.Places.queries()
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

func (a *answered) rows(d *Data) (rows [][]string) {
	for i, q := range d.Places.queries() {
		for _, estimate := range []bool{false, true} {
			head := []string{d.Name, a.variant.Mechanism, a.variant.Inference, number(a.at.Epsilon), number(a.at.Delta), askedFrom(estimate)}
			if a.blind {
				if !estimate {
					continue
				}
				head = []string{d.Name, "blind", "", "", "", "estimate"}
			}
			head = append(head, fmt.Sprint(q.K), fmt.Sprint(q.Fetched))
			for _, m := range []struct {
				name string
				band Band
			}{{"precision", precision(a.tallies, i, q, estimate)}, {"recall", recall(a.tallies, i, q, estimate)}} {
				rows = append(rows, append(append(slices.Clone(head), m.name), m.band.fields()...))
			}
		}
	}
	return rows
}
