package wire

import (
	"encoding/binary"
	"reflect"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// Frame is an answer that is not decoded: the bytes that follow its correlation id.
type Frame struct {
	Key     protocol.ApiKey
	Version int16
	Body    []byte

	flexible bool // the version has tagged fields (KIP-482)
}

// ApiKey implements protocol.Message.
func (f *Frame) ApiKey() protocol.ApiKey { return f.Key } //nolint:revive // kafka-go's name

// answer hides an answer's type from the transport, which takes every metadata response for the
// answer to a request of its own.
type answer struct{ protocol.Message }

// throttle reads how long the broker holds the client up, 0 if the answer does not say.
func throttle(res protocol.Message) time.Duration {
	if hidden, ok := res.(*answer); ok {
		res = hidden.Message
	}
	var ms int64
	if f, ok := res.(*Frame); ok {
		// In every answer that is read as bytes it is the first field. A flexible version has the
		// tagged fields of the header before it, and brokers send none.
		at := 0
		if f.flexible {
			at = 1
		}
		if len(f.Body) >= at+4 {
			ms = int64(int32(binary.BigEndian.Uint32(f.Body[at:])))
		}
		return time.Duration(max(0, ms)) * time.Millisecond
	}
	v := reflect.ValueOf(res)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return 0
	}
	for _, name := range []string{"ThrottleTimeMs", "ThrottleTimeMS", "ThrottleTime"} {
		if field := v.Elem().FieldByName(name); field.IsValid() && field.CanInt() {
			ms = field.Int()
		}
	}
	return time.Duration(max(0, ms)) * time.Millisecond
}
