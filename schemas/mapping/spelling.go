package mapping

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The values of Options.Key that name one spelling of each user id begin so.
const (
	// SpelledJSON comes before JSON text with one asterisk where the user id is, as in
	// json:{"id":*} and json:"*". Each other byte of a key has to be that of the text. In quotes
	// the id is a text as RFC 8785 writes it: escaped are only quotes, backslashes and control
	// characters. Without quotes it is a whole number, without zeros in front and without -0.
	SpelledJSON = "json:"
	// SpelledAvro comes before a schema's number and the type of the user id, as in avro:42:long
	// and avro:42:string. A key is in Confluent's framing, of that schema alone, and in Avro's
	// shortest encoding: the id, or a record with it as its only field. With ? at the end the type
	// is a union of null and that type, in this order.
	SpelledAvro = "avro:"
)

// mark stands for the user id in the text after SpelledJSON.
const mark = "*"

// spelling is the one way in which keys write user ids.
type spelling struct {
	before, after string
	write         func(user string) (middle string, ok bool)
	read          func(middle string) (user string) // of what write has written; else anything
}

// newSpelling reads a value of Options.Key; nil: it does not name one spelling.
func newSpelling(key Key) (*spelling, error) {
	if text, ok := strings.CutPrefix(string(key), SpelledJSON); ok {
		return jsonSpelling(text)
	}
	if text, ok := strings.CutPrefix(string(key), SpelledAvro); ok {
		return avroSpelling(text)
	}
	return nil, nil //nolint:nilnil // keys in other encodings have many spellings, or are the id
}

func jsonSpelling(text string) (*spelling, error) {
	before, after, _ := strings.Cut(text, mark)
	s := &spelling{before, after, writeNumber, readSame}
	sample := "0"
	if strings.HasSuffix(before, `"`) && strings.HasPrefix(after, `"`) {
		s.write, s.read, sample = writeText, readText, "x"
	}
	if strings.Count(text, mark) != 1 || !json.Valid([]byte(before+sample+after)) {
		return nil, errors.New("after json: write a key with one * as the user id, such as " +
			"json:{\"id\":*}")
	}
	return s, nil
}

func avroSpelling(text string) (*spelling, error) {
	number, kind, _ := strings.Cut(text, ":")
	id, err := strconv.ParseUint(number, 10, 32)
	kind, optional := strings.CutSuffix(kind, "?")
	if err != nil || id > math.MaxInt32 || kind != "string" && kind != "long" {
		return nil, errors.New("after avro: write the schema's number and the id's type, such as " +
			"avro:42:long")
	}
	s := &spelling{before: string(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)))}
	if optional {
		s.before += "\x02" // the second type of the union
	}
	s.write, s.read = writeAvroText, readAvroText
	if kind == "long" {
		s.write, s.read = writeLong, readLong
	}
	return s, nil
}

// key returns the key of a user; ok is false if the spelling has none for this id.
func (s *spelling) key(user string) (key string, ok bool) {
	middle, ok := s.write(user)
	return s.before + middle + s.after, ok
}

// user returns the user whose key this is; ok is false if it is nobody's.
func (s *spelling) user(key string) (user string, ok bool) {
	middle, starts := strings.CutPrefix(key, s.before)
	middle, ends := strings.CutSuffix(middle, s.after)
	if !starts || !ends {
		return "", false
	}
	user = s.read(middle)
	own, ok := s.key(user)
	return user, ok && own == key
}

func readSame(middle string) string { return middle }

func writeNumber(user string) (string, bool) {
	digits := strings.TrimPrefix(user, "-")
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return "", false
		}
	}
	return user, digits != "" && (digits[0] != '0' || user == "0")
}

// writeText writes the inside of a JSON string as RFC 8785 does (section 3.2.2.2).
func writeText(user string) (string, bool) {
	const short = "\b\t\n\f\r\"\\"
	var text strings.Builder
	for _, c := range []byte(user) {
		switch at := strings.IndexByte(short, c); {
		case at >= 0:
			text.WriteByte('\\')
			text.WriteByte(`btnfr"\`[at])
		case c < ' ':
			fmt.Fprintf(&text, `\u%04x`, c)
		default:
			text.WriteByte(c)
		}
	}
	return text.String(), utf8.ValidString(user)
}

func readText(middle string) (user string) {
	if json.Unmarshal([]byte(`"`+middle+`"`), &user) != nil {
		return ""
	}
	return user
}

func writeLong(user string) (string, bool) {
	n, err := strconv.ParseInt(user, 10, 64)
	return string(binary.AppendVarint(nil, n)), err == nil && strconv.FormatInt(n, 10) == user
}

func readLong(middle string) string {
	n, _ := binary.Varint([]byte(middle)) // Avro's zigzag numbers are Go's
	return strconv.FormatInt(n, 10)
}

func writeAvroText(user string) (string, bool) {
	return string(binary.AppendVarint(nil, int64(len(user)))) + user, true
}

func readAvroText(middle string) string {
	_, n := binary.Varint([]byte(middle))
	return middle[max(n, 0):]
}
