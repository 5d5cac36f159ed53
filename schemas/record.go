package schemas

import (
	"math"
	"unicode/utf8"
)

// Bounds of what a record may hold.
const (
	// MaxRecordBytes is the longest encoded record that is decoded: far above
	// any honest one, and small enough that a hostile one costs little.
	MaxRecordBytes = 64 << 10
	// MaxUserIDBytes is the longest user id, in bytes of UTF-8.
	MaxUserIDBytes = 255

	// lastTimestamp is 9999-12-31T23:59:59.999Z, the last instant of RFC 3339.
	lastTimestamp = 253402300799999
)

// Raw is one GPS fix as a device reported it. It is secret: under every verb of
// fmt, in JSON, text and slog it prints as [redacted]. Only a Codec writes it.
type Raw struct {
	UserID    string
	Timestamp int64 // event time, milliseconds since 1970
	Latitude  float64
	Longitude float64  // WGS 84 degrees
	AccuracyM *float64 // metres; nil if the device gives none
}

// Validate returns a *Rejection with the first reason why r cannot be a fix, or
// nil: a user id of 1 to MaxUserIDBytes bytes of UTF-8 that does not start with
// NUL, a time from 1970 to 9999, finite degrees in [-90, 90] and [-180, 180],
// and an accuracy, if there is one, that is finite and not negative.
func (r Raw) Validate() error {
	if reason, ok := checkUserID(r.UserID); !ok {
		return reject(reason)
	}
	switch {
	case r.Timestamp < 0:
		return reject(ReasonBefore1970)
	case r.Timestamp > lastTimestamp:
		return reject(ReasonAfter9999)
	case !finite(r.Latitude) || !finite(r.Longitude):
		return reject(ReasonNotFinite)
	case math.Abs(r.Latitude) > 90:
		return reject(ReasonLatitudeOutOfRange)
	case math.Abs(r.Longitude) > 180:
		return reject(ReasonLongitudeOutOfRange)
	}
	if r.AccuracyM != nil {
		if !finite(*r.AccuracyM) {
			return reject(ReasonNotFinite)
		}
		if *r.AccuracyM < 0 {
			return reject(ReasonAccuracyNegative)
		}
	}
	return nil
}

func checkUserID(id string) (Reason, bool) {
	switch {
	case id == "":
		return ReasonUserMissing, false
	case len(id) > MaxUserIDBytes:
		return ReasonUserTooLong, false
	case id[0] == 0:
		return ReasonUserReserved, false
	case !utf8.ValidString(id):
		return ReasonInvalidUTF8, false
	}
	return "", true
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Kinds of sanitized records.
const (
	KindReleased  = "released"  // a new release, which cost Epsilon
	KindRepeated  = "repeated"  // an earlier release again, at no cost
	KindPredicted = "predicted" // no release; latitude and longitude are the estimate's
)

// Sanitized is one differentially private location of a user. All of it is
// public given the model: it is a function of the user's releases so far.
//
// The factors are the metric view of a new release, where it is asked for: by how
// much better than before it tells two positions so far apart from each other, as
// a factor of their odds between 1 and e^Epsilon. They hold for positions in cells of
// the location set; outside it e^Epsilon does. 0 says that the record has none.
type Sanitized struct {
	UserID            string  `json:"user_id"`   // or a pseudonym of it
	Timestamp         int64   `json:"timestamp"` // event time of the raw record or the start of its step, milliseconds since 1970
	Latitude          float64 `json:"latitude"`  // of the release, WGS 84 degrees; noise may carry it off the map
	Longitude         float64 `json:"longitude"`
	EstimateLatitude  float64 `json:"estimate_latitude"` // what the releases so far tell, WGS 84 degrees
	EstimateLongitude float64 `json:"estimate_longitude"`
	RadiusM           float64 `json:"radius_m"` // 95 % credible radius of the estimate, metres
	Epsilon           float64 `json:"epsilon"`  // spent by this record; 0 if it repeats or predicts
	Delta             float64 `json:"delta"`
	Mechanism         string  `json:"mechanism"` // by name, with a note perhaps: see Noted
	ModelID           string  `json:"model_id"`
	Step              int64   `json:"step"`    // of the model
	Release           int64   `json:"release"` // number of the user's releases so far
	Kind              string  `json:"kind"`    // one of the kinds above; later versions may have more
	Factor200M        float64 `json:"factor_200m,omitempty"`
	Factor1KM         float64 `json:"factor_1km,omitempty"`
	FactorSet         float64 `json:"factor_set,omitempty"` // any two positions of the location set
}

// check returns why s cannot be published, if it cannot. Places are not held to
// the globe's ranges: noise may carry a release anywhere.
func (s *Sanitized) check() (Reason, bool) {
	for _, x := range [...]float64{
		s.Latitude, s.Longitude, s.EstimateLatitude, s.EstimateLongitude, s.RadiusM, s.Epsilon, s.Delta,
		s.Factor200M, s.Factor1KM, s.FactorSet,
	} {
		if !finite(x) {
			return ReasonNotFinite, false
		}
	}
	return checkUserID(s.UserID)
}

// DeadLetter says where a refused record lies and why it was refused.
type DeadLetter struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    Reason `json:"reason"`
	Timestamp int64  `json:"timestamp"` // of the refused Kafka record, milliseconds since 1970; -1 if it has none
}
