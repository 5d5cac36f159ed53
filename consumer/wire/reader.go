package wire

import "encoding/binary"

// Reader takes fields from the front of an answer. If a field is cut short, it and every later
// field are zero and Short is true, so callers look at Short once, at the end of a structure.
type Reader struct {
	Rest  []byte // what was not read yet
	Short bool
}

func (r *Reader) cut() { r.Rest, r.Short = nil, true }

// Take returns the next n bytes, or nil.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.Rest) {
		r.cut()
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Int8 reads an int8.
func (r *Reader) Int8() int8 {
	if b := r.Take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

// Int16 reads an int16.
func (r *Reader) Int16() int16 {
	if b := r.Take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads an int32.
func (r *Reader) Int32() int32 {
	if b := r.Take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads an int64.
func (r *Reader) Int64() int64 {
	if b := r.Take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Varint reads a zig-zag varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.cut()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.cut()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// VarintBytes reads bytes that follow their length, a zig-zag varint. A length of -1 is null and
// gives nil; no bytes give an empty slice that is not nil.
func (r *Reader) VarintBytes() []byte {
	n := r.Varint()
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(r.Rest)) {
		r.cut()
		return nil
	}
	return r.Take(int(n))
}

// String reads a string that follows its length, an int16; null is empty.
func (r *Reader) String() []byte {
	n := r.Int16()
	if n < 0 {
		return nil
	}
	return r.Take(int(n))
}

// Count reads the length of an array, an int32, whose elements take at least elementBytes each.
// Null is 0. A length that the rest cannot hold is cut short.
func (r *Reader) Count(elementBytes int) int {
	return r.bounded(int64(r.Int32()), elementBytes)
}

// CompactCount is Count in a flexible version: an unsigned varint with the length plus one.
func (r *Reader) CompactCount(elementBytes int) int {
	n := r.Uvarint()
	if n > MaxAnswerBytes {
		r.cut()
		return 0
	}
	return r.bounded(int64(n)-1, elementBytes)
}

func (r *Reader) bounded(n int64, elementBytes int) int {
	if n <= 0 {
		return 0
	}
	if n > int64(len(r.Rest)/elementBytes) {
		r.cut()
		return 0
	}
	return int(n)
}

// CompactString reads a string or bytes of a flexible version; null is empty.
func (r *Reader) CompactString() []byte { return r.Take(r.CompactCount(1)) }

// SkipTags skips the tagged fields of a flexible version.
func (r *Reader) SkipTags() { r.Tags(func(uint64, *Reader) {}) }

// Tags calls each with every tagged field of a flexible version.
func (r *Reader) Tags(each func(tag uint64, field *Reader)) {
	for n := r.Uvarint(); n > 0 && !r.Short; n-- {
		tag := r.Uvarint()
		size := r.Uvarint()
		if size > uint64(len(r.Rest)) {
			r.cut()
			return
		}
		each(tag, &Reader{Rest: r.Take(int(size))})
	}
}
