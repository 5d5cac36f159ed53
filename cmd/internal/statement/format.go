package statement

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
)

// width is how long a line of a text may be.
const width = 98

// when returns a text that stands under a condition, or nothing.
func when(holds bool, text string) string { return either(holds, text, "") }

// either returns the text that stands under a condition, or the one that stands without it.
func either(holds bool, text, other string) string {
	if holds {
		return text
	}
	return other
}

// flow breaks a text into lines. Paragraphs have blank lines between them, and a line that begins
// with "- " begins an item, whose further lines are indented.
func flow(text string, width int) string {
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
	for line := range strings.Lines(strings.Map(printable, text)) {
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

// printable replaces what a model file may say of its source and YAML does not take.
func printable(r rune) rune {
	if r == '\n' || unicode.IsPrint(r) {
		return r
	}
	return ' '
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// number writes a number with the digits that it has, and no exponent.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// atLeast writes a bound that was measured, rounded down to four decimals.
func atLeast(x float64) string { return number(math.Floor(x*1e4) / 1e4) }

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
