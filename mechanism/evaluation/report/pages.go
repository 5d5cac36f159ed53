package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
)

// plain makes text stand for itself in Markdown.
var plain = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`", "[", `\[`,
)

func (r *Report) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", plain.Replace(r.Title))
	for _, text := range r.Text {
		fmt.Fprintf(&b, "\n%s\n", plain.Replace(text))
	}
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n", plain.Replace(s.Title))
		for _, part := range s.Parts {
			b.WriteString("\n")
			switch part := part.(type) {
			case Text:
				fmt.Fprintf(&b, "%s\n", plain.Replace(string(part)))
			case *Table:
				part.markdown(&b)
			case *Figure:
				fmt.Fprintf(
					&b, "![%s](%s/%s.png)\n", plain.Replace(part.Chart.Describe()), figures,
					part.Name,
				)
				fmt.Fprintf(
					&b, "\n%s ([SVG](%[2]s/%[3]s.svg), [PNG](%[2]s/%[3]s.png))\n",
					plain.Replace(part.Caption), figures, part.Name,
				)
			}
		}
	}
	return b.Bytes()
}

func (t *Table) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s ([%s.csv](%s/%s.csv))\n", plain.Replace(t.Caption), t.Name, tables, t.Name)
	if t.Long {
		return
	}
	row := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprintf(b, "| %s ", plain.Replace(cell))
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	row(t.Columns)
	b.WriteString(strings.Repeat("|---", len(t.Columns)) + "|\n")
	for _, cells := range t.Rows {
		row(cells)
	}
}

// mostRows is how many rows of a table stand open on the page: readers open longer ones.
const mostRows = 24

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"kind": func(p Part) string {
		switch p.(type) {
		case *Table:
			return "table"
		case *Figure:
			return "figure"
		}
		return "text"
	},
	"folded": func(t *Table) bool { return len(t.Rows) > mostRows },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { line-height: 1.25; text-wrap: balance }
h2 { border-top: 1px solid #888; padding-top: .6rem; margin-top: 2.5rem }
a { color: #00549f }
p, figcaption, caption, summary { max-width: 52rem; overflow-wrap: anywhere }
figure { margin: 1.5rem 0 }
figure img { max-width: 100%; box-sizing: border-box; height: auto; border: 1px solid #ddd }
figcaption, caption, summary { color: #333; font-size: .9rem; text-align: left; padding: .3rem 0 }
summary { cursor: pointer }
/* A box that scrolls has a shadow where more of its table is: many browsers hide scroll bars. */
.wide { overflow-x: auto; background: linear-gradient(to right, #fff 40%, #fff0), linear-gradient(to left, #fff 40%, #fff0) 100% 0, linear-gradient(to right, #0005, #0000), linear-gradient(to left, #0005, #0000) 100% 0; background-repeat: no-repeat; background-size: 2.5rem 100%, 2.5rem 100%, .8rem 100%, .8rem 100%; background-attachment: local, local, scroll, scroll }
@media print { .wide { overflow: visible } table { font-size: .7rem } th, td { padding: .1rem .3rem; overflow-wrap: anywhere } }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; margin: 1rem 0 }
th, td { border-bottom: 1px solid #ddd; padding: .2rem .7rem; text-align: left; vertical-align: top }
th { border-bottom-color: #888 }
tbody tr:hover { background: #f3f3f3 }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
{{range .Text}}<p>{{.}}</p>
{{end}}<nav aria-label="Contents"><ul>
{{range $i, $s := .Sections}}<li><a href="#section-{{$i}}">{{$s.Title}}</a></li>
{{end}}</ul></nav>
{{$drawings := .Drawings}}{{range $i, $s := .Sections}}<section id="section-{{$i}}"><h2>{{$s.Title}}</h2>
{{range .Parts}}{{$kind := kind .}}{{if eq $kind "text"}}<p>{{.}}</p>
{{else if eq $kind "figure"}}<figure><img alt="{{.Chart.Describe}}" src="{{index $drawings .Name}}"><figcaption>{{.Caption}} (<a href="figures/{{.Name}}.png">figures/{{.Name}}.png</a>)</figcaption></figure>
{{else if .Long}}<p>{{.Caption}} (tables/{{.Name}}.csv)</p>
{{else if folded .}}<details><summary>{{template "caption" .}}: {{len .Rows}} rows</summary><div class="wide" tabindex="0"><table>
{{template "rows" .}}</table></div></details>
{{else}}<div class="wide" tabindex="0"><table><caption>{{template "caption" .}}</caption>
{{template "rows" .}}</table></div>
{{end}}{{end}}</section>
{{end}}</body>
</html>
{{define "caption"}}{{.Caption}} (tables/{{.Name}}.csv){{end}}
{{define "rows"}}<thead><tr>{{range .Columns}}<th scope="col">{{.}}</th>{{end}}</tr></thead>
<tbody>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody>{{end}}`))

func (r *Report) html(drawings map[string][]byte) ([]byte, error) {
	sources := map[string]template.URL{}
	for name, svg := range drawings {
		// Our own drawing, in an alphabet that needs no escaping.
		sources[name] = template.URL(
			"data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg),
		)
	}
	var b bytes.Buffer
	err := page.Execute(
		&b,
		map[string]any{
			"Title": r.Title, "Text": r.Text, "Sections": r.Sections, "Drawings": sources,
		},
	)
	return b.Bytes(), err
}
