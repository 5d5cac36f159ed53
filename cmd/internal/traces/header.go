package traces

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/geodither/geodither/schemas"
)

// header says which field of a record is which column.
type header struct {
	fields int
	index  [columnCount]int // -1: there is no such column
}

// parse reads a record into a fix. An empty accuracy is none.
func (h *header) parse(fields [][]byte, shared *names) (fix schemas.Raw, reason string) {
	if len(fields) != h.fields {
		return schemas.Raw{}, reasonColumns
	}
	if fix.Timestamp, reason = parseTimestamp(fields[h.index[columnTimestamp]]); reason != "" {
		return schemas.Raw{}, reason
	}
	var ok bool
	if fix.Latitude, ok = parseNumber(fields[h.index[columnLatitude]]); !ok {
		return schemas.Raw{}, reasonNumber
	}
	if fix.Longitude, ok = parseNumber(fields[h.index[columnLongitude]]); !ok {
		return schemas.Raw{}, reasonNumber
	}
	if i := h.index[columnAccuracy]; i >= 0 && len(fields[i]) > 0 {
		accuracy, ok := parseNumber(fields[i])
		if !ok {
			return schemas.Raw{}, reasonNumber
		}
		fix.AccuracyM = &accuracy
	}
	fix.UserID = shared.share(fields[h.index[columnUser]])
	return fix, ""
}

// parseHeader finds the columns, of which some may be named by the caller: those
// must be there.
func parseHeader(fields [][]byte, given map[string]string) (*header, error) {
	wanted := wantedNames(given)
	found := make([]string, len(fields))
	for i, field := range fields {
		found[i] = strings.ToLower(string(field))
	}
	h := &header{fields: len(fields)}
	var missing []string
	for column, known := range wanted {
		at := occurrences(found, known)
		switch {
		case len(at) == 1:
			h.index[column] = at[0]
		case len(at) > 1:
			return nil, fmt.Errorf("%d columns may be the %s: rename all but one of them", len(at), known[0])
		case column == columnAccuracy && given[columnNames[column][0]] == "":
			h.index[column] = -1
		default:
			missing = append(missing, known[0])
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no column %s: found %s, expected %s: correct the header line, or name the columns",
			strings.Join(missing, ", "), describe(found), expectedColumns(wanted))
	}
	return h, nil
}

// occurrences returns where a column stands: where its first name does, or else
// where any of its other names does.
func occurrences(found, known []string) []int {
	var first, other []int
	for i, name := range found {
		switch slices.Index(known, name) {
		case -1:
		case 0:
			first = append(first, i)
		default:
			other = append(other, i)
		}
	}
	if len(first) > 0 {
		return first
	}
	return other
}

// describe lists the names in a header, bounded. If one of them looks like data
// the line is no header, and is not repeated.
func describe(found []string) string {
	const maxColumns = 20
	var parts []string
	for _, name := range found {
		if name == "" {
			continue
		}
		if !looksLikeName(name) {
			return "a first line that is no header, or is not separated by commas"
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return "none"
	}
	if len(parts) > maxColumns {
		parts = append(parts[:maxColumns], "...")
	}
	return strings.Join(parts, ", ")
}

// looksLikeName reports whether a field may be a column's name: short, a letter
// or _ first, no separator of other formats, and too few digits for a time or a
// place.
func looksLikeName(field string) bool {
	const maxBytes, maxDigits = 40, 3
	first, _ := utf8.DecodeRuneInString(field)
	if len(field) > maxBytes || first != '_' && !unicode.IsLetter(first) {
		return false
	}
	digits := 0
	for _, c := range field {
		if unicode.IsDigit(c) {
			digits++
		} else if !unicode.IsLetter(c) && !strings.ContainsRune("_-. ()/", c) {
			return false
		}
	}
	return digits <= maxDigits
}
