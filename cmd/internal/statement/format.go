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
	all := []string{""} // paragraphs and items, and "" before each paragraph
	for line := range strings.Lines(strings.Map(printable, text)) {
		line = strings.TrimSpace(line)
		last := &all[len(all)-1]
		switch {
		case *last == "" && line == "":
		case *last == "" || line == "" || strings.HasPrefix(line, "- "):
			all = append(all, line)
		default:
			*last += " " + line
		}
	}
	for i, text := range all {
		all[i] = wrapped(text, width)
	}
	return strings.TrimSpace(strings.Join(all, "\n"))
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

// sum writes a sum of ε.
func sum(epsilon float64) string { return number(engine.Rounded(epsilon)) }

// atLeast writes a bound that was measured, rounded down to four decimals.
func atLeast(x float64) string { return number(math.Floor(x*1e4) / 1e4) }

// power writes e^x, a factor of odds, in few digits, rounded up.
func power(x float64) string {
	switch f := math.Exp(x); {
	case f < 100:
		return number(math.Ceil(f*100-1e-6) / 100)
	case f < 1e9:
		return engine.Grouped(math.Ceil(f))
	}
	return "about 10^" + number(math.Ceil(x/math.Ln10))
}
