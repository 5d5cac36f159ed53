package report

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"strings"
)

// The pages are written without a template: text/template looks methods up by name, for which the
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
