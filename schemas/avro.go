package schemas

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/linkedin/goavro/v2"
)

// Branches of the union of null and double, in the order of the schema.
const (
	branchNull   = 0
	branchDouble = 1
)

// decodeAvro reads the fields into row. It returns "" or the reason why the record is refused.
func (l *layout) decodeAvro(row []value, data []byte) Reason {
	fingerprint, rest, err := goavro.FingerprintFromSOE(data)
	if err != nil {
		return ReasonMalformed
	}
	if header(fingerprint) != l.header {
		return ReasonUnknownSchema
	}
	return l.decodeBody(row, rest)
}

// decodeBody is decodeAvro after the header.
func (l *layout) decodeBody(row []value, rest []byte) Reason {
	for i, c := range l.columns {
		var reason Reason
		if rest, reason = decode(&row[i], c.kind, rest); reason != "" {
			return reason
		}
	}
	if len(rest) > 0 {
		return ReasonMalformed
	}
	return ""
}

// decode reads one field. The encoding of a record is that of its fields, one after the other, so
// no map[string]any is made for a record, as goavro would; a test compares the two.
func decode(v *value, k kind, data []byte) (rest []byte, reason Reason) {
	v.present = true
	switch k {
	case kindText:
		return decodeText(v, data)
	case kindInt:
		// An int is decoded as a long that must fit.
		rest, reason = decodeLong(v, data)
		if reason == "" && int64(int32(v.integer)) != v.integer {
			reason = ReasonMalformed
		}
		return rest, reason
	case kindLong, kindTimestamp:
		return decodeLong(v, data)
	case kindDouble:
		return decodeDouble(v, data)
	case kindNullOrDouble:
		if rest, reason = decodeLong(v, data); reason != "" {
			return nil, reason
		}
		switch v.integer {
		case branchNull:
			v.present = false
			return rest, ""
		case branchDouble:
			return decodeDouble(v, rest)
		}
	}
	return nil, ReasonMalformed
}

func decodeText(v *value, data []byte) ([]byte, Reason) {
	var length value
	rest, reason := decodeLong(&length, data)
	if reason != "" || length.integer < 0 || length.integer > int64(len(rest)) {
		return nil, ReasonMalformed
	}
	text := rest[:length.integer]
	if !utf8.Valid(text) {
		return nil, ReasonInvalidUTF8
	}
	v.text = string(text)
	return rest[length.integer:], ""
}

// decodeLong reads a number in zigzag base 128. It refuses more bytes than the number needs, so
// that a record has one encoding.
func decodeLong(v *value, data []byte) ([]byte, Reason) {
	integer, n := binary.Varint(data)
	var shortest [binary.MaxVarintLen64]byte
	if n <= 0 || n != binary.PutVarint(shortest[:], integer) {
		return nil, ReasonMalformed
	}
	v.integer = integer
	return data[n:], ""
}

func decodeDouble(v *value, data []byte) ([]byte, Reason) {
	const size = 8
	if len(data) < size {
		return nil, ReasonMalformed
	}
	v.number = math.Float64frombits(binary.LittleEndian.Uint64(data))
	if math.IsNaN(v.number) || math.IsInf(v.number, 0) {
		return nil, ReasonNotFinite
	}
	return data[size:], ""
}

// appendBody appends the fields of row to dst, which ends with a header.
func (l *layout) appendBody(dst []byte, row []value) []byte {
	for i, c := range l.columns {
		dst = appendField(dst, c.kind, row[i])
	}
	return dst
}

func appendField(dst []byte, k kind, v value) []byte {
	switch k {
	case kindText:
		return append(binary.AppendVarint(dst, int64(len(v.text))), v.text...)
	case kindDouble:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.number))
	case kindNullOrDouble:
		if !v.present {
			return binary.AppendVarint(dst, branchNull)
		}
		return appendField(binary.AppendVarint(dst, branchDouble), kindDouble, v)
	default: // kindInt, kindLong, kindTimestamp
		return binary.AppendVarint(dst, v.integer)
	}
}
