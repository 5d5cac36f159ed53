package study

import (
	"fmt"
	"math"
	"strings"
	"text/template"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
)

// Prose is what an experiment says in words: paragraphs with a name each and gaps for figures.
type Prose struct{ paragraphs *template.Template }

// Figures fill the gaps of a paragraph, by name.
type Figures map[string]any

// NewProse reads paragraphs in the syntax of text/template, each in a define block. They may be
// wrapped anywhere. It panics on a mistake in the syntax, as template.Must does.
func NewProse(text string) Prose {
	t := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"short": report.Short, "plural": Plural, "seconds": Seconds,
	})
	return Prose{template.Must(t.Parse(text))}
}

// Say returns a paragraph in one line. It panics if there is none of that name, or a gap has no
// figure.
func (p Prose) Say(name string, figures Figures) string {
	var b strings.Builder
	if err := p.paragraphs.ExecuteTemplate(&b, name, figures); err != nil {
		panic(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Seconds writes a time in seconds or whole minutes.
func Seconds(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%g min", d.Minutes())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// Plural writes a number of things, such as "1 user" or "3 users".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// LengthOf writes the side of a map's cells.
func LengthOf(g *grid.Grid) string {
	return fmt.Sprintf("%g km", math.Round(g.CellM())/1000)
}
