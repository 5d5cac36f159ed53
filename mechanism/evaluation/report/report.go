// Package report turns sections of text, tables and figures into a folder that a person can read: a
// report.html that needs no other file, each table as CSV and each figure as SVG. Readers with any colour vision can distinguish the colours of figures, and the series also
// differ in dashes and markers. The same report gives the same bytes on one machine.
//
//	report.go  sections, and the files of a folder; page.go has report.html
//	table.go   Table: results as data, and its projections; band.go a value with its interval
//	figure.go  Figure: panels in rows, one legend, a note; files
//	lines.go   Lines: series over an axis
//	map.go     Map: a grid's values as colours, tracks and places on it
//	frame.go   a panel with its axes; axis.go has their ends and labels
//	canvas.go  SVG
package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Report is a title and sections.
type Report struct {
	Title    string
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
	drawings := map[string][]byte{} // the SVG of each figure
	for _, part := range r.parts() {
		if err := step(); err != nil {
			return err
		}
		switch part := part.(type) {
		case *Table:
			var file bytes.Buffer
			if err := errors.Join(part.CSV(&file),
				Save(filepath.Join(dir, tables, part.Name+".csv"), file.Bytes()),
			); err != nil {
				return err
			}
		case *Figure:
			drawing, err := part.draw()
			if err != nil {
				return fmt.Errorf("figure %s: %w", part.Name, err)
			}
			drawings[part.Name] = drawing
			if err := Save(filepath.Join(dir, figures, part.Name+".svg"), drawing); err != nil {
				return err
			}
		}
	}
	if err := step(); err != nil {
		return err
	}
	return Save(filepath.Join(dir, "report.html"), []byte(r.html(drawings)))
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
