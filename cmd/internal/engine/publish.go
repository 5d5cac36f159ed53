package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// What time a sanitized record tells.
const (
	TimestampExact = "exact" // the raw record's, to the millisecond. The default
	TimestampStep  = "step"  // the start of its step
)

// Whose name a sanitized record carries.
const (
	UserPlain     = "plain"     // the raw record's user id. The default
	UserPseudonym = "pseudonym" // Pseudonym of it
)

// Publish says what sanitized records tell beside the estimate. None of it has a
// part in ε, which covers a location's value and neither times nor names.
type Publish struct {
	// Timestamp is TimestampExact or TimestampStep; empty means TimestampExact. With
	// TimestampStep the Kafka timestamps of sanitized records are cut to the step as
	// well. When a record came to be published, and in what order, can be seen in any
	// case by an observer of the topic.
	Timestamp string
	// User is UserPlain or UserPseudonym; empty means UserPlain. It names the
	// sanitized record and is its Kafka key; the partition stays the raw record's.
	// States in the changelog keep the user id.
	User string
	// OmitRelease leaves the release out of records and publishes the estimate alone. A reader who
	// computes from releases, as "aggregate" does, cannot use such records. By default releases
	// are published: the guarantee is about them, and what was left out cannot be added later.
	OmitRelease bool
}

func (p Publish) withDefaults() Publish {
	p.Timestamp = cmp.Or(p.Timestamp, TimestampExact)
	p.User = cmp.Or(p.User, UserPlain)
	return p
}

// Validate reports settings that are unknown. Empty ones are the defaults.
func (p Publish) Validate() error {
	p = p.withDefaults()
	return errors.Join(
		oneOf("timestamp", p.Timestamp, TimestampExact, TimestampStep),
		oneOf("user", p.User, UserPlain, UserPseudonym))
}

// pseudonymLabel comes before the user id in what a pseudonym is the keyed hash of.
const pseudonymLabel = "geodither pseudonym 1\x00"

// pseudonymBytes is how much of the hash is kept: two of a million million users
// share a pseudonym with a probability below 2⁻⁴⁸.
const pseudonymBytes = 16

// Pseudonym returns the name that a key gives to a user: the first 16 bytes of
// HMAC-SHA-256(subkey, "geodither pseudonym 1", NUL, user id), as hex digits, under the
// key's subkey for pseudonyms. Its holders can compute it, and can do nothing else
// with it; others can neither find the user id, however few there are to choose
// from, nor tell whether two keys' pseudonyms are one user's. It panics on the zero key.
func Pseudonym(key noise.Key, user string) string {
	return string(NewPseudonyms(key).Of(nil, user))
}

// Pseudonyms computes many pseudonyms for one goroutine.
type Pseudonyms struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// NewPseudonyms panics on the zero key.
func NewPseudonyms(key noise.Key) *Pseudonyms { return &Pseudonyms{mac: key.MAC(noise.Pseudonyms)} }

// Of appends the pseudonym of a user.
func (p *Pseudonyms) Of(dst []byte, user string) []byte {
	p.mac.Reset()
	p.mac.Write([]byte(pseudonymLabel))
	p.mac.Write([]byte(user))
	return hex.AppendEncode(dst, p.mac.Sum(p.sum[:0])[:pseudonymBytes])
}

// publisher applies Publish to one record after the other.
type publisher struct {
	options Publish
	stepMS  int64
	names   *Pseudonyms // nil: plain
}

func newPublisher(options Publish, model *mobility.Model, key noise.Key) (*publisher, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	p := &publisher{options: options.withDefaults(), stepMS: model.Step.Milliseconds()}
	if p.options.User == UserPseudonym {
		p.names = NewPseudonyms(key)
	}
	return p, nil
}

// user is the name to publish.
func (p *publisher) user(id string) string {
	if p.names == nil {
		return id
	}
	return string(p.names.Of(nil, id))
}

// timestamp is the time to publish, of an event or of a Kafka record, where -1
// is none.
func (p *publisher) timestamp(ms int64) int64 {
	if p.options.Timestamp == TimestampExact || ms < 0 {
		return ms
	}
	return ms - ms%p.stepMS
}

// setEllipse sets the ellipse of a record, in metres.
func setEllipse(record *schemas.Sanitized, e mechanism.Ellipse) {
	record.SigmaMajorM = schemas.Some(float64(e.MajorKM * 1000))
	record.SigmaMinorM = schemas.Some(float64(e.MinorKM * 1000))
	record.AzimuthDeg = schemas.Some(e.AzimuthDeg)
}

// release adds a release to a record, if releases are to be published. At strong privacy it can
// lie far outside the map: the conversion keeps it on the Earth, so that beyond a pole or the
// antimeridian the drawn point cannot be had back from the degrees.
func (p *publisher) release(record *schemas.Sanitized, g *grid.Grid, z grid.Point) {
	if p.options.OmitRelease {
		return
	}
	latitude, longitude := g.ToDegrees(z)
	record.ReleaseLatitude = schemas.Some(latitude)
	record.ReleaseLongitude = schemas.Some(longitude)
}
