// Package report turns sections of text, tables and figures into a folder that a person can read:
// report.md, a report.html that needs no other file, each table as CSV and each figure as SVG and
// PNG. The same report gives the same bytes.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
)

// Report is a title, an introduction and sections.
type Report struct {
	Title    string
	Text     []string // paragraphs
	Sections []Section
}

// Section is one subject. Its parts appear in their order.
type Section struct {
	Title string
	Parts []Part
}

// Part is a Text, a *Table or a *Figure.
type Part interface{ part() }

// Text is a paragraph of plain text, without markup.
type Text string

// Figure is a chart.
type Figure struct {
	// Name is its files', without an ending: lower-case letters, digits and hyphens.
	Name, Caption string
	Chart         *chart.Figure
}

func (Text) part()    {}
func (*Table) part()  {}
func (*Figure) part() {}

const (
	tables  = "tables"
	figures = "figures"
)

var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// Write writes the report into a folder, which it creates if it is missing. Only the owner may read
// the folder and each file, because a file may reveal something about the people in the traces.
// Each file appears whole or not at all, report.html last. Write calls step before each file, and
// ends with step's error.
func (r *Report) Write(dir string, step func() error) error {
	if err := r.check(); err != nil {
		return err
	}
	for _, sub := range []string{tables, figures} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	drawings := map[string][]byte{}
	for _, part := range r.parts() {
		if err := step(); err != nil {
			return err
		}
		switch part := part.(type) {
		case *Table:
			var file bytes.Buffer
			if err := errors.Join(part.CSV(&file),
				chart.Save(filepath.Join(dir, tables, part.Name+".csv"), file.Bytes()),
			); err != nil {
				return err
			}
		case *Figure:
			svg, err := part.write(dir)
			if err != nil {
				return err
			}
			drawings[part.Name] = svg
		}
	}
	if err := step(); err != nil {
		return err
	}
	return errors.Join(chart.Save(filepath.Join(dir, "report.md"), []byte(r.markdown())),
		chart.Save(filepath.Join(dir, "report.html"), []byte(r.html(drawings))))
}

func (r *Report) parts() (all []Part) {
	for _, s := range r.Sections {
		all = append(all, s.Parts...)
	}
	return all
}

// check refuses names that would overwrite another part's file or lie outside the folder.
func (r *Report) check() error {
	seen := map[string]bool{}
	for _, part := range r.parts() {
		var name string
		switch part := part.(type) {
		case *Table:
			name = part.Name + ".csv"
			for _, row := range part.Rows {
				if len(row) != len(part.Columns) {
					return fmt.Errorf("report: table %q has %d columns, and a row of %d",
						part.Name, len(part.Columns), len(row))
				}
			}
		case *Figure:
			name = part.Name + ".svg"
		default:
			continue
		}
		if base := name[:len(name)-4]; !fileName.MatchString(base) {
			return fmt.Errorf("report: %q is no name for a file: use lower-case letters, digits "+
				"and hyphens", base)
		}
		if seen[name] {
			return fmt.Errorf("report: two parts are named %q", name)
		}
		seen[name] = true
	}
	return nil
}

// write draws the figure into its two files and returns the SVG.
func (f *Figure) write(dir string) ([]byte, error) {
	var svg, png bytes.Buffer
	if err := errors.Join(
		f.Chart.Write(&svg, chart.SVG), f.Chart.Write(&png, chart.PNG),
	); err != nil {
		return nil, fmt.Errorf("figure %s: %w", f.Name, err)
	}
	base := filepath.Join(dir, figures, f.Name)
	return svg.Bytes(), errors.Join(chart.Save(base+".svg", svg.Bytes()),
		chart.Save(base+".png", png.Bytes()))
}
