package portable

import "encoding/binary"

// Reader reads from the front of Rest. After the first number that is cut short, or too large for
// 64 bits, Bad is true, Rest is empty and every result is 0: callers look at Bad once, at the end.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Uvarint reads an unsigned number in base 128.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	r.skip(n)
	return v
}

// Varint reads a signed number in zigzag base 128, which is Avro's long too.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Rest)
	r.skip(n)
	return v
}

func (r *Reader) skip(n int) {
	if n <= 0 {
		r.Rest, r.Bad = nil, true
		return
	}
	r.Rest = r.Rest[n:]
}
