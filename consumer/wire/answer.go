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
		// In every answer that is read as bytes it is the first field, except that to ApiVersions,
		// which brokers hold nobody up for. A flexible version has the tagged fields of the header
		// before it, and brokers send none.
		if f.Key == protocol.ApiVersions {
			return 0
		}
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

// walkCodes calls add with every field ErrorCode of a kafka-go answer.
func walkCodes(v reflect.Value, add func(int16)) {
	switch v.Kind() { //nolint:exhaustive // codes lie in structs, and in lists of them
	case reflect.Pointer:
		if !v.IsNil() {
			walkCodes(v.Elem(), add)
		}
	case reflect.Slice:
		if kind := v.Type().Elem().Kind(); kind == reflect.Struct || kind == reflect.Pointer {
			for i := range v.Len() {
				walkCodes(v.Index(i), add)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch {
			case !field.IsExported():
			case field.Name == "ErrorCode" && field.Type.Kind() == reflect.Int16:
				add(int16(v.Field(i).Int()))
			default:
				walkCodes(v.Field(i), add)
			}
		}
	}
}
