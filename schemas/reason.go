package schemas

import (
	_ "embed" // for the text below
	"math"
	"strings"
	"time"
)

// Reason says why a record was refused. It is a constant: a snake_case word, or such a word, a
// colon, a space and the name of a field of the schema, as in "wrong_type: latitude". It never
// contains anything of the record, and Reasons lists all of them, so it can go into dead letters,
// logs and metric labels.
type Reason string

// At returns the reason with the field of the schema that it is about.
func (r Reason) At(field string) Reason { return r + ": " + Reason(field) }

// Kind returns the reason without its field, for grouping.
func (r Reason) Kind() Reason {
	kind, _, _ := strings.Cut(string(r), ":")
	return Reason(kind)
}

// Words says in a sentence what was found; for a reason with a field, of which kind it is. They are
// constant too, and empty for a reason of a later version.
func (r Reason) Words() string {
	return map[Reason]string{
		ReasonEmpty:               "the record has no value",
		ReasonTooLarge:            "the value is longer than any fix",
		ReasonMalformed:           "the value is not of the encoding that is expected",
		ReasonUnknownSchema:       "the value was written with another schema",
		ReasonUnknownSchemaID:     "the schema registry does not have the value's schema",
		ReasonApicurioID:          "the value's schema is named by an id of Apicurio's own form",
		ReasonInvalidUTF8:         "a text is not UTF-8",
		ReasonDuplicateField:      "a JSON object names a field twice",
		ReasonMissingField:        "a required field is missing",
		ReasonWrongType:           "a field has another type",
		ReasonUserMissing:         "the user id is empty",
		ReasonUserTooLong:         "the user id is too long",
		ReasonUserReserved:        "the user id starts with NUL",
		ReasonNotFinite:           "a number is not finite",
		ReasonLatitudeOutOfRange:  "the latitude is beyond a pole",
		ReasonLongitudeOutOfRange: "the longitude is beyond 180 degrees",
		ReasonAccuracyNegative:    "the accuracy is negative",
		ReasonBefore1970:          "the time is before 1970",
		ReasonAfter9999:           "the time is after 9999",
		ReasonKeyMismatch:         "the record's key is not its user id",
		ReasonTimestampAhead:      "the time is too far ahead",
		ReasonNoRecordTime:        "the record has no Kafka timestamp",
		ReasonOutsideMap:          "the fix lies outside the map",
		ReasonWrongPartition:      "the key belongs to another partition",
		ReasonLate:                "the fix is of a step before the user's last one",
		ReasonKeyDestroyed:        "the noise key of the fix's day was destroyed",
		ReasonBeforeGPS:           "the time is before GPS began",
		ReasonNullIsland:          "latitude and longitude are both 0",
		ReasonSeveralUsers:        "the record holds fixes of several users",
		ReasonAfterGrace:          "the fix was appended after its window's grace",
		ReasonProducerTime:        "the record has its producer's time in place of a broker's",
	}[r.Kind()]
}

//go:embed REASONS.md
var reasons string

// Explanation is what REASONS.md says about a kind of reason.
type Explanation struct {
	Kind  Reason
	Found string
	Cause string // a likely one, or empty
}

// Explanations are the rows of REASONS.md, in its order. The last ones are of lines of files.
func Explanations() (all []Explanation) {
	for line := range strings.Lines(reasons) {
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			cells := strings.Split(row, "|")
			all = append(all, Explanation{
				Reason(strings.Trim(cells[0], " `")), strings.TrimSpace(cells[1]),
				strings.TrimSpace(cells[2]),
			})
		}
	}
	return all
}

// Reasons about the bytes, which are not a record of the expected schema.
const (
	ReasonEmpty          Reason = "empty"           // no value at all, as in a Kafka tombstone
	ReasonTooLarge       Reason = "too_large"       // longer than MaxRecordBytes
	ReasonMalformed      Reason = "malformed"       // not Avro or JSON, cut short, or too long
	ReasonUnknownSchema  Reason = "unknown_schema"  // written with another schema
	ReasonInvalidUTF8    Reason = "invalid_utf8"    // not UTF-8, or half of a surrogate pair
	ReasonDuplicateField Reason = "duplicate_field" // a JSON object that names a field twice

	// ReasonUnknownSchemaID: the schema registry has no schema of the record's number or GUID.
	ReasonUnknownSchemaID Reason = "unknown_schema_id"

	// ReasonApicurioID: the record has an id of 8 bytes, or headers that only Apicurio's own API
	// has a schema for. Under the same number Confluent's API may have another schema.
	ReasonApicurioID Reason = "apicurio_id"

	// ReasonMissingField: a JSON object lacks a required field. It always comes with the field.
	ReasonMissingField Reason = "missing_field"
	// ReasonWrongType: a JSON value has another type, such as a number in quotes. It comes with the
	// field, if the value is one.
	ReasonWrongType Reason = "wrong_type"
)

// Reasons about the values, which cannot be true.
const (
	ReasonUserMissing         Reason = "user_missing"           // empty user id
	ReasonUserTooLong         Reason = "user_too_long"          // longer than MaxUserIDBytes
	ReasonUserReserved        Reason = "user_reserved"          // starts with NUL
	ReasonNotFinite           Reason = "not_finite"             // NaN, or too large for a float64
	ReasonLatitudeOutOfRange  Reason = "latitude_out_of_range"  // outside [-90, 90]
	ReasonLongitudeOutOfRange Reason = "longitude_out_of_range" // outside [-180, 180]
	ReasonAccuracyNegative    Reason = "accuracy_negative"
	ReasonBefore1970          Reason = "before_1970"
	ReasonAfter9999           Reason = "after_9999"
)

// Reasons about the stream: the record is valid, but cannot be used where it is. This package never
// returns them; they are here so that the list is in one place.
const (
	ReasonKeyMismatch Reason = "key_mismatch" // the record's key is not its user id
	// ReasonTimestampAhead: the time is too far ahead of the Kafka timestamp, or in a file of now.
	ReasonTimestampAhead Reason = "timestamp_ahead"
	ReasonNoRecordTime   Reason = "no_record_time"  // no Kafka timestamp bounds the fix's time
	ReasonOutsideMap     Reason = "outside_map"     // over one cell away from the map of the model
	ReasonWrongPartition Reason = "wrong_partition" // the key belongs to another partition
	ReasonLate           Reason = "late"            // its step is before the user's last step
	ReasonKeyDestroyed   Reason = "key_destroyed"   // the noise key of its day was destroyed
	ReasonSeveralUsers   Reason = "several_users"   // its fixes are of more than one user

	// These two are of "counts" alone, which writes no dead letter: the fix came later than
	// counts.grace after its window, and the record's time is not its broker's.
	ReasonAfterGrace   Reason = "after_grace"
	ReasonProducerTime Reason = "producer_time"

	// ReasonBeforeGPS: the time is not after 1980-01-06T00:00:00Z. The device never had a fix, or
	// wrote seconds in place of milliseconds.
	ReasonBeforeGPS Reason = "before_gps"
	// ReasonNullIsland: latitude and longitude are both exactly 0, because the device has no fix.
	ReasonNullIsland Reason = "null_island"
)

// FirstGPSMS is 1980-01-06T00:00:00Z, when GPS time begins, in milliseconds since 1970. No fix has
// this time or an earlier one. Seconds taken for milliseconds lie before it until the year 11980.
const FirstGPSMS = 315_964_800_000

// How far a fix's time may lie ahead of its Kafka record's timestamp, or in a file of now.
const (
	// DefaultMaxAhead is two minutes: an accepted fix makes its user's earlier ones late, so one
	// that lies an hour ahead silences its user for an hour.
	DefaultMaxAhead = 2 * time.Minute
	// AnyAhead is no bound.
	AnyAhead = time.Duration(math.MaxInt64)
)

// Reasons returns every reason for which a raw record can be refused, in a fixed order, for metrics
// that start at zero. The caller owns the slice.
func Reasons() []Reason {
	return []Reason{
		ReasonEmpty, ReasonTooLarge, ReasonMalformed, ReasonUnknownSchema, ReasonInvalidUTF8,
		ReasonDuplicateField,
		ReasonMissingField.At("user_id"), ReasonMissingField.At("timestamp"),
		ReasonMissingField.At("latitude"), ReasonMissingField.At("longitude"),
		ReasonMissingField.At("unwrap"), ReasonMissingField.At("each"),
		ReasonWrongType, ReasonWrongType.At("user_id"), ReasonWrongType.At("timestamp"),
		ReasonWrongType.At("latitude"), ReasonWrongType.At("longitude"),
		ReasonWrongType.At("accuracy_m"),
		ReasonUserMissing, ReasonUserTooLong, ReasonUserReserved, ReasonNotFinite,
		ReasonLatitudeOutOfRange, ReasonLongitudeOutOfRange, ReasonAccuracyNegative,
		ReasonBefore1970, ReasonAfter9999,
		ReasonKeyMismatch, ReasonTimestampAhead, ReasonBeforeGPS, ReasonNullIsland,
		ReasonOutsideMap, ReasonWrongPartition, ReasonLate, ReasonKeyDestroyed,
		ReasonSeveralUsers,
		ReasonUnknownSchemaID, ReasonApicurioID, ReasonNoRecordTime, ReasonAfterGrace,
		ReasonProducerTime,
	}
}

// Rejection is the error of a record that is refused because of its contents. Trying again gives
// the same answer, so the record becomes a dead letter.
type Rejection struct{ Reason Reason }

// Error names the reason and nothing else.
func (r *Rejection) Error() string { return "record refused: " + string(r.Reason) }

func reject(reason Reason) error { return &Rejection{Reason: reason} }
