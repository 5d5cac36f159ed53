package study

import (
	"strings"
	"text/template"
)

// Prose is what an experiment says in words: paragraphs with a name each and gaps for figures.
type Prose struct{ paragraphs *template.Template }

// Figures fill the gaps of a paragraph, by name.
type Figures map[string]any

// NewProse reads paragraphs in the syntax of text/template, each in a define block. They may be
// wrapped anywhere. It panics on a mistake in the syntax, as template.Must does.
func NewProse(text string) Prose {
	t := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"short": Short, "plural": Plural, "seconds": Seconds,
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
