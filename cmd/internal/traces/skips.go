package traces

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxFirst bounds Skips.First.
const maxFirst = 20

// Reasons for skipping a line beside those of schemas.
const (
	reasonColumns   = "wrong_columns"        // another number of fields than the format or the header has
	reasonTimestamp = "bad_timestamp"        // neither RFC 3339 nor epoch milliseconds
	reasonSeconds   = "timestamp_in_seconds" // ten digits: epoch seconds where milliseconds are due
	reasonNumber    = "bad_number"           // a latitude, longitude or accuracy that is no decimal number
	reasonQuotes    = "bad_quotes"           // a quote inside a CSV field, or one that is never closed
	reasonEmptyFile = "empty_file"
	reasonNoGeolife = "no_geolife_header" // first line of a .plt file
)

// Skip is a line that was left out.
type Skip struct {
	File   string
	Line   int    // from 1; where a CSV record over several lines starts
	Reason string // a constant snake_case word: of schemas.Reasons or of this package
}

// Skips counts what was left out. It holds names of files, and nothing of what
// stands in them.
type Skips struct {
	Total    int64
	ByReason map[string]int64
	First    []Skip // at most 20

	files []int // which of the files each of First is in; nil when all is read
}

func newSkips() Skips { return Skips{ByReason: map[string]int64{}} }

func (s *Skips) add(file int, skip Skip) {
	s.Total++
	s.ByReason[skip.Reason]++
	if len(s.First) < maxFirst {
		s.First, s.files = append(s.First, skip), append(s.files, file)
	}
}

// String returns one line for a terminal: how many, why (most frequent first)
// and where the first one stands.
func (s *Skips) String() string {
	if s.Total == 0 {
		return "no lines skipped"
	}
	reasons := slices.SortedFunc(maps.Keys(s.ByReason), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ByReason[b], s.ByReason[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(reasons))
	for i, reason := range reasons {
		parts[i] = fmt.Sprintf("%d %s", s.ByReason[reason], reason)
	}
	noun := "lines"
	if s.Total == 1 {
		noun = "line"
	}
	text := fmt.Sprintf("%d %s skipped: %s", s.Total, noun, strings.Join(parts, ", "))
	if len(s.First) > 0 {
		text += fmt.Sprintf("; first at %s:%d", s.First[0].File, s.First[0].Line)
	}
	return text
}
