package cli

import (
	"fmt"
	"strings"
)

// Summary is a text of lines with a word in front of each.
type Summary struct{ strings.Builder }

// Line adds a line.
func (s *Summary) Line(word, format string, args ...any) {
	fmt.Fprintf(s, "%-12s"+format+"\n", append([]any{word}, args...)...)
}
