package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

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

// Percent prints a share in percent, with a decimal where a whole number would be small.
func Percent(share float64) string {
	if share < .1 {
		return fmt.Sprintf("%.1f", 100*share)
	}
	return fmt.Sprintf("%.0f", 100*share)
}

// Columns is the number of columns that every terminal has.
const Columns = 79

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
