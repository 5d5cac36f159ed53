// Package schemas holds the records that geodither reads and writes: their Avro
// schemas (*.avsc, embedded), their Go types and the codecs between the two.
//
// A [Codec] turns bytes into records and back, in one of two encodings:
//
//   - [Avro] is Avro's single-object encoding: C3 01, the little-endian
//     CRC-64-AVRO fingerprint of the schema's parsing canonical form, the datum.
//     https://avro.apache.org/docs/1.12.0/specification/#single-object-encoding
//   - [JSON] is one object a record with the schema's field names.
//
// Decoding is strict. A datum has exactly one Avro encoding that is accepted,
// so bytes after it, varints that are longer than they need to be and foreign
// fingerprints are refused, and what was decoded encodes to the same bytes
// again. Sanitized records of the first version, without a kind, are the one
// exception: they are read as well, and get theirs from what they cost. What is
// refused gives a [Rejection], which names a constant [Reason]
// and nothing of the payload.
//
// [Raw] is secret and prints as [redacted].
package schemas

import (
	_ "embed" // for the schemas
	"fmt"
)

//go:embed raw.avsc
var rawSchema string

//go:embed sanitized.avsc
var sanitizedSchema string

// sanitizedSchema1 had no kinds and no factors. It is read for ever.
//
//go:embed sanitized_1.avsc
var sanitizedSchema1 string

//go:embed dead_letter.avsc
var deadLetterSchema string

// RawSchema returns the Avro schema of raw records, as JSON.
func RawSchema() string { return rawSchema }

// SanitizedSchema returns the Avro schema of sanitized records, as JSON.
func SanitizedSchema() string { return sanitizedSchema }

// DeadLetterSchema returns the Avro schema of dead letters, as JSON.
func DeadLetterSchema() string { return deadLetterSchema }

// Encoding names a form that records have as bytes.
type Encoding string

// The encodings there are.
const (
	Avro Encoding = "avro" // single-object encoding
	JSON Encoding = "json" // an object a record
)

// Validate returns an error that lists the encodings if e is none of them.
func (e Encoding) Validate() error {
	switch e {
	case Avro, JSON:
		return nil
	}
	return fmt.Errorf("unknown encoding %q: use %q or %q", string(e), Avro, JSON)
}
