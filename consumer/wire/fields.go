package wire

import (
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"
)

// Reader takes fields from the front of an answer. After a field that is cut
// short every later one is zero, and short is set: callers look once at the end
// of a structure.
type Reader struct {
	Rest  []byte
	Short bool
}

// Take returns the next n bytes, or nil.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.Rest) {
		r.Rest, r.Short = nil, true
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

func (r *Reader) Int8() int8 {
	if b := r.Take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *Reader) Int16() int16 {
	if b := r.Take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *Reader) Int32() int32 {
	if b := r.Take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

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
		r.Rest, r.Short = nil, true
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// uvarint reads an unsigned varint.
func (r *Reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.Rest, r.Short = nil, true
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// VarintBytes reads bytes behind a varint length; a length of -1 is nil, and an
// empty run is not nil.
func (r *Reader) VarintBytes() []byte {
	n := r.Varint()
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(r.Rest)) {
		r.Rest, r.Short = nil, true
		return nil
	}
	return r.Take(int(n))
}

// String16 reads a string behind an int16 length; null is empty.
func (r *Reader) String16() []byte {
	n := r.Int16()
	if n < 0 {
		return nil
	}
	return r.Take(int(n))
}

// Count reads the length of an array whose elements take at least elementBytes.
// Null is 0, and a length that cannot be true sets short.
func (r *Reader) Count(elementBytes int) int {
	return r.bounded(int64(r.Int32()), elementBytes)
}

// CompactCount is count for flexible versions: the length plus one, as a varint.
func (r *Reader) CompactCount(elementBytes int) int {
	n := r.uvarint()
	if n > MaxAnswerBytes {
		r.Rest, r.Short = nil, true
		return 0
	}
	return r.bounded(int64(n)-1, elementBytes)
}

func (r *Reader) bounded(n int64, elementBytes int) int {
	if n <= 0 {
		return 0
	}
	if n > int64(len(r.Rest)/elementBytes) {
		r.Rest, r.Short = nil, true
		return 0
	}
	return int(n)
}

// CompactString reads a string of a flexible version; null is empty.
func (r *Reader) CompactString() []byte {
	n := r.CompactCount(1)
	return r.Take(n)
}

// SkipTags skips the tagged fields of a flexible version.
func (r *Reader) SkipTags() {
	for n := r.uvarint(); n > 0 && !r.Short; n-- {
		r.uvarint()
		size := r.uvarint()
		if size > uint64(len(r.Rest)) {
			r.Rest, r.Short = nil, true
			return
		}
		r.Take(int(size))
	}
}

// Writer writes a request of a flexible version.
type Writer struct{ b []byte }

// NewWriter begins a request:
//
//	size 4 | key 2 | version 2 | correlation id 4 | client id string | tags
func NewWriter(key protocol.ApiKey, version int16, correlationID int32, clientID string) *Writer {
	be := binary.BigEndian
	b := make([]byte, 4, 256)
	b = be.AppendUint16(b, uint16(key))
	b = be.AppendUint16(b, uint16(version))
	b = be.AppendUint32(b, uint32(correlationID))
	b = be.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	return (&Writer{b}).NoTags()
}

func (w *Writer) Int32(v int32) *Writer {
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(v))
	return w
}

func (w *Writer) CompactString(s string) *Writer {
	w.b = AppendCompact(w.b, s)
	return w
}

// NullableString writes an empty string as null.
func (w *Writer) NullableString(s string) *Writer {
	if s == "" {
		w.b = append(w.b, 0)
		return w
	}
	return w.CompactString(s)
}

// CompactCount writes the length of an array or of bytes.
func (w *Writer) CompactCount(n int) *Writer {
	w.b = binary.AppendUvarint(w.b, uint64(n)+1)
	return w
}

func (w *Writer) CompactBytes(b []byte) *Writer {
	w.CompactCount(len(b))
	w.b = append(w.b, b...)
	return w
}

func (w *Writer) Byte(b byte) *Writer {
	w.b = append(w.b, b)
	return w
}

// NoTags writes that there are no tagged fields.
func (w *Writer) NoTags() *Writer { return w.Byte(0) }

// Request ends it.
func (w *Writer) Request() []byte {
	binary.BigEndian.PutUint32(w.b, uint32(len(w.b)-4))
	return w.b
}

func AppendCompact(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}
