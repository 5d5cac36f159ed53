// Package schemas holds the records that geodither reads and writes: their Avro schemas (*.avsc,
// embedded), their Go types and the codecs between the two.
//
// A [Codec] turns bytes into records and back, in one of two encodings:
//
//   - [Avro] is Avro's single-object encoding: C3 01, the little-endian CRC-64-AVRO fingerprint of
//     the schema's parsing canonical form, the datum.
//     https://avro.apache.org/docs/1.12.0/specification/#single-object-encoding
//   - [JSON] is one object for each record, with the schema's field names.
//
// Decoding is strict. A codec accepts exactly one Avro encoding of a datum. It refuses bytes after
// the datum, varints that are longer than necessary and foreign fingerprints, and a decoded record
// encodes to the same bytes again. Sanitized records of the first version are the only exception:
// they have no kind and get it from the ε that they spent. A refused record gives a [Rejection],
// which names a constant [Reason] and nothing of the payload.
//
// [Raw] is secret and prints as [redacted].
//
// Files: record.go the types; codec.go, layout.go records and rows of fields; avro.go, json.go the
// two encodings; reason.go why a record is refused (REASONS.md explains the reasons).
package schemas

import (
	_ "embed" // for the schemas
	"fmt"
)

//go:embed raw.avsc
var rawSchema string

//go:embed sanitized.avsc
var sanitizedSchema string

// sanitizedSchema1 is the first version, without kinds and factors. It stays readable for ever.
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

// Encoding is how a record is written as bytes.
type Encoding string

// The encodings.
const (
	Avro Encoding = "avro" // single-object encoding
	JSON Encoding = "json" // one object for each record
)

// Validate returns an error that lists the encodings if e is not one of them.
func (e Encoding) Validate() error {
	switch e {
	case Avro, JSON:
		return nil
	}
	return fmt.Errorf("unknown encoding %q: use %q or %q", string(e), Avro, JSON)
}
