package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sentence returns a text with a capital letter at its start.
func Sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// Quantity returns a number of things in words, such as "1 fix" and "2 fixes".
func Quantity(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "x") || strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Metres prints a distance in metres as a person reads it.
func Metres(m float64) string {
	if m >= 10000 {
		return fmt.Sprintf("%.1f km", m/1000)
	}
	return fmt.Sprintf("%.0f m", m)
}

// Sum prints a sum of ε without an exponent.
func Sum(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// ByteSize prints a number of bytes in a unit that suits it.
func ByteSize(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}

// Duration prints a time as a person reads it: in one unit if it is a small whole number of it,
// such as "24 hours" or "90 seconds", else rounded to its two largest units, such as
// "301 days 13 hours".
func Duration(d time.Duration) string {
	const day, small = 24 * time.Hour, 100
	units := [...]struct {
		length time.Duration
		name   string
	}{{day, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}}
	for _, unit := range units {
		n, days := d/unit.length, unit.length == day
		if d%unit.length == 0 && n > 0 && (days && n > 1 || !days && n < small) {
			return Quantity(int64(n), unit.name)
		}
	}
	for i, unit := range units[:len(units)-1] {
		below := units[i+1]
		rounded := d.Round(below.length)
		if rounded < unit.length {
			continue
		}
		text := Quantity(int64(rounded/unit.length), unit.name)
		if rest := rounded % unit.length / below.length; rest > 0 {
			text += " " + Quantity(int64(rest), below.name)
		}
		return text
	}
	return strconv.FormatFloat(d.Seconds(), 'g', 3, 64) + " seconds"
}

// Columns is the number of columns that every terminal has.
const Columns = 79

// Say prints a paragraph in lines that every terminal has.
func Say(out io.Writer, format string, args ...any) {
	fmt.Fprintln(out, strings.Join(Wrap(fmt.Sprintf(format, args...), Columns), "\n"))
}

// Wrap breaks a text into lines of at most so many characters.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
