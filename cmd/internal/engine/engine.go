package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Engine turns fixes into sanitized records. It is a function of its arguments
// (the fix, the user's state, the model in its versions, the key, the options) with
// scratch memory, so one goroutine owns it.
type Engine struct {
	models    *models
	options   mechanism.Options
	publisher *publisher
	input     Input
	near      bool // measure law.Metric.NearShare
}

// New refuses options that Sanitizer or Publish refuses, a key without noise, versions that cannot
// follow each other, and a model whose step is not a whole number of milliseconds. Of the settings
// it needs those that are not about raw records. Under a key that was made of a seed all records
// say so: schemas.Seeded.
func New(s Settings) (*Engine, error) {
	model := s.Model
	if model.Step < time.Millisecond || model.Step%time.Millisecond != 0 {
		return nil, fmt.Errorf("model %s has a step of %v, no whole milliseconds", model.ID(),
			model.Step)
	}
	if !s.Key.HasNoise() {
		return nil, errNoNoise
	}
	models, err := newModels(model, s.Later,
		func(m *mobility.Model) (*mechanism.Sanitizer, error) {
			return mechanism.NewSanitizer(m, noise.NewKeyed(s.Key), s.Release)
		})
	if err != nil {
		return nil, err
	}
	options := models.base.sanitizer.Options()
	publisher, err := newPublisher(s, &options)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		models: models, options: options, publisher: publisher, input: s.Input.withDefaults(),
	}
	if s.Key.Seeded() {
		e.Note(schemas.Seeded)
	}
	return e, nil
}

// Note adds a note about the releases to the mechanism that records name: schemas.Noted.
func (e *Engine) Note(text string) {
	e.publisher.mechanism = schemas.Noted(e.publisher.mechanism, text)
}

// MeasureNear has outcomes hold law.Metric.NearShare.
func (e *Engine) MeasureNear() { e.near = true }

// Options returns the options of releases with their defaults filled in.
func (e *Engine) Options() mechanism.Options { return e.options }

// Result is what comes of one fix.
type Result struct {
	Record    schemas.Sanitized // to publish, if Outcome.Kind.Published is true
	Outcome   mechanism.Outcome
	Migration mechanism.Migration // what has become of a state of another model
	Placement Placement           // to the map of the fix's version; that of a late fix is zero
	BeginsMS  int64               // when the fix's step begins
	LateMS    int64               // by how much that is before the user's last step; else 0
}

// Sanitize takes the step of one valid fix on its user's state, in place.
// The state is to be stored if Outcome.Changed is true, whether or not there is a
// record: a step that publishes nothing still moves the posterior on. The state may be
// new, or of another model: on the same grid its posterior is kept, else it starts over.
// A fix that Input refuses is a *schemas.Rejection, and leaves the state as it is.
func (e *Engine) Sanitize(fix schemas.Raw, state *mechanism.State) (r Result, err error) {
	use, err := e.models.choose(fix.Timestamp, state)
	if err != nil {
		return r, err
	}
	r.BeginsMS, r.LateMS = use.step*e.models.stepMS, use.lateMS
	g := use.model.Grid
	if r.LateMS == 0 {
		// Whether a fix is late is known without a look at its place, so that comes first.
		r.Placement = PlaceOn(g, fix)
	}
	if r.Placement.Far && e.input.Outside == OutsideDeadLetter {
		// Before the state is brought to its version: nothing may come of this fix.
		return r, &schemas.Rejection{Reason: schemas.ReasonOutsideMap}
	}
	r.Migration = use.sanitizer.Migrate(state)
	r.Outcome, err = use.sanitizer.Step(state, mechanism.Input{
		User:    fix.UserID,
		Step:    use.step,
		Cell:    g.Locate(fix.Latitude, fix.Longitude),
		Release: true,
		Near:    e.near,
	})
	if err == nil && r.Outcome.Kind.Published() {
		e.publisher.write(&r.Record, fix, use, &r.Outcome, &state.Posterior)
	}
	return r, err
}

// Look says how a fix would be taken whose user has no state: its step, and how it lies to the
// map of its version.
func (e *Engine) Look(fix schemas.Raw) (step int64, place Placement, err error) {
	use, err := e.models.choose(fix.Timestamp, new(mechanism.State))
	if err != nil {
		return use.step, place, err
	}
	return use.step, PlaceOn(use.model.Grid, fix), nil
}

// kindOf is the published name of a kind that is published.
func kindOf(k mechanism.Kind) string {
	switch k { //nolint:exhaustive // the others have no record
	case mechanism.Repeated:
		return schemas.KindRepeated
	case mechanism.Predicted:
		return schemas.KindPredicted
	}
	return schemas.KindReleased
}

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
	options   Publish
	stepMS    int64
	delta     float64
	mechanism string      // as records name it
	names     *Pseudonyms // nil: plain
}

func newPublisher(s Settings, o *mechanism.Options) (*publisher, error) {
	if err := s.Publish.Validate(); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	p := &publisher{
		options: s.Publish.withDefaults(), stepMS: s.Model.Step.Milliseconds(),
		delta: o.Delta, mechanism: o.Mechanism,
	}
	if p.options.User == UserPseudonym {
		p.names = NewPseudonyms(s.Key)
	}
	return p, nil
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

// write fills a record with what a step publishes of a fix, and with the ellipse of the stored
// posterior, which is the one that the estimate stands for, whatever the step did.
//
// At strong privacy a release can lie far outside the map. The conversion keeps it on the Earth, so
// that beyond a pole or the antimeridian the drawn point cannot be had back from the degrees.
func (p *publisher) write(
	record *schemas.Sanitized, fix schemas.Raw, use choice, out *mechanism.Outcome,
	posterior *mobility.Distribution,
) {
	g := use.model.Grid
	*record = schemas.Sanitized{
		UserID:    fix.UserID,
		Timestamp: p.timestamp(fix.Timestamp),
		RadiusM:   out.RadiusKM * 1000,
		Epsilon:   out.Epsilon,
		Delta:     p.delta,
		Mechanism: p.mechanism,
		ModelID:   use.modelID,
		Step:      use.step,
		Release:   int64(out.Number),
		Kind:      kindOf(out.Kind),
	}
	if p.names != nil {
		record.UserID = string(p.names.Of(nil, fix.UserID))
	}
	record.Latitude, record.Longitude = g.ToDegrees(out.Estimate)
	setEllipse(record, mechanism.EllipseOf(g, posterior))
	if out.Kind == mechanism.Predicted || p.options.OmitRelease {
		return
	}
	latitude, longitude := g.ToDegrees(out.Release)
	record.ReleaseLatitude = schemas.Some(latitude)
	record.ReleaseLongitude = schemas.Some(longitude)
}
