package study

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// Experiment is one question: pieces of work, and a section of the report made of their results.
type Experiment struct {
	Name, Title string
	// Text has the paragraphs of the section; see [NewProse]. The one named intro is the first.
	Text string
	// Plan returns the pieces whose results Show reads.
	Plan func(*Study) []Piece
	// Show writes the section.
	Show func(*Page)
}

// Page is a section of the report being written. The first error stays, and what is read after it
// is empty, so that Show need not look at each.
type Page struct {
	*Study
	Results *Results

	words   Prose
	section report.Section
	err     error
}

// Section writes the experiment's section.
func (e Experiment) Section(s *Study, r *Results) (report.Section, error) {
	p := &Page{
		Study: s, Results: r, words: NewProse(e.Text), section: report.Section{Title: e.Title},
	}
	if e.Show(p); p.err != nil {
		return report.Section{}, fmt.Errorf("%s: %w", e.Name, p.err)
	}
	return p.section, nil
}

// Fail keeps the first error.
func (p *Page) Fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Read returns what a measurement has of a point.
func (p *Page) Read(w *Walks, at Point) Windows {
	got, err := w.Read(p.Study, p.Results, at)
	p.Fail(err)
	return got
}

// Say returns a paragraph.
func (p *Page) Say(name string, figures Figures) string { return p.words.Say(name, figures) }

// Text adds a paragraph.
func (p *Page) Text(name string, figures Figures) {
	p.Add(report.Text(p.Say(name, figures)))
}

// Add adds parts.
func (p *Page) Add(parts ...report.Part) { p.section.Parts = append(p.section.Parts, parts...) }

// Figure adds a figure.
func (p *Page) Figure(name, caption string, f *chart.Figure) {
	p.Add(&report.Figure{Name: name, Caption: caption, Chart: f})
}

// Long returns a table of all numbers of the section, which is only in its file. Its last column is
// the value. The caller adds it when it has all its rows.
func Long(name string, columns ...string) *report.Table {
	return &report.Table{
		Name: name, Long: true, Caption: "Every number of the section.",
		Columns: append(columns, "value"),
	}
}

// Table adds a table to read, whose rows are projections of others.
func (p *Page) Table(name, caption string, t *report.Table) {
	t.Name, t.Caption, t.Long = name, caption, false
	p.Add(t)
}
