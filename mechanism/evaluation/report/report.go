// Package report turns sections of text, tables and figures into a folder that a person can read:
// report.md, a report.html that needs no other file, each table as CSV and each figure as SVG and
// PNG. The same report gives the same bytes.
package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
)

// Report is a title, what is said before the sections, and the sections.
type Report struct {
	Title    string
	Text     []string // paragraphs
	Sections []Section
}

// Section is one subject. Its parts follow each other as they stand.
type Section struct {
	Title string
	Parts []Part
}

// Part is a Text, a *Table or a *Figure.
type Part interface{ part() }

// Text is a paragraph, in plain words: no markup is read in it.
type Text string

// Table is a table of figures.
type Table struct {
	// Name is its file's, without an ending: lower-case letters, digits and hyphens.
	Name, Caption string
	Columns       []string
	Rows          [][]string
	// Long keeps the table out of the report: it is only in its file.
	Long bool
}

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

// Write writes the report into a folder, which is made for its owner alone if it is not there. So
// is each file, which may tell of the people in the traces, whatever folder it lies in. Each file
// appears whole or not at all, report.html last; step is called before each, and its error ends the
// writing.
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
			if err := writeFile(
				filepath.Join(dir, tables, part.Name+".csv"), part.csv(),
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
	page, err := r.html(drawings)
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(filepath.Join(dir, "report.md"), r.markdown()),
		writeFile(filepath.Join(dir, "report.html"), page),
	)
}

func (r *Report) parts() (all []Part) {
	for _, s := range r.Sections {
		all = append(all, s.Parts...)
	}
	return all
}

// check refuses what would overwrite another part's file or lie outside the folder.
func (r *Report) check() error {
	seen := map[string]bool{}
	for _, part := range r.parts() {
		var name string
		switch part := part.(type) {
		case *Table:
			name = part.Name + ".csv"
			for _, row := range part.Rows {
				if len(row) != len(part.Columns) {
					return fmt.Errorf(
						"report: table %q has %d columns, and a row of %d", part.Name,
						len(part.Columns), len(row),
					)
				}
			}
		case *Figure:
			name = part.Name + ".svg"
		default:
			continue
		}
		if base := name[:len(name)-4]; !fileName.MatchString(base) {
			return fmt.Errorf(
				"report: %q is no name for a file: use lower-case letters, digits and hyphens",
				base,
			)
		}
		if seen[name] {
			return fmt.Errorf("report: two parts are named %q", name)
		}
		seen[name] = true
	}
	return nil
}

func (t *Table) csv() []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	// A buffer takes everything.
	_ = w.Write(t.Columns)
	_ = w.WriteAll(t.Rows)
	return buf.Bytes()
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
	return svg.Bytes(), errors.Join(
		writeFile(base+".svg", svg.Bytes()), writeFile(base+".png", png.Bytes()),
	)
}

func writeFile(path string, data []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o600), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
