package schemas

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// decodeJSON reads the fields into row. It returns "" or the reason why the record is refused. It
// finds fields by their exact name, in any order, and skips unknown ones. They may be inside Kafka
// Connect's envelope, if unwrap names it.
func (l *layout) decodeJSON(row []value, data []byte, unwrap bool) Reason {
	if !utf8.Valid(data) {
		return ReasonInvalidUTF8
	}
	// From here on the text is known to be one JSON value, so the walker only has to find where its
	// parts end.
	if !json.Valid(data) {
		return ReasonMalformed
	}
	if unwrap {
		data = payloadOf(data)
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

// find returns the index of the column with the name of a key, which is still in quotes; -1 if
// there is none.
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
	// encoding/json replaces half a surrogate pair by U+FFFD, so two different user ids would
	// become one.
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

// decodeMillis reads milliseconds since 1970. An integer beyond 64 bits becomes the nearest one,
// which Validate refuses.
func decodeMillis(v *value, literal []byte) Reason {
	if bytes.ContainsAny(literal, ".eE") {
		return ReasonWrongType
	}
	// On a range error ParseInt returns the nearest integer.
	v.integer, _ = strconv.ParseInt(string(literal), 10, 64)
	return ""
}

// decodeTime reads an RFC 3339 time, and rounds it down to a millisecond.
func decodeTime(v *value, literal []byte) Reason {
	text, reason := decodeString(literal)
	if reason != "" {
		return reason
	}
	ms, ok := ParseTime([]byte(text))
	if !ok {
		return ReasonWrongType
	}
	v.integer = ms
	return ""
}

func decodeNumber(v *value, literal []byte) Reason {
	number, err := strconv.ParseFloat(string(literal), 64)
	if err != nil || math.IsInf(number, 0) {
		return ReasonNotFinite // the JSON is valid, so only the number's size can be wrong
	}
	v.number = number
	return ""
}

// appendJSON appends row as one object in the order of the schema, without spaces. Every record has
// every field: a reader that guesses columns from the first records must find all of them. Numbers
// must be finite. textTimes writes times as text, and a time before 1970, which is none, as null.
func (l *layout) appendJSON(dst []byte, row []value, textTimes bool) []byte {
	for i, c := range l.columns {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		dst = append(append(append(dst, separator, '"'), c.name...), `":`...)
		switch v := row[i]; {
		case !v.present, c.kind == kindTimestamp && textTimes && v.integer < 0:
			dst = append(dst, "null"...)
		case c.kind == kindText:
			dst = appendString(dst, v.text)
		case c.kind == kindDouble, c.kind == kindNullOrDouble:
			dst = AppendNumber(dst, v.number)
		case c.kind == kindTimestamp && textTimes:
			dst = append(AppendTime(append(dst, '"'), v.integer), '"')
		default: // kindInt, kindLong, kindTimestamp
			dst = strconv.AppendInt(dst, v.integer, 10)
		}
	}
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// appendString appends text as a JSON string with as little escaping as possible (RFC 8259, section
// 7). Text must be UTF-8.
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

// AppendNumber appends the shortest decimal that reads back as x, which must be finite. It uses an
// exponent only where a person would. It always has a decimal point, 0.0: a reader that guesses the
// type of a column would take whole numbers for integers, and then round 6.6 to 7.
func AppendNumber(dst []byte, x float64) []byte {
	format := byte('e')
	if a := math.Abs(x); a == 0 || a >= 1e-6 && a < 1e21 {
		format = 'f'
	}
	begin := len(dst)
	dst = strconv.AppendFloat(dst, x, format, -1, 64)
	if bytes.IndexByte(dst[begin:], '.') >= 0 {
		return dst
	}
	if e := bytes.IndexByte(dst[begin:], 'e'); e >= 0 {
		return slices.Insert(dst, begin+e, '.', '0')
	}
	return append(dst, '.', '0')
}

// walker steps through the members of one JSON object that is known to be valid. It finds where
// each part ends and checks nothing.
type walker struct {
	data []byte
	at   int
}

// peek skips spaces and returns the byte that follows.
func (w *walker) peek() byte {
	for {
		switch b := w.data[w.at]; b {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return b
		}
	}
}

// next moves past the brace or comma before a member; false at the end.
func (w *walker) next() bool {
	if w.peek() == '}' {
		return false
	}
	w.at++
	return w.peek() != '}' // an empty object
}

// member returns the next key, in its quotes, and its value, not decoded.
func (w *walker) member() (key, literal []byte) {
	w.peek()
	key = w.token()
	w.peek()
	w.at++ // the colon
	w.peek()
	return key, w.token()
}

// token returns one whole value and moves past it.
func (w *walker) token() []byte {
	start := w.at
	switch w.data[w.at] {
	case '"':
		w.skipString()
	case '{', '[':
		w.skipNested()
	default:
		for w.at < len(w.data) && !endsLiteral(w.data[w.at]) {
			w.at++
		}
	}
	return w.data[start:w.at]
}

func (w *walker) skipString() {
	for w.at++; w.data[w.at] != '"'; w.at++ {
		if w.data[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

func (w *walker) skipNested() {
	for depth := 0; ; {
		switch w.data[w.at] {
		case '"':
			w.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		w.at++
		if depth == 0 {
			return
		}
	}
}

func endsLiteral(b byte) bool {
	switch b {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// payloadOf returns the payload of a valid JSON object that has "schema" and "payload" and nothing
// else, and other objects as they are.
func payloadOf(data []byte) []byte {
	w := walker{data: data}
	if w.peek() != '{' {
		return data
	}
	var payload []byte
	var members, schemas int
	for w.next() {
		key, literal := w.member()
		switch members++; string(key) {
		case `"payload"`:
			payload = literal
		case `"schema"`:
			schemas++
		}
		if members > 2 {
			return data
		}
	}
	if members == 2 && schemas == 1 && payload != nil {
		return payload
	}
	return data
}

// loneSurrogate reports whether the inside of a valid JSON string escapes half of a UTF-16
// surrogate pair.
func loneSurrogate(inner []byte) bool {
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		i++
		unit, ok := escapedUnit(inner, i)
		if !ok {
			continue
		}
		i += 4
		switch {
		case unit>>10 == 0xDC00>>10: // a low half first
			return true
		case unit>>10 != 0xD800>>10:
			continue
		}
		low, ok := uint64(0), false
		if i+1 < len(inner) && inner[i+1] == '\\' {
			low, ok = escapedUnit(inner, i+2)
		}
		if !ok || low>>10 != 0xDC00>>10 {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads the code unit of a \uXXXX whose u stands at index i.
func escapedUnit(inner []byte, i int) (unit uint64, ok bool) {
	if i+5 > len(inner) || inner[i] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(inner[i+1:i+5]), 16, 16)
	return unit, err == nil
}
