package consumer

import "encoding/binary"

// reader takes fields from the front of an answer. After a field that is cut
// short every later one is zero, and short is set: callers look once at the end
// of a structure.
type reader struct {
	b     []byte
	short bool
}

// take returns the next n bytes, or nil.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.short = nil, true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// varint reads a zig-zag varint.
func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.short = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// uvarint reads an unsigned varint.
func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.short = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// nullable reads bytes behind a varint length; a length of -1 is nil, and an
// empty run is not nil.
func (r *reader) nullable() []byte {
	n := r.varint()
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(r.b)) {
		r.b, r.short = nil, true
		return nil
	}
	return r.take(int(n))
}

// string reads a string behind an int16 length; null is empty.
func (r *reader) string() []byte {
	n := r.int16()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

// count reads the length of an array whose elements take at least elementBytes.
// Null is 0, and a length that cannot be true sets short.
func (r *reader) count(elementBytes int) int {
	return r.bounded(int64(r.int32()), elementBytes)
}

// compactCount is count for flexible versions: the length plus one, as a varint.
func (r *reader) compactCount(elementBytes int) int {
	n := r.uvarint()
	if n > maxAnswerBytes {
		r.b, r.short = nil, true
		return 0
	}
	return r.bounded(int64(n)-1, elementBytes)
}

func (r *reader) bounded(n int64, elementBytes int) int {
	if n <= 0 {
		return 0
	}
	if n > int64(len(r.b)/elementBytes) {
		r.b, r.short = nil, true
		return 0
	}
	return int(n)
}

// compactString reads a string of a flexible version; null is empty.
func (r *reader) compactString() []byte {
	n := r.compactCount(1)
	return r.take(n)
}

// tags skips the tagged fields of a flexible version.
func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		r.uvarint()
		size := r.uvarint()
		if size > uint64(len(r.b)) {
			r.b, r.short = nil, true
			return
		}
		r.take(int(size))
	}
}
