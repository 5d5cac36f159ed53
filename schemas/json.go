package schemas

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// decodeJSON reads the fields into row and returns "" or the reason of refusal.
// Fields are found by their exact name, in any order; unknown ones are skipped.
func (l *layout) decodeJSON(row []value, data []byte) Reason {
	if !utf8.Valid(data) {
		return ReasonInvalidUTF8
	}
	// From here on the text is known to be one JSON value, so that the walk
	// below only has to find where its parts end.
	if !json.Valid(data) {
		return ReasonMalformed
	}
	w := walker{data: data}
	if w.peek() != '{' {
		return ReasonWrongType
	}
	var seen [maxFields]bool
	for w.next() {
		key, literal := w.member()
		i, reason := l.find(key)
		switch {
		case reason != "":
			return reason
		case i < 0:
			continue
		case seen[i]:
			return ReasonDuplicateField
		}
		seen[i] = true
		switch reason := decodeLiteral(&row[i], l.columns[i].kind, literal); reason {
		case "":
		case ReasonWrongType:
			return reason.At(l.columns[i].field)
		default:
			return reason
		}
	}
	for i, c := range l.columns {
		if !seen[i] && c.kind != kindNullOrDouble {
			return ReasonMissingField.At(c.field)
		}
	}
	return ""
}

// find returns the index of the column that a key, still in quotes, names; -1
// if none.
func (l *layout) find(key []byte) (int, Reason) {
	name := key[1 : len(key)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		text, reason := decodeString(key)
		if reason != "" {
			return -1, reason
		}
		name = []byte(text)
	}
	for i := range l.columns {
		if l.columns[i].name == string(name) {
			return i, ""
		}
	}
	return -1, ""
}

func decodeLiteral(v *value, k kind, literal []byte) (reason Reason) {
	v.present = true
	first := literal[0]
	number := first == '-' || '0' <= first && first <= '9'
	switch {
	case k == kindText && first == '"':
		v.text, reason = decodeString(literal)
		return reason
	case k == kindTimestamp && first == '"':
		return decodeTime(v, literal)
	case k == kindInt && number:
		return decodeInteger(v, literal, 32)
	case k == kindLong && number:
		return decodeInteger(v, literal, 64)
	case k == kindTimestamp && number:
		return decodeMillis(v, literal)
	case (k == kindDouble || k == kindNullOrDouble) && number:
		return decodeNumber(v, literal)
	case k == kindNullOrDouble && first == 'n':
		v.present = false
		return ""
	}
	return ReasonWrongType
}

func decodeString(literal []byte) (string, Reason) {
	inner := literal[1 : len(literal)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), ""
	}
	// encoding/json makes U+FFFD of half a surrogate pair: two user ids that
	// differ would become one.
	if loneSurrogate(inner) {
		return "", ReasonInvalidUTF8
	}
	var text string
	if err := json.Unmarshal(literal, &text); err != nil {
		return "", ReasonMalformed
	}
	return text, ""
}

// decodeInteger reads a number written without fraction and exponent.
func decodeInteger(v *value, literal []byte, bits int) Reason {
	integer, err := strconv.ParseInt(string(literal), 10, bits)
	if err != nil {
		return ReasonWrongType
	}
	v.integer = integer
	return ""
}

// decodeMillis reads epoch milliseconds. Integers beyond 64 bits become the
// nearest one, whose reason Validate then gives.
func decodeMillis(v *value, literal []byte) Reason {
	if bytes.ContainsAny(literal, ".eE") {
		return ReasonWrongType
	}
	// On a range error ParseInt returns the nearest integer.
	v.integer, _ = strconv.ParseInt(string(literal), 10, 64)
	return ""
}

// decodeTime reads an RFC 3339 time; what is finer than a millisecond is cut
// off towards the past.
func decodeTime(v *value, literal []byte) Reason {
	text, reason := decodeString(literal)
	if reason != "" {
		return reason
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return ReasonWrongType
	}
	v.integer = t.UnixMilli()
	return ""
}

func decodeNumber(v *value, literal []byte) Reason {
	number, err := strconv.ParseFloat(string(literal), 64)
	if err != nil || math.IsInf(number, 0) {
		return ReasonNotFinite // the grammar is sound: only its size can be wrong
	}
	v.number = number
	return ""
}

// appendJSON appends row as one object in the order of the schema, without
// absent fields and without spaces. Numbers must be finite.
func (l *layout) appendJSON(dst []byte, row []value) []byte {
	dst = append(dst, '{')
	for i, c := range l.columns {
		if !row[i].present {
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), c.name...), `":`...)
		switch c.kind {
		case kindText:
			dst = appendString(dst, row[i].text)
		case kindDouble, kindNullOrDouble:
			dst = appendNumber(dst, row[i].number)
		default: // kindInt, kindLong, kindTimestamp
			dst = strconv.AppendInt(dst, row[i].integer, 10)
		}
	}
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// appendString appends text as a JSON string with the least escaping there is
// (RFC 8259, section 7). Text must be UTF-8.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		switch b := text[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}

// appendNumber appends the shortest decimal that reads back as x, without an
// exponent where a person would not write one.
func appendNumber(dst []byte, x float64) []byte {
	if a := math.Abs(x); a == 0 || a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(dst, x, 'f', -1, 64)
	}
	return strconv.AppendFloat(dst, x, 'e', -1, 64)
}
