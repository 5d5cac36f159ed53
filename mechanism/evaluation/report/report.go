// Package report turns sections of text, tables and figures into a folder that a person can read: a
// report.html that needs no other file, each table as CSV and each figure as SVG. Readers with any
// colour vision can distinguish the colours of figures, and the series also differ in dashes and
// markers. The same report gives the same bytes on one machine.
//
//	report.go  sections, the files of a folder, and report.html
//	table.go   Table: results as data, and its projections; band.go a value with its interval
//	figure.go  Figure: panels in rows, one legend, a note; a panel's frame; axis.go has its axes
//	lines.go   Lines: series over an axis
//	map.go     Map: a grid's values as colours, tracks and places on it
//	canvas.go  SVG
package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// The page is written without a template: text/template looks methods up by name, for which the
// linker keeps every method of every type of the program.

// head is the page up to its body. TITLE stands for the title.
//
//go:embed head.html
var head string

// page is a text in the making.
type page struct{ strings.Builder }

// put appends a format with all of its arguments escaped for HTML.
func (p *page) put(format string, args ...any) {
	for i, arg := range args {
		args[i] = html.EscapeString(shown(arg))
	}
	fmt.Fprintf(p, format, args...)
}

// html returns report.html. The drawings are SVG, by the names of their figures.
func (r *Report) html(drawings map[string][]byte) string {
	var p page
	p.WriteString(strings.ReplaceAll(head, "TITLE", html.EscapeString(r.Title)))
	p.put("<h1>%s</h1>\n", r.Title)
	for i, s := range r.Sections {
		p.put("<section id=\"section-%v\"><h2>%s</h2>\n", i, s.Title)
		for _, part := range s.Parts {
			switch part := part.(type) {
			case Text:
				p.put("<p>%s</p>\n", string(part))
			case *Figure:
				p.figure(part, drawings[part.Name])
			case *Table:
				p.table(part)
			}
		}
		p.put("</section>\n")
		if i == 0 {
			p.contents(r)
		}
	}
	p.put("</body>\n</html>\n")
	return p.String()
}

// contents lists all sections, behind the first one, which says what the report means.
func (p *page) contents(r *Report) {
	p.put("<nav aria-label=\"Contents\"><ul>\n")
	for i, s := range r.Sections {
		p.put("<li><a href=\"#section-%v\">%s</a></li>\n", i, s.Title)
	}
	p.put("</ul></nav>\n")
}

func (p *page) figure(f *Figure, svg []byte) {
	p.put("<figure><img alt=\"%s. %s\" src=\"data:image/svg+xml;base64,%s\">",
		f.Title, f.Note, base64.StdEncoding.EncodeToString(svg))
	p.put("<figcaption>%s (<a href=\"figures/%s.svg\">figures/%s.svg</a>)</figcaption></figure>\n",
		f.Title+".", f.Name, f.Name)
}

// table writes a table that readers open: pictures and words come first.
func (p *page) table(t *Table) {
	if t.Long {
		p.put("<p>%s (tables/%s.csv)</p>\n", t.Caption, t.Name)
		return
	}
	p.put("<details><summary>%s (tables/%s.csv), rows: %v</summary>"+
		"<div class=\"wide\" tabindex=\"0\"><table>\n", t.Caption, t.Name, len(t.Rows))
	p.put("<thead><tr>")
	for _, column := range t.Columns {
		p.put("<th scope=\"col\">%s</th>", column)
	}
	p.put("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		p.put("<tr>")
		for _, cell := range row {
			p.put("<td>%s</td>", cell)
		}
		p.put("</tr>\n")
	}
	p.put("</tbody></table></div></details>\n")
}
