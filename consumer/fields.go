package consumer

import (
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"
)

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

// flexible writes a request of a flexible version.
type flexible struct{ b []byte }

// newFlexible begins a request:
//
//	size 4 | key 2 | version 2 | correlation id 4 | client id string | tags
func newFlexible(key protocol.ApiKey, version int16, correlationID int32, clientID string) *flexible {
	be := binary.BigEndian
	b := make([]byte, 4, 256)
	b = be.AppendUint16(b, uint16(key))
	b = be.AppendUint16(b, uint16(version))
	b = be.AppendUint32(b, uint32(correlationID))
	b = be.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	return (&flexible{b}).tags()
}

func (w *flexible) int32(v int32) *flexible {
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(v))
	return w
}

func (w *flexible) string(s string) *flexible {
	w.b = appendCompact(w.b, s)
	return w
}

// nullable writes an empty string as null.
func (w *flexible) nullable(s string) *flexible {
	if s == "" {
		w.b = append(w.b, 0)
		return w
	}
	return w.string(s)
}

// count writes the length of an array or of bytes.
func (w *flexible) count(n int) *flexible {
	w.b = binary.AppendUvarint(w.b, uint64(n)+1)
	return w
}

func (w *flexible) bytes(b []byte) *flexible {
	w.count(len(b))
	w.b = append(w.b, b...)
	return w
}

func (w *flexible) byte(b byte) *flexible {
	w.b = append(w.b, b)
	return w
}

// tags writes that there are no tagged fields.
func (w *flexible) tags() *flexible { return w.byte(0) }

// request ends it.
func (w *flexible) request() []byte {
	binary.BigEndian.PutUint32(w.b, uint32(len(w.b)-4))
	return w.b
}

func appendCompact(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}
