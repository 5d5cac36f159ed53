package engine

import (
	"time"

	"github.com/geodither/geodither/schemas"
)

// DefaultMaxAhead is what Options.MaxAhead is by default.
// A fix that is accepted makes its user's earlier fixes late, so one that lies an hour
// ahead silences its user for an hour.
const DefaultMaxAhead = 2 * time.Minute

// firstGPS is 1980-01-06T00:00:00Z, when GPS time begins, in Unix milliseconds.
// Seconds taken for milliseconds lie before it until the year 11980.
const firstGPS = 315_964_800_000

// Accept decodes a raw record and checks what the value alone cannot show: its
// key and its time against the Kafka record's, which it may be ahead of by
// maxAhead. Its only errors are *schemas.Rejection, with the reason that the
// service's dead letter has. It does not know whether a fix is late or on the map.
func Accept(
	codec *schemas.Codec, maxAhead time.Duration, key, value []byte, kafkaMS int64,
) (schemas.Raw, error) {
	fix, err := codec.DecodeRaw(value)
	if err != nil {
		return fix, err
	}
	if string(key) != fix.UserID {
		return fix, &schemas.Rejection{Reason: schemas.ReasonKeyMismatch}
	}
	// A Kafka record without a timestamp has -1 and bounds nothing. It may also
	// have any other, so nothing is added to it.
	if kafkaMS >= 0 && fix.Timestamp-maxAhead.Milliseconds() > kafkaMS {
		return fix, &schemas.Rejection{Reason: schemas.ReasonTimestampAhead}
	}
	return fix, Plausible(fix)
}
