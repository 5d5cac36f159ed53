package traces

import "bytes"

// quotes is how the quotes of a record were found.
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
