package schemas

import "strings"

// Reason says why a record was refused. It is a constant: a snake_case word, or
// such a word, a colon, a space and the name of a field of the schema, as in
// "wrong_type: latitude". So it can go into dead letters, logs and metric labels:
// it never holds anything of the record, and Reasons lists all there are.
type Reason string

// At returns the reason with the field of the schema that it is about.
func (r Reason) At(field string) Reason { return r + ": " + Reason(field) }

// Kind returns the reason without its field, to group by.
func (r Reason) Kind() Reason {
	kind, _, _ := strings.Cut(string(r), ":")
	return Reason(kind)
}

// Reasons of the bytes: what stands there is no record of the expected schema.
const (
	ReasonEmpty          Reason = "empty"           // no value at all, as in a Kafka tombstone
	ReasonTooLarge       Reason = "too_large"       // longer than MaxRecordBytes
	ReasonMalformed      Reason = "malformed"       // not Avro or not JSON, cut short, or followed by more bytes
	ReasonUnknownSchema  Reason = "unknown_schema"  // Avro, written with another schema
	ReasonInvalidUTF8    Reason = "invalid_utf8"    // text that is not UTF-8, or half of a surrogate pair
	ReasonDuplicateField Reason = "duplicate_field" // a JSON object that names a field twice
	ReasonMissingField   Reason = "missing_field"   // a JSON object without a required field; always with the field
	ReasonWrongType      Reason = "wrong_type"      // a JSON value of another type, such as a number in quotes; with the field, if it is in one
)

// Reasons of the values: what the record says cannot be.
const (
	ReasonUserMissing         Reason = "user_missing"           // empty user id
	ReasonUserTooLong         Reason = "user_too_long"          // longer than MaxUserIDBytes
	ReasonUserReserved        Reason = "user_reserved"          // starts with NUL, as only internal keys do
	ReasonNotFinite           Reason = "not_finite"             // NaN or infinite, or beyond a float64
	ReasonLatitudeOutOfRange  Reason = "latitude_out_of_range"  // outside [-90, 90]
	ReasonLongitudeOutOfRange Reason = "longitude_out_of_range" // outside [-180, 180]
	ReasonAccuracyNegative    Reason = "accuracy_negative"
	ReasonBefore1970          Reason = "before_1970"
	ReasonAfter9999           Reason = "after_9999"
)

// Reasons of the stream: a sound record that cannot be used where it stands.
// This package never gives them; they are here so that the list is in one place.
const (
	ReasonKeyMismatch    Reason = "key_mismatch"    // the record's key is not its user id
	ReasonTimestampAhead Reason = "timestamp_ahead" // too far ahead of the record's Kafka timestamp
	ReasonBeforeGPS      Reason = "before_gps"      // not after 1980-01-06T00:00:00Z: a device that never had a fix, or seconds in place of milliseconds
	ReasonNullIsland     Reason = "null_island"     // latitude and longitude are both exactly 0: a device that has no fix
	ReasonOutsideMap     Reason = "outside_map"     // further than one cell from the map of the fix's model
	ReasonWrongPartition Reason = "wrong_partition" // in another partition than the one that its key belongs to
	ReasonLate           Reason = "late"            // of a step before the user's last one
	ReasonKeyDestroyed   Reason = "key_destroyed"   // of a day whose noise key was destroyed: it cannot be released any more
)

// Reasons returns every reason that a raw record can be refused for, in a fixed
// order: for metrics that start at zero. The caller owns the slice.
func Reasons() []Reason {
	return []Reason{
		ReasonEmpty, ReasonTooLarge, ReasonMalformed, ReasonUnknownSchema, ReasonInvalidUTF8,
		ReasonDuplicateField,
		ReasonMissingField.At("user_id"), ReasonMissingField.At("timestamp"),
		ReasonMissingField.At("latitude"), ReasonMissingField.At("longitude"),
		ReasonWrongType, ReasonWrongType.At("user_id"), ReasonWrongType.At("timestamp"),
		ReasonWrongType.At("latitude"), ReasonWrongType.At("longitude"), ReasonWrongType.At("accuracy_m"),
		ReasonUserMissing, ReasonUserTooLong, ReasonUserReserved, ReasonNotFinite,
		ReasonLatitudeOutOfRange, ReasonLongitudeOutOfRange, ReasonAccuracyNegative,
		ReasonBefore1970, ReasonAfter9999,
		ReasonKeyMismatch, ReasonTimestampAhead, ReasonBeforeGPS, ReasonNullIsland, ReasonOutsideMap, ReasonWrongPartition, ReasonLate, ReasonKeyDestroyed,
	}
}

// Rejection is the error of a record that is refused for what it holds. It
// becomes a dead letter; trying again gives the same answer.
type Rejection struct{ Reason Reason }

// Error names the reason and nothing else.
func (r *Rejection) Error() string { return "record refused: " + string(r.Reason) }

func reject(reason Reason) error { return &Rejection{Reason: reason} }
