package schemas

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a record's fields.
const (
	// MaxRecordBytes is the longest encoded record that a Codec decodes: far longer than any honest
	// one, and short enough that a hostile one costs little.
	MaxRecordBytes = 64 << 10
	// MaxUserIDBytes is the longest user id, in bytes of UTF-8.
	MaxUserIDBytes = 255

	// lastTimestamp is 9999-12-31T23:59:59.999Z, the last instant of RFC 3339.
	lastTimestamp = 253402300799999
)

// Raw is one GPS fix as a device reported it. It is secret: under every verb of fmt, in JSON, text
// and slog it prints as [redacted]. Only a Codec writes it.
type Raw struct {
	UserID    string
	Timestamp int64 // event time, milliseconds since 1970
	Latitude  float64
	Longitude float64  // WGS 84 degrees
	AccuracyM *float64 // metres; nil if the device gives none
}

// Validate returns a *Rejection with the first reason why r cannot be a fix, or nil. A fix has a
// user id of 1 to MaxUserIDBytes bytes of UTF-8 that does not start with NUL, a time from 1970 to
// 9999, finite degrees in [-90, 90] and [-180, 180], and an accuracy that is finite and not
// negative, if it has one.
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

const redacted = "[redacted]"

// String returns [redacted].
func (Raw) String() string { return redacted }

// GoString returns [redacted].
func (Raw) GoString() string { return redacted }

// Format writes [redacted] under every verb and flag, %#v and %d included.
//
// Two ways past it are closed elsewhere. fmt calls no method of a value in an unexported field, so
// a test of the repository allows no such field. fmt calls no method either for %p with a value
// that is not a pointer, which go vet refuses.
func (Raw) Format(s fmt.State, _ rune) {
	// A fmt.State never fails: it writes into fmt's own buffer.
	_, _ = io.WriteString(s, redacted)
}

// MarshalJSON returns the JSON string "[redacted]".
func (Raw) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText returns [redacted]: what XML, YAML and map keys use.
func (Raw) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (Raw) LogValue() slog.Value { return slog.StringValue(redacted) }

// Kinds of sanitized records.
const (
	KindReleased  = "released"  // a new release, which spent Epsilon
	KindRepeated  = "repeated"  // an earlier release again, which spent nothing
	KindPredicted = "predicted" // an estimate without a release
)

// Sanitized is one differentially private location of a user. It is public given the model, because
// it is a function of the user's releases so far.
//
// SigmaMajorM, SigmaMinorM and AzimuthDeg are the 1σ ellipse of the posterior; a record has all of
// them or none. Likewise ReleaseLatitude and ReleaseLongitude.
type Sanitized struct {
	UserID string `json:"user_id"` // or a pseudonym of it
	// Timestamp is the event time of the raw record, or the start of its step, in milliseconds
	// since 1970.
	Timestamp int64 `json:"timestamp"`
	// Latitude and Longitude are the estimate from all releases of the user so far, in degrees
	// (WGS 84).
	Latitude    float64  `json:"latitude"`
	Longitude   float64  `json:"longitude"`
	RadiusM     float64  `json:"radius_m"` // 95 % credible radius of the estimate, metres
	SigmaMajorM Nullable `json:"sigma_major_m,omitzero"`
	SigmaMinorM Nullable `json:"sigma_minor_m,omitzero"`
	AzimuthDeg  Nullable `json:"azimuth_deg,omitzero"` // of the major axis, clockwise from north
	Kind        string   `json:"kind"`                 // later versions may have more kinds
	Epsilon     float64  `json:"epsilon"`              // spent by this record; 0 if no new release
	Delta       float64  `json:"delta"`
	Mechanism   string   `json:"mechanism"` // its name, maybe with notes: see Noted
	ModelID     string   `json:"model_id"`
	Step        int64    `json:"step"`    // of the model
	Release     int64    `json:"release"` // number of the user's releases so far
	// ReleaseLatitude and ReleaseLongitude are the release, in degrees (WGS 84). Noise may put it
	// off the map. A predicted record has none, nor has any where the settings leave it out.
	ReleaseLatitude  Nullable `json:"release_latitude,omitzero"`
	ReleaseLongitude Nullable `json:"release_longitude,omitzero"`
}

// Nullable is a number that a record may lack. The zero Nullable is none.
type Nullable struct {
	Number float64
	Known  bool
}

// Some returns a number that is there.
func Some(x float64) Nullable { return Nullable{x, true} }

// MarshalJSON returns the number, or null.
func (n Nullable) MarshalJSON() ([]byte, error) {
	if !n.Known {
		return []byte("null"), nil
	}
	return json.Marshal(n.Number)
}

// UnmarshalJSON reads a number or null.
func (n *Nullable) UnmarshalJSON(data []byte) error {
	*n = Nullable{}
	if string(data) == "null" {
		return nil
	}
	n.Known = true
	return json.Unmarshal(data, &n.Number)
}

// check returns the reason why s cannot be published, if there is one. It allows places outside the
// globe's ranges, because noise may put a release anywhere.
func (s *Sanitized) check() (Reason, bool) {
	for _, x := range [...]float64{
		s.Latitude, s.Longitude, s.RadiusM, s.SigmaMajorM.Number, s.SigmaMinorM.Number,
		s.AzimuthDeg.Number, s.Epsilon, s.Delta, s.ReleaseLatitude.Number,
		s.ReleaseLongitude.Number,
	} {
		if !finite(x) {
			return ReasonNotFinite, false
		}
	}
	if !s.ellipseFits() || s.ReleaseLatitude.Known != s.ReleaseLongitude.Known {
		return ReasonMalformed, false
	}
	return checkUserID(s.UserID)
}

// ellipseFits reports whether s has a whole ellipse or none.
func (s *Sanitized) ellipseFits() bool {
	major, minor, azimuth := s.SigmaMajorM, s.SigmaMinorM, s.AzimuthDeg
	if !major.Known || !minor.Known || !azimuth.Known {
		return !major.Known && !minor.Known && !azimuth.Known
	}
	return major.Number >= minor.Number && minor.Number >= 0 &&
		azimuth.Number >= 0 && azimuth.Number < 180
}

// Notes about the releases of a record, which follow the mechanism's name.
const (
	// SecondRelease: the record depends on second releases of fixes that have a release in another
	// topic already. The ε of both add up.
	SecondRelease = "second release"
	// Seeded: the noise came from a seed. Anybody who guesses the seed can remove the noise.
	Seeded = "seeded, not private"
	// Unproved: no proof covers the mechanism, which is for experiments.
	Unproved = "experiment, not proved"
	// Smoothed: estimate, radius and ellipse take in later records of the user too.
	Smoothed = "smoothed"
	// Unsmoothed: they could not, in a file that is smoothed.
	Unsmoothed = "unsmoothed"
)

const noteSeparator = "; "

// Noted adds a note to the text of Sanitized.Mechanism: "lattice" becomes "lattice (second
// release)", and with another note "lattice (second release; seeded, not private)".
func Noted(text, note string) string {
	name := MechanismName(text)
	return name + " (" + strings.Join(append(notes(text), note), noteSeparator) + ")"
}

// MechanismName returns the mechanism from a text with any notes or none.
func MechanismName(text string) string {
	if name, _, ok := cutNotes(text); ok {
		return name
	}
	return text
}

// IsSmoothed reports whether a text is that of a record that has been through a smoother.
func IsSmoothed(text string) bool { return HasNote(text, Smoothed) || HasNote(text, Unsmoothed) }

// HasNote reports whether a text has a note.
func HasNote(text, note string) bool { return slices.Contains(notes(text), note) }

func notes(text string) []string {
	if _, list, ok := cutNotes(text); ok {
		return strings.Split(list, noteSeparator)
	}
	return nil
}

func cutNotes(text string) (name, list string, ok bool) {
	name, list, ok = strings.Cut(text, " (")
	if !ok {
		return text, "", false
	}
	if list, ok = strings.CutSuffix(list, ")"); !ok {
		return text, "", false
	}
	return name, list, true
}

// DeadLetter says where a refused record is and why it was refused.
type DeadLetter struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    Reason `json:"reason"`
	// Timestamp is that of the refused Kafka record, in milliseconds since 1970; -1 if it has none.
	Timestamp int64 `json:"timestamp"`
}

// Counts is how many users count in one zone of one window, plus noise. Times are in milliseconds
// since 1970. Latitude and Longitude are there both or not at all.
type Counts struct {
	WindowStart int64    `json:"window_start"`
	WindowEnd   int64    `json:"window_end"`
	Day         string   `json:"day"` // on which the window starts, by the settings' time zone
	Zone        string   `json:"zone"`
	Latitude    Nullable `json:"latitude,omitzero"` // of the zone's middle; none for elsewhere
	Longitude   Nullable `json:"longitude,omitzero"`
	Vehicles    int64    `json:"vehicles"` // count plus noise
	Low         int64    `json:"low"`
	High        int64    `json:"high"`
	Estimate    float64  `json:"estimate"` // for shares and maps, not negative
	Epsilon     float64  `json:"epsilon"`  // of all that a user does in a day
	PerDay      int32    `json:"per_day"`
	Edition     int64    `json:"edition"`
}

// check returns the reason why n cannot be published, if there is one.
func (n *Counts) check() (Reason, bool) {
	if !finite(n.Latitude.Number) || !finite(n.Longitude.Number) ||
		!finite(n.Estimate) || !finite(n.Epsilon) {
		return ReasonNotFinite, false
	}
	if n.Latitude.Known != n.Longitude.Known {
		return ReasonMalformed, false
	}
	return "", true
}
