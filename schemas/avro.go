package schemas

import (
	"bytes"
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
		if rest, reason = l.primitives.decode(&row[i], c.kind, rest); reason != "" {
			return reason
		}
	}
	if len(rest) > 0 {
		return ReasonMalformed
	}
	return ""
}

func (p *primitives) decode(v *value, k kind, data []byte) (rest []byte, reason Reason) {
	v.present = true
	switch k {
	case kindText:
		return p.decodeText(v, data)
	case kindInt:
		// An int is decoded as a long that must fit, because goavro's int wraps around silently.
		rest, reason = p.decodeLong(v, data)
		if reason == "" && int64(int32(v.integer)) != v.integer {
			reason = ReasonMalformed
		}
		return rest, reason
	case kindLong, kindTimestamp:
		return p.decodeLong(v, data)
	case kindDouble:
		return p.decodeDouble(v, data)
	case kindNullOrDouble:
		if rest, reason = p.decodeLong(v, data); reason != "" {
			return nil, reason
		}
		switch v.integer {
		case branchNull:
			v.present = false
			return rest, ""
		case branchDouble:
			return p.decodeDouble(v, rest)
		}
	}
	return nil, ReasonMalformed
}

func (p *primitives) decodeText(v *value, data []byte) ([]byte, Reason) {
	native, rest, err := p.bytes.NativeFromBinary(data)
	if err != nil {
		return nil, ReasonMalformed
	}
	text, ok := native.([]byte)
	if !ok {
		return nil, ReasonMalformed
	}
	var prefix [binary.MaxVarintLen64]byte
	if len(data)-len(rest) != binary.PutVarint(prefix[:], int64(len(text)))+len(text) {
		return nil, ReasonMalformed // the length takes more bytes than it needs
	}
	if !utf8.Valid(text) {
		return nil, ReasonInvalidUTF8
	}
	v.text = string(text)
	return rest, ""
}

func (p *primitives) decodeLong(v *value, data []byte) ([]byte, Reason) {
	native, rest, err := p.long.NativeFromBinary(data)
	if err != nil {
		return nil, ReasonMalformed
	}
	integer, ok := native.(int64)
	if !ok {
		return nil, ReasonMalformed
	}
	// goavro accepts varints of any length and drops what does not fit.
	var shortest [binary.MaxVarintLen64]byte
	n := binary.PutVarint(shortest[:], integer)
	if !bytes.Equal(shortest[:n], data[:len(data)-len(rest)]) {
		return nil, ReasonMalformed
	}
	v.integer = integer
	return rest, ""
}

func (p *primitives) decodeDouble(v *value, data []byte) ([]byte, Reason) {
	native, rest, err := p.double.NativeFromBinary(data)
	if err != nil {
		return nil, ReasonMalformed
	}
	number, ok := native.(float64)
	if !ok {
		return nil, ReasonMalformed
	}
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return nil, ReasonNotFinite
	}
	v.number = number
	return rest, ""
}

// appendBody appends the fields of row to dst, which ends with a header.
func (l *layout) appendBody(dst []byte, row []value) (_ []byte, err error) {
	for i, c := range l.columns {
		if dst, err = l.primitives.append(dst, c.kind, row[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (p *primitives) append(dst []byte, k kind, v value) ([]byte, error) {
	switch k {
	case kindText:
		return p.bytes.BinaryFromNative(dst, v.text)
	case kindDouble:
		return p.double.BinaryFromNative(dst, v.number)
	case kindNullOrDouble:
		if !v.present {
			return p.long.BinaryFromNative(dst, branchNull)
		}
		out, err := p.long.BinaryFromNative(dst, branchDouble)
		if err != nil {
			return dst, err
		}
		return p.double.BinaryFromNative(out, v.number)
	default: // kindInt, kindLong, kindTimestamp
		return p.long.BinaryFromNative(dst, v.integer)
	}
}
