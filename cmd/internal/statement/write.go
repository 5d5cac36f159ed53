// Package statement does the work of "geodither statement". It collects what a config, its model
// and this program guarantee, for the people who have to approve of it: in YAML, in the fields of
// OpenDP's deployments registry, or in Markdown, under the headings of a data protection impact
// assessment. Both are made of the same facts and of the same texts, so that they agree.
//
// A Sheet has the facts. words.md has the texts, each with its conditions, and statement.yml and
// statement.md say what stands where. What geodither cannot know is null with a comment in YAML,
// and an item of the last section in Markdown; it is never guessed.
package statement

import (
	"bytes"
	_ "embed" // the texts
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
)

// words has the texts that the formats share, by their names.
//
//go:embed words.md
var words string

//go:embed statement.yml
var yamlLayout string

//go:embed statement.md
var markdownLayout string

// width is how long a line of a text may be.
const width = 98

// asks are the names of what geodither does not know. words.md says who does. The Markdown lists
// all of them, and the YAML has those that the registry has a field for.
var asks = []string{
	"name", "curators", "use", "region", "date", "sector", "rotation", "retention", "audit",
	"error", "access", "persons",
}

// YAML writes the sheet in the fields of OpenDP's deployments registry. It is valid YAML.
func (s *Sheet) YAML(out io.Writer) error { return s.write(out, yamlLayout) }

// Markdown writes the sheet as text blocks for a data protection impact assessment.
func (s *Sheet) Markdown(out io.Writer) error { return s.write(out, markdownLayout) }

func (s *Sheet) write(out io.Writer, layout string) error {
	r, err := s.texts()
	if err != nil {
		return err
	}
	if _, err = r.texts.Parse(layout); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := r.texts.Execute(&text, s); err != nil {
		return err
	}
	_, err = out.Write(append(bytes.TrimSpace(text.Bytes()), '\n'))
	return err
}

// texts reads the texts of words.md for a sheet.
func (s *Sheet) texts() (renderer, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"atLeast": atLeast, "audited": audited, "code": code, "count": cli.Quantity, "degrees": degrees,
		"factor": factor, "item": item, "km": metresOf, "metres": cli.Metres, "num": number,
		"power": power, "quote": quote, "span": cli.Duration, "sum": engine.Grouped, "time": stamp,
		"whole": expect.Whole,
	}).Parse(words)
	r := renderer{t, s}
	if err != nil {
		return r, err
	}
	t.Funcs(template.FuncMap{
		"ask": r.ask, "asks": r.asks, "comment": r.comment,
		"firstSentence": r.firstSentence,
		"prose":         r.prose, "rest": r.rest, "scalar": r.scalar,
	})
	return r, nil
}

// renderer renders the texts of words.md for a sheet.
type renderer struct {
	texts *template.Template
	sheet *Sheet
}

// text renders a text, in lines of at most so many characters.
func (r renderer) text(name string, width int) (string, error) {
	var raw strings.Builder
	if err := r.texts.ExecuteTemplate(&raw, name, r.sheet); err != nil {
		return "", err
	}
	return reflow(strings.Map(printable, raw.String()), width), nil
}

// printable replaces what a model file may say of its source and YAML does not take.
func printable(r rune) rune {
	if r == '\n' || unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// prose renders a text for Markdown.
func (r renderer) prose(name string) (string, error) { return r.text(name, width) }

// scalar renders texts as the lines of a YAML scalar, below a key.
func (r renderer) scalar(indent int, names ...string) (string, error) {
	margin := strings.Repeat(" ", indent)
	var all []string
	for _, name := range names {
		text, err := r.text(name, width-indent)
		if err != nil {
			return "", err
		}
		all = append(all, text)
	}
	return prefixed(strings.Join(all, "\n\n"), margin), nil
}

// comment renders a text as a comment of YAML.
func (r renderer) comment(name string) (string, error) {
	text, err := r.text(name, width-2)
	return prefixed(text, "# "), err
}

// ask says what geodither does not know, and who does.
func (r renderer) ask(name string) (string, error) { return r.text("ask "+name, math.MaxInt) }

func (r renderer) asks() (all []string, err error) {
	for _, name := range asks {
		if name == "audit" && len(r.sheet.Measured) > 0 ||
			name == "error" && r.sheet.Expected != nil {
			continue
		}
		text, err := r.ask(name)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// firstSentence returns a text up to its first full stop, and rest what follows.
func (r renderer) firstSentence(name string) (string, error) {
	text, err := r.text(name, math.MaxInt)
	first, _, _ := strings.Cut(text, ". ")
	return strings.Join(cli.Wrap(first+".", width), "\n"), err
}

func (r renderer) rest(name string) (string, error) {
	text, err := r.text(name, math.MaxInt)
	_, rest, _ := strings.Cut(text, ". ")
	return strings.Join(cli.Wrap(rest, width), "\n"), err
}

// prefixed puts a margin before each line, and no blanks at the end of an empty one.
func prefixed(text, margin string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(margin+line, " ")
	}
	return strings.Join(lines, "\n")
}

// reflow breaks a text into lines. Paragraphs have blank lines between them, and a line that
// begins with "- " begins an item, whose further lines are indented.
func reflow(text string, width int) string {
	var paragraphs, lines []string
	var current string
	endLine := func() {
		if current != "" {
			lines = append(lines, wrapped(current, width))
		}
		current = ""
	}
	endParagraph := func() {
		endLine()
		if len(lines) > 0 {
			paragraphs = append(paragraphs, strings.Join(lines, "\n"))
		}
		lines = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			endParagraph()
		case strings.HasPrefix(line, "- "):
			endLine()
			current = line
		default:
			current = strings.TrimSpace(current + " " + line)
		}
	}
	endParagraph()
	return strings.Join(paragraphs, "\n\n")
}

// wrapped breaks a paragraph or an item into lines.
func wrapped(text string, width int) string {
	if text, isItem := strings.CutPrefix(text, "- "); isItem {
		return "- " + strings.Join(cli.Wrap(text, width-2), "\n  ")
	}
	return strings.Join(cli.Wrap(text, width), "\n")
}

// item is one item of a list in Markdown.
func item(text string) string { return wrapped("- "+text, width) }

// audited says in a sentence or two what an audit has found.
func audited(m Measured) string {
	verdict := "found nothing against the guarantee"
	if !m.Passed {
		verdict = "did not pass: " + cli.Quantity(int64(len(m.Findings)), "finding") +
			", such as: " + m.Findings[0]
	}
	when := "at a time that the report does not say"
	if m.Time != nil {
		when = "on " + stamp(*m.Time)
	}
	text := fmt.Sprintf("An audit %s, of model %s on %s, %s. With confidence %s the odds of a "+
		"place were multiplied by at least %s (true ε at least %s), of %s that ε allows.", when, m.ModelID, m.Data(), verdict,
		number(m.Confidence), atLeast(math.Exp(m.Bound.Epsilon)), atLeast(m.Bound.Epsilon),
		factor(math.Exp(m.Epsilon)))
	if near := m.Near; near != nil {
		text += fmt.Sprintf(" For near places a factor of at least %s was found, of %s that is "+
			"promised.", atLeast(math.Exp(near.Epsilon)), factor(math.Exp(m.NearLimit)))
	}
	return text + " Command: " + code(m.Again)
}

func code(text string) string { return "`" + text + "`" }

// quote writes a text as YAML and JSON have it, on one line.
func quote(text string) (string, error) {
	data, err := json.Marshal(text)
	return string(data), err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func metresOf(km float64) float64 { return km * 1000 }

// number writes a number with the digits that it has, and no exponent.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// atLeast writes a bound that was measured, rounded down to four decimals.
func atLeast(x float64) string { return number(math.Floor(x*1e4) / 1e4) }

func degrees(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }

// factor writes a factor of odds in few digits, rounded up.
func factor(x float64) string {
	switch {
	case x < 100:
		return number(math.Ceil(x*100-1e-6) / 100)
	case x < 1e9:
		return engine.Grouped(math.Ceil(x))
	}
	return power(math.Log(x))
}

// power writes e^x in few digits.
func power(x float64) string {
	if f := math.Exp(x); f < 1e9 {
		return factor(f)
	}
	return "about 10^" + strconv.FormatFloat(math.Ceil(x/math.Ln10), 'f', 0, 64)
}
