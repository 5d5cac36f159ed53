package experiment

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// Experiment is one question: pieces of work, and a section of the report made of their results.
type Experiment struct {
	Name, Title string
	// Plan returns the pieces whose results Show reads.
	Plan func(*Study) []Piece
	// Show writes the section.
	Show func(*Page)
}

//go:embed words.md
var wordsText string

// words returns the paragraphs below a heading of words.md.
func words(heading string) (paragraphs []string) {
	_, text, _ := strings.Cut(wordsText, "\n# "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n# ")
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		paragraphs = append(paragraphs, strings.Join(strings.Fields(paragraph), " "))
	}
	return paragraphs
}

// Carry carries the experiments out and reports them. What was measured before an error stays in
// the folder.
func Carry(s *Study, experiments []Experiment, r Run) (*report.Report, error) {
	results, err := s.Measure(experiments, r)
	if err != nil {
		return nil, err
	}
	out := &report.Report{Title: "Experiments on releases of locations"}
	data := &Page{Study: s}
	for _, paragraph := range append(words("preface"), words("data")...) {
		data.Add(report.Text(paragraph))
	}
	data.Add(dataTable(s))
	out.Sections = append(out.Sections,
		report.Section{Title: "What was measured", Parts: data.parts})
	for _, e := range experiments {
		section, err := e.section(s, results)
		if err != nil {
			return nil, err
		}
		out.Sections = append(out.Sections, section)
	}
	return out, nil
}

// dataTable says what is measured.
func dataTable(s *Study) *report.Table {
	t := &report.Table{
		Name: "data", Caption: "What was measured.",
		Columns: []string{
			"data", "users", "with a trace", "measured", "timestamps", "shortest trace", "step",
			"steps without a fix", "cells", "side of a cell, km", "places",
		},
	}
	for _, d := range s.Data {
		var timestamps, shortest, holes int64 = 0, math.MaxInt64, 0
		for _, trace := range s.Traces(d) {
			n := int64(len(trace.Steps))
			timestamps, shortest, holes = timestamps+n, min(shortest, n), holes+trace.Holes()
		}
		step := d.Step.String()
		if d.EveryFix {
			step = "a check-in"
		}
		t.Add(d.Title, d.Users, len(d.Traces), len(s.Traces(d)), int(timestamps), int(shortest),
			step, int(holes), d.Grid.Cells(), d.Grid.CellKM(), d.Places.Len())
	}
	return t
}

// Page is a section of the report being written. The first error stays, and what is read after it
// is empty, so that Show need not look at each.
type Page struct {
	*Study
	Results Results
	parts   []report.Part
	err     error
}

// section writes the experiment's section.
func (e Experiment) section(s *Study, r Results) (report.Section, error) {
	p := &Page{Study: s, Results: r}
	for _, paragraph := range words(e.Name) {
		p.Add(report.Text(paragraph))
	}
	if e.Show(p); p.err != nil {
		return report.Section{}, fmt.Errorf("%s: %w", e.Name, p.err)
	}
	return report.Section{Title: e.Title, Parts: p.parts}, nil
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

// Add adds parts.
func (p *Page) Add(parts ...report.Part) { p.parts = append(p.parts, parts...) }

// Table adds a table to read, whose rows are projections of others.
func (p *Page) Table(name, caption string, t *report.Table) {
	t.Name, t.Caption = name, caption
	p.Add(t)
}

// numbers returns a table of all numbers of a section. Its last column is the value. The caller
// adds it when it has all its rows.
func numbers(name string, columns ...string) *report.Table {
	return &report.Table{
		Name: name, Caption: "Every number of the section.", Columns: append(columns, "value"),
	}
}

// bands says what the bars of a chart are, over so many users.
func (p *Page) bands(users int) string {
	return fmt.Sprintf("Users: %d; runs of each: %d. Bars: 95 %% confidence over users; none "+
		"where no two differ. blind: no release.", users, p.Options.Runs)
}

// windows is into how many equal parts of a trace drift, distances and beliefs are averaged for
// the eye.
const windows = 25

// timestamps are the columns between which a window of time lies.
var timestamps = []string{"from timestamp", "to timestamp"}

// timeAxis is the axis of the timestamps of a trace.
func timeAxis(d *Data) report.Axis {
	if d.EveryFix {
		return report.Axis{Label: "timestamp of a check-in"}
	}
	return report.Axis{Label: fmt.Sprintf("timestamp (steps of %s)", d.Step)}
}
