package wire

import (
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"
)

// Request is a request that kafka-go cannot encode: a version that it does not know, or encodes
// wrongly. The version must be a flexible one (KIP-482), where lengths are varints and every
// structure ends with tagged fields. The methods append one field each.
type Request struct {
	key     protocol.ApiKey
	version int16
	body    []byte
}

// NewRequest returns a request without fields.
func NewRequest(key protocol.ApiKey, version int16) *Request {
	return &Request{key: key, version: version, body: make([]byte, 0, 256)}
}

// ApiKey implements protocol.Message.
func (q *Request) ApiKey() protocol.ApiKey { return q.key } //nolint:revive // kafka-go's name

// Byte appends one byte.
func (q *Request) Byte(b byte) *Request {
	q.body = append(q.body, b)
	return q
}

// Int32 appends an int32.
func (q *Request) Int32(v int32) *Request {
	q.body = binary.BigEndian.AppendUint32(q.body, uint32(v))
	return q
}

// Count appends the length of an array; its elements follow.
func (q *Request) Count(n int) *Request {
	q.body = binary.AppendUvarint(q.body, uint64(n)+1)
	return q
}

// String appends a string.
func (q *Request) String(s string) *Request {
	q.Count(len(s))
	q.body = append(q.body, s...)
	return q
}

// Nullable appends a string, or null if it is empty.
func (q *Request) Nullable(s string) *Request {
	if s == "" {
		return q.Byte(0)
	}
	return q.String(s)
}

// Bytes appends the length of bytes, and the bytes.
func (q *Request) Bytes(b []byte) *Request {
	q.Count(len(b))
	q.body = append(q.body, b...)
	return q
}

// End ends a structure: it has no tagged fields.
func (q *Request) End() *Request { return q.Byte(0) }

// A connection carries one exchange at a time, so one correlation id is enough.
const correlationID = 1
