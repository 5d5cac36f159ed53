package traces

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/geodither/geodither/schemas"
)

// maxFirst bounds Skips.First.
const maxFirst = 20

// Reasons for skipping a line beside those of schemas.
const (
	// another number of fields than the format or the header has
	reasonColumns   = "wrong_columns"
	reasonTimestamp = "bad_timestamp"        // neither RFC 3339 nor epoch milliseconds
	reasonSeconds   = "timestamp_in_seconds" // ten digits: epoch seconds where milliseconds are due
	// a latitude, longitude or accuracy that is no decimal number
	reasonNumber = "bad_number"
	// a quote inside a CSV field, or one that is never closed
	reasonQuotes    = "bad_quotes"
	reasonEmptyFile = "empty_file"
	reasonNoGeolife = "no_geolife_header" // first line of a .plt file
)

// Skip is a line that was left out.
type Skip struct {
	File   string // or another source, such as a topic's partition
	Line   int    // from 1; where a CSV record over several lines starts; or a record's offset
	Reason string // a constant snake_case word: of schemas.Reasons or of this package
}

// Skips counts what was left out. It holds names of files, and nothing of their content.
type Skips struct {
	Total    int64
	ByReason map[string]int64
	First    []Skip // at most 20
	Unit     string // what was skipped; empty: line

	files []int // which of the sources each of First is in
}

func newSkips() Skips { return Skips{ByReason: map[string]int64{}} }

// Add counts a skip in the source of a number.
func (s *Skips) Add(file int, skip Skip) {
	if s.ByReason == nil {
		s.ByReason = map[string]int64{}
	}
	s.Total++
	s.ByReason[skip.Reason]++
	if len(s.First) < maxFirst {
		s.First, s.files = append(s.First, skip), append(s.files, file)
	}
}

// Merge adds up what several readers left out. Each source must have had one reader, and each
// reader must have read its sources in ascending order: then the first skips of a reader hold all
// of its skips that are among the first of all.
func Merge(parts ...*Skips) Skips {
	all := newSkips()
	type placed struct {
		file int
		skip Skip
	}
	var first []placed
	for _, s := range parts {
		all.Total += s.Total
		all.Unit = s.Unit
		for reason, n := range s.ByReason {
			all.ByReason[reason] += n
		}
		for i, skip := range s.First {
			first = append(first, placed{s.files[i], skip})
		}
	}
	slices.SortStableFunc(first, func(a, b placed) int { return cmp.Compare(a.file, b.file) })
	for _, p := range first[:min(len(first), maxFirst)] {
		all.First, all.files = append(all.First, p.skip), append(all.files, p.file)
	}
	return all
}

// Nothing returns an error if nothing was read because all of it was skipped. An input that has no
// lines at all is no error: an exporter of traces may have none of a day.
func (s *Skips) Nothing(read int64) error {
	if read > 0 || s.Total == 0 {
		return nil
	}
	return fmt.Errorf("nothing could be read: %s", s)
}

// String returns one line for a terminal: how many were skipped, why (the most frequent reason
// first), where the first one is, and what to do about the reason that is a matter of units.
// schemas/REASONS.md explains the others.
func (s *Skips) String() string {
	noun := cmp.Or(s.Unit, "line")
	if s.Total == 0 {
		return "no " + noun + "s skipped"
	}
	reasons := slices.SortedFunc(maps.Keys(s.ByReason), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ByReason[b], s.ByReason[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(reasons))
	for i, reason := range reasons {
		parts[i] = fmt.Sprintf("%d %s", s.ByReason[reason], reason)
	}
	if s.Total != 1 {
		noun += "s"
	}
	text := fmt.Sprintf("%d %s skipped: %s", s.Total, noun, strings.Join(parts, ", "))
	if len(s.First) > 0 {
		text += fmt.Sprintf("; first at %s:%d", s.First[0].File, s.First[0].Line)
	}
	missing := string(schemas.ReasonMissingField.At("user_id"))
	if s.Unit == "" && s.ByReason[missing]+s.ByReason[reasonNoKey] > 0 {
		text += "; the section input of a config says where the user is, with -c"
	}
	if s.ByReason[reasonSeconds] > 0 {
		text += "; times look like seconds since 1970: write milliseconds or RFC 3339"
	}
	return text
}
