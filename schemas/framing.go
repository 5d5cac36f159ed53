package schemas

import (
	"bytes"
	"encoding/binary"
)

// Framing is how a value says what it is: by its first bytes.
type Framing uint8

// The framings.
const (
	FramingUnknown Framing = iota
	FramingEmpty           // no byte at all
	FramingJSON            // an object, perhaps after spaces
	FramingSingle          // C3 01: Avro's single-object encoding
	FramingID              // 00, and the number of a schema in a registry, 4 bytes, big endian
	FramingGUID            // 01, and the GUID of a schema in a registry, 16 bytes
	FramingGlue            // 03, a byte for the compression, and the UUID of a schema in AWS Glue
)

// Lengths of the headers of registries.
const (
	IDHeaderBytes   = 5
	GUIDHeaderBytes = 17
	GlueHeaderBytes = 18
)

// First bytes of the headers of registries.
const (
	magicID   = 0
	magicGUID = 1
	magicGlue = 3
)

// FramingOf recognises a value by its first bytes. A header that is cut short is FramingUnknown.
// Sources: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop
// for 00 and 01, AWSSchemaRegistryConstants in awslabs/aws-glue-schema-registry for 03.
func FramingOf(value []byte) Framing {
	if len(value) == 0 {
		return FramingEmpty
	}
	switch n := len(value); {
	case value[0] == magicID && n >= IDHeaderBytes:
		return FramingID
	case value[0] == magicGUID && n >= GUIDHeaderBytes:
		return FramingGUID
	case value[0] == magicGlue && n >= GlueHeaderBytes:
		return FramingGlue
	case bytes.HasPrefix(value, []byte{0xC3, 0x01}):
		return FramingSingle
	case bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("{")):
		return FramingJSON
	}
	return FramingUnknown
}

// OfRegistry reports whether a registry has the schema of such values.
func (f Framing) OfRegistry() bool {
	return f == FramingID || f == FramingGUID || f == FramingGlue
}

// IDs are the numbers that a registry has given to the schemas of what a service publishes. They
// are no settings: another registry gives other numbers to the same records.
type IDs struct{ Sanitized, DeadLetter, Counts uint32 }

// WithoutID returns a value without the number of its schema, as a codec without IDs writes it. A
// value of another framing is returned as it is. It overwrites the value.
func WithoutID(value []byte) []byte {
	if FramingOf(value) == FramingID {
		binary.BigEndian.PutUint32(value[1:], 0)
	}
	return value
}

// Framed decodes values whose schema is in a registry. Its errors are *Rejection for a value that
// will never be a record, and others where the registry could not be asked.
type Framed interface {
	Raw(value []byte) (Raw, error)
}
