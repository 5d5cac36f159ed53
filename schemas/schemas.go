// Package schemas holds the records that geodither reads and writes: their Avro schemas (*.avsc,
// embedded), their Go types and the codecs between the two.
//
// A [Codec] turns bytes into records and back, in one of these encodings:
//
//   - [Avro] is Avro's single-object encoding: C3 01, the little-endian CRC-64-AVRO fingerprint of
//     the schema's parsing canonical form, the datum.
//     https://avro.apache.org/docs/1.12.0/specification/#single-object-encoding
//   - [JSON] is one object for each record, with all of the schema's fields by name and type: times
//     are numbers, milliseconds since 1970. RFC 3339 text is read as well.
//   - [AvroRegistry] is the datum after a zero byte and the number that a schema registry has given
//     to the schema. Package registry asks registries.
//   - [JSONSchema] is the object of [JSON] in the envelope of Kafka Connect, beside its schema.
//
// Decoding is strict. A codec accepts exactly one Avro encoding of a datum. It refuses bytes after
// the datum, varints that are longer than necessary and foreign fingerprints, and a decoded record
// encodes to the same bytes again. A refused record gives a [Rejection], which names a constant
// [Reason] and nothing of the payload.
//
// Every schema of sanitized records is compatible with every other one, in both directions
// (FULL_TRANSITIVE), so that readers and writers can be replaced in any order. A test holds
// sanitized.avsc to it: new fields are nullable, with null first and as the default.
//
// [Raw] is secret and prints as [redacted].
//
// Files: record.go the types; codec.go, layout.go records and rows of fields; avro.go, json.go how
// fields are written; framing.go what stands around them; reason.go why a record is refused
// (REASONS.md explains the reasons).
package schemas

import (
	_ "embed" // for the schemas
	"fmt"
	"strconv"
	"strings"
)

//go:embed raw.avsc
var rawSchema string

//go:embed sanitized.avsc
var sanitizedSchema string

//go:embed dead_letter.avsc
var deadLetterSchema string

//go:embed counts.avsc
var countsSchema string

// RawSchema returns the Avro schema of raw records, as JSON.
func RawSchema() string { return rawSchema }

// SanitizedSchema returns the Avro schema of sanitized records, as JSON.
func SanitizedSchema() string { return sanitizedSchema }

// DeadLetterSchema returns the Avro schema of dead letters, as JSON.
func DeadLetterSchema() string { return deadLetterSchema }

// CountsSchema returns the Avro schema of counts, as JSON.
func CountsSchema() string { return countsSchema }

// Encoding is how a record is written as bytes.
type Encoding string

// The encodings. What is published is read in any of them, whatever a codec's is.
const (
	Avro         Encoding = "avro"          // single-object encoding
	AvroRegistry Encoding = "avro_registry" // after a zero byte and the number of its schema
	JSON         Encoding = "json"          // one object for each record
	JSONSchema   Encoding = "json_schema"   // the same in the envelope of Kafka Connect
	// JSONText is JSON with times as text, for files that people read. No topic has it.
	JSONText Encoding = "json_text"
	// Auto reads raw records in Avro, JSON and the framings of registries. It writes Avro.
	Auto Encoding = "auto"
)

// Validate returns an error that lists the encodings if e is not one of them.
func (e Encoding) Validate() error {
	return e.oneOf(Avro, AvroRegistry, JSON, JSONSchema, Auto)
}

// ValidateRaw is Validate for encodings of raw records.
func (e Encoding) ValidateRaw() error { return e.oneOf(Avro, JSON, Auto) }

// ValidatePublished is Validate for encodings of what is published.
func (e Encoding) ValidatePublished() error {
	return e.oneOf(Avro, AvroRegistry, JSON, JSONSchema)
}

func (e Encoding) oneOf(list ...Encoding) error {
	words := make([]string, len(list))
	for i, one := range list {
		if e == one {
			return nil
		}
		words[i] = strconv.Quote(string(one))
	}
	last := len(words) - 1
	return fmt.Errorf("unknown encoding %q: use %s or %s", string(e),
		strings.Join(words[:last], ", "), words[last])
}
