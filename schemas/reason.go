package schemas

// Reason says why a record was refused. It is a constant snake_case word, so
// that it can go into dead letters, logs and metric labels: it never holds
// anything of the record.
type Reason string

// Reasons of the bytes: what stands there is no record of the expected schema.
const (
	ReasonEmpty          Reason = "empty"           // no value at all, as in a Kafka tombstone
	ReasonTooLarge       Reason = "too_large"       // longer than MaxRecordBytes
	ReasonMalformed      Reason = "malformed"       // not Avro or not JSON, cut short, or followed by more bytes
	ReasonUnknownSchema  Reason = "unknown_schema"  // Avro, written with another schema
	ReasonInvalidUTF8    Reason = "invalid_utf8"    // text that is not UTF-8, or half of a surrogate pair
	ReasonDuplicateField Reason = "duplicate_field" // a JSON object that names a field twice
	ReasonMissingField   Reason = "missing_field"   // a JSON object without a required field
	ReasonWrongType      Reason = "wrong_type"      // a JSON value of another type, such as a number in quotes
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
	ReasonBeforeGPS      Reason = "before_gps"      // before 1980-01-06: a clock that was never set, or seconds in place of milliseconds
	ReasonLate           Reason = "late"            // of a step before the user's last one
	ReasonKeyDestroyed   Reason = "key_destroyed"   // of a day whose noise key was destroyed: it cannot be released any more
)

// Reasons returns every reason there is, in a fixed order: for metrics that
// start at zero. The caller owns the slice.
func Reasons() []Reason {
	return []Reason{
		ReasonEmpty, ReasonTooLarge, ReasonMalformed, ReasonUnknownSchema, ReasonInvalidUTF8,
		ReasonDuplicateField, ReasonMissingField, ReasonWrongType,
		ReasonUserMissing, ReasonUserTooLong, ReasonUserReserved, ReasonNotFinite,
		ReasonLatitudeOutOfRange, ReasonLongitudeOutOfRange, ReasonAccuracyNegative,
		ReasonBefore1970, ReasonAfter9999,
		ReasonKeyMismatch, ReasonTimestampAhead, ReasonBeforeGPS, ReasonLate, ReasonKeyDestroyed,
	}
}

// Rejection is the error of a record that is refused for what it holds. It
// becomes a dead letter; trying again gives the same answer.
type Rejection struct{ Reason Reason }

// Error names the reason and nothing else.
func (r *Rejection) Error() string { return "record refused: " + string(r.Reason) }

func reject(reason Reason) error { return &Rejection{Reason: reason} }
