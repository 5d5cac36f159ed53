// Package schemas holds the records that geodither reads and writes: their Avro schemas (*.avsc,
// embedded), their Go types and the codecs between the two.
//
// A [Codec] turns bytes into records and back, in one of two encodings:
//
//   - [Avro] is Avro's single-object encoding: C3 01, the little-endian CRC-64-AVRO fingerprint of
//     the schema's parsing canonical form, the datum.
//     https://avro.apache.org/docs/1.12.0/specification/#single-object-encoding
//   - [JSON] is one object for each record, with the schema's field names and types: times are
//     numbers, milliseconds since 1970. RFC 3339 text is read as well.
//
// Decoding is strict. A codec accepts exactly one Avro encoding of a datum. It refuses bytes after
// the datum, varints that are longer than necessary and foreign fingerprints, and a decoded record
// encodes to the same bytes again. Sanitized records of versions 1 and 2 are the only exception:
// they are read as records of version 3, which has other names for some fields (see [Sanitized]). A
// refused record gives a [Rejection], which names a constant [Reason] and nothing of the payload.
//
// Every schema of sanitized records from version 3 on is compatible with every other one, in both
// directions (FULL_TRANSITIVE), so that readers and writers can be upgraded in any order. A test
// holds sanitized.avsc to it: new fields are nullable, with null first and as the default.
//
// [Raw] is secret and prints as [redacted].
//
// Files: record.go the types; codec.go, layout.go records and rows of fields; older.go earlier
// versions of sanitized records; avro.go, json.go the two encodings; reason.go why a record is
// refused (REASONS.md explains the reasons).
package schemas

import (
	_ "embed" // for the schemas
	"fmt"
)

//go:embed raw.avsc
var rawSchema string

//go:embed sanitized.avsc
var sanitizedSchema string

// Earlier versions, which stay readable for ever: 1 has no kinds and factors, and in both latitude
// and longitude are the release's.
var (
	//go:embed sanitized_1.avsc
	sanitizedSchema1 string
	//go:embed sanitized_2.avsc
	sanitizedSchema2 string
)

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
