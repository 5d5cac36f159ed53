package traces

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/geodither/geodither/schemas"
)

// readCSV reads records as in RFC 4180, below a header.
func readCSV(p *pass) error {
	var rec record
	start, reason, err := nextRecord(p, &rec)
	if err != nil {
		if errors.Is(err, io.EOF) {
			p.skip(1, reasonEmptyFile)
			return nil
		}
		return err
	}
	if reason != "" {
		return fmt.Errorf("%s:%d: the header is no CSV: expected columns %s", p.file.path, start,
			expectedColumns(wantedNames(p.columns)))
	}
	head, err := parseHeader(rec.fields, p.columns)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", p.file.path, start, err)
	}
	return p.each(func() (fix schemas.Raw, start int, reason string, err error) {
		if start, reason, err = nextRecord(p, &rec); err == nil && reason == "" {
			fix, reason = head.parse(rec.fields, &p.names)
		}
		return fix, start, reason, err
	})
}

// maxRecordLines bounds a record over several lines. It is what a quote that is never closed can
// cost, as one skip.
const maxRecordLines = 100

// nextRecord reads a record and returns the line where it starts, or io.EOF after the last. A
// quoted field may hold line ends. If the quotes of a record are wrong it returns a reason to skip
// the record; the next one starts on the following line.
func nextRecord(p *pass, rec *record) (start int, reason string, err error) {
	line, err := p.next()
	if err != nil {
		return 0, "", err
	}
	start = p.lines.number
	result := rec.parse(line)
	if result == quotesOpen {
		rec.joined = append(rec.joined[:0], line...)
	}
	for count := 1; result == quotesOpen; count++ {
		line, err := p.lines.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errTooLong) {
			return start, reasonQuotes, nil
		}
		if err != nil {
			return 0, "", p.failure(err)
		}
		if count == maxRecordLines || len(rec.joined)+len(line) >= maxLineBytes {
			return start, reasonQuotes, nil
		}
		rec.joined = append(append(rec.joined, '\n'), line...)
		result = rec.parse(rec.joined)
	}
	if result == quotesBad {
		return start, reasonQuotes, nil
	}
	return start, "", nil
}

// quotes is the state of the quotes of a record.
type quotes int

const (
	quotesFine quotes = iota
	quotesOpen        // the last field's quote is not closed: another line belongs to it
	quotesBad
)

// record is a line of CSV, cut into fields, and the memory for it.
type record struct {
	fields [][]byte // valid until the line or the record is used again
	joined []byte   // a record over several lines
	plain  []byte   // quoted fields that hold quotes, without the doubling
}

// parse cuts a record into fields. Blanks around a field are dropped, unless
// they are in quotes.
func (r *record) parse(line []byte) quotes {
	r.fields, r.plain = r.fields[:0], r.plain[:0]
	for {
		line = bytes.TrimLeft(line, " \t")
		if len(line) > 0 && line[0] == '"' {
			field, rest, result := r.quoted(line[1:])
			if result != quotesFine {
				return result
			}
			r.fields = append(r.fields, field)
			if len(rest) == 0 {
				return quotesFine
			}
			line = rest[1:]
			continue
		}
		end := bytes.IndexByte(line, ',')
		field := line
		if end >= 0 {
			field = line[:end]
		}
		if bytes.IndexByte(field, '"') >= 0 {
			return quotesBad
		}
		r.fields = append(r.fields, bytes.TrimRight(field, " \t"))
		if end < 0 {
			return quotesFine
		}
		line = line[end+1:]
	}
}

// quoted returns the field whose opening quote stood before text, and what
// follows it: nothing or a comma.
func (r *record) quoted(text []byte) (field, rest []byte, result quotes) {
	start := len(r.plain)
	for {
		end := bytes.IndexByte(text, '"')
		if end < 0 {
			return nil, nil, quotesOpen
		}
		if end+1 < len(text) && text[end+1] == '"' {
			r.plain = append(r.plain, text[:end+1]...)
			text = text[end+2:]
			continue
		}
		if field = text[:end]; len(r.plain) > start {
			r.plain = append(r.plain, field...)
			field = r.plain[start:]
		}
		rest = bytes.TrimLeft(text[end+1:], " \t")
		if len(rest) > 0 && rest[0] != ',' {
			return nil, nil, quotesBad
		}
		return field, rest, quotesFine
	}
}

// header says which field of a record holds which column.
type header struct {
	fields int
	index  [columnCount]int // -1: the file has no such column
}

// parse reads a record into a fix. An empty accuracy counts as none.
func (h *header) parse(fields [][]byte, shared *names) (fix schemas.Raw, reason string) {
	if len(fields) != h.fields {
		return schemas.Raw{}, reasonColumns
	}
	if fix.Timestamp, reason = parseTimestamp(fields[h.index[columnTimestamp]]); reason != "" {
		return schemas.Raw{}, reason
	}
	if reason = parsePlace(&fix, fields[h.index[columnLatitude]],
		fields[h.index[columnLongitude]]); reason != "" {
		return schemas.Raw{}, reason
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

// parseTimestamp reads whole milliseconds since 1970, or a time. It refuses ten digits: they are
// early 1970 in milliseconds, but any day from 2001 to 2286 in seconds.
func parseTimestamp(text []byte) (ms int64, reason string) {
	if ms, ok := parseTime(text); ok {
		return ms, ""
	}
	ms, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, reasonTimestamp
	}
	return ms, secondsReason(ms)
}

// parseHeader finds the columns. The caller may name some of them, which then must exist. Without
// such names it refuses sanitized records, which have all columns of raw fixes: a model trained on
// them, or a release of a release, would be wrong in silence.
func parseHeader(fields [][]byte, given map[string]string) (*header, error) {
	wanted := wantedNames(given)
	found := make([]string, len(fields))
	for i, field := range fields {
		found[i] = strings.ToLower(string(field))
	}
	if len(given) == 0 && slices.Contains(found, "radius_m") && slices.Contains(found, "kind") {
		return nil, errors.New("these are sanitized records, with columns radius_m and kind; raw " +
			"fixes are wanted (traces-form)")
	}
	h := &header{fields: len(fields)}
	var missing, named []string // as looked for, and for the flag
	taken := make([]bool, len(fields))
	for column, known := range wanted {
		at := occurrences(found, known)
		switch {
		case len(at) == 1:
			h.index[column], taken[at[0]] = at[0], true
			if name := columnNames[column][0]; given[name] != "" && given[name] != name {
				named = append(named, name+"="+given[name])
			}
		case len(at) > 1:
			return nil, fmt.Errorf("%d columns may be the %s: rename others", len(at), known[0])
		case column == columnAccuracy && given[columnNames[column][0]] == "":
			h.index[column] = -1
		default:
			missing = append(missing, known[0])
			named = append(named, columnNames[column][0]+"=NAME")
		}
	}
	if len(missing) > 0 {
		fitting(named, found, taken)
		named = slices.DeleteFunc(named, func(value string) bool {
			column, name, _ := strings.Cut(value, "=")
			return column == name
		})
		remedy := "leave --columns out"
		if len(named) > 0 {
			remedy = "name the columns with --columns " + strings.Join(named, ",")
		}
		return nil, fmt.Errorf("no column %s: found %s, expected %s: correct the header, or %s "+
			"(train, sanitize, ...)", strings.Join(missing, ", "), describe(found),
			expectedColumns(wanted), remedy)
	}
	return h, nil
}

// hints are words in names that fleets give a column, the best first.
var hints = [columnCount][]string{
	columnUser:      {"user", "vehicle", "device", "driver", "imei", "id"},
	columnTimestamp: {"time", "date", "recorded", "at", "ts"},
	columnLatitude:  {"lat"},
	columnLongitude: {"lon", "lng"},
	columnAccuracy:  {"accuracy"},
}

// fitting replaces NAME in values for the flag, COLUMN=NAME, by a name of the header that is not
// taken, where exactly one has a hint. A first line that is no header is not repeated.
func fitting(values, found []string, taken []bool) {
	if slices.ContainsFunc(found, func(s string) bool { return s != "" && !looksLikeName(s) }) {
		return
	}
	for i, value := range values {
		name, wanted := strings.CutSuffix(value, "=NAME")
		column := slices.IndexFunc(columnNames[:], func(n []string) bool { return n[0] == name })
		if !wanted || column < 0 {
			continue
		}
		for _, hint := range hints[column] {
			var fit []int
			for at, field := range found {
				if !taken[at] && hasWord(field, hint) {
					fit = append(fit, at)
				}
			}
			if len(fit) == 1 {
				values[i], taken[fit[0]] = name+"="+found[fit[0]], true
				break
			}
		}
	}
}

// hasWord reports whether a name that a shell takes as it is has a word that begins or ends so.
func hasWord(name, word string) bool {
	return !strings.ContainsAny(name, " ()/") &&
		slices.ContainsFunc(strings.FieldsFunc(name, func(c rune) bool {
			return strings.ContainsRune("_-.", c)
		}), func(part string) bool {
			return strings.HasPrefix(part, word) || strings.HasSuffix(part, word)
		})
}

// occurrences returns the fields that may be a column: those with its first name or, if there is
// none, those with any of its other names.
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

// describe lists the names in a header, up to a bound. If one of them looks like data the line is
// no header, and describe does not repeat it.
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

// looksLikeName reports whether a field may be a column's name: it is short, starts with a letter
// or _, has no separator of other formats, and too few digits for a time or a place.
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

// The columns of a CSV file that are read.
const (
	columnUser = iota
	columnTimestamp
	columnLatitude
	columnLongitude
	columnAccuracy
	columnCount
)

// columnNames are the names of each column; the first is the one to use.
var columnNames = [columnCount][]string{
	columnUser:      {"user_id", "user", "uid"},
	columnTimestamp: {"timestamp", "time", "ts"},
	columnLatitude:  {"latitude", "lat"},
	columnLongitude: {"longitude", "lon", "lng", "long"},
	columnAccuracy:  {"accuracy_m"},
}

// wantedNames returns the names that each column may have in a header, in lower case: only the
// given name if there is one, or else all its names that are not given to another column.
func wantedNames(given map[string]string) [columnCount][]string {
	taken := map[string]bool{}
	for _, name := range given {
		taken[strings.ToLower(name)] = true
	}
	var wanted [columnCount][]string
	for column, known := range columnNames {
		if name, ok := given[known[0]]; ok {
			wanted[column] = []string{strings.ToLower(name)}
			continue
		}
		for _, name := range known {
			if !taken[name] {
				wanted[column] = append(wanted[column], name)
			}
		}
	}
	return wanted
}

// expectedColumns lists the names that a header may use.
func expectedColumns(wanted [columnCount][]string) string {
	parts := make([]string, columnCount)
	for i, known := range wanted {
		parts[i] = known[0]
		if len(known) > 1 {
			parts[i] += " (or " + strings.Join(known[1:], ", ") + ")"
		}
	}
	parts[columnAccuracy] += " (optional)"
	return strings.Join(parts, ", ")
}
