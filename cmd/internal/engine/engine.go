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
	"github.com/geodither/geodither/mechanism/grid"
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
	mechanism string // as records name it
	input     Input
	near      bool      // measure law.Metric.NearShare
	placement Placement // of the last Sanitize's fix
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
	publisher, err := newPublisher(s.Publish, model, s.Key)
	if err != nil {
		return nil, err
	}
	options := models.base.sanitizer.Options()
	e := &Engine{
		models: models, options: options, publisher: publisher,
		mechanism: options.Mechanism, input: s.Input.withDefaults(),
	}
	if s.Key.Seeded() {
		e.Note(schemas.Seeded)
	}
	return e, nil
}

// Note adds a note about the releases to the mechanism that records name: schemas.Noted.
func (e *Engine) Note(text string) { e.mechanism = schemas.Noted(e.mechanism, text) }

// MeasureNear has outcomes hold law.Metric.NearShare.
func (e *Engine) MeasureNear() { e.near = true }

// Placement is how the last Sanitize's fix lay to the map of its version. A late fix is
// not looked at.
func (e *Engine) Placement() Placement { return e.placement }

// Options returns the options of releases with their defaults filled in.
func (e *Engine) Options() mechanism.Options { return e.options }

// Sanitize takes the step of one valid fix on its user's state, in place, and
// returns the record to publish. There is one if Outcome.Kind.Published is true.
// The state is to be stored if Outcome.Changed is true, whether or not there is a
// record: a step that publishes nothing still moves the posterior on. The state may be
// new, or of another model: on the same grid its posterior is kept, else it starts over.
// A fix that Input refuses is a *schemas.Rejection, and leaves the state as it is.
func (e *Engine) Sanitize(
	fix schemas.Raw, state *mechanism.State,
) (schemas.Sanitized, mechanism.Outcome, error) {
	record, outcome, _, err := e.sanitize(fix, state)
	return record, outcome, err
}

// sanitize is Sanitize that also says what has become of a state of another model.
func (e *Engine) sanitize(
	fix schemas.Raw, state *mechanism.State,
) (schemas.Sanitized, mechanism.Outcome, mechanism.Migration, error) {
	use, err := e.models.choose(fix.Timestamp, state)
	if err != nil {
		return schemas.Sanitized{}, mechanism.Outcome{}, mechanism.Unchanged, err
	}
	g := use.model.Grid
	if e.placement = (Placement{}); !e.late(fix, state) {
		// Whether a fix is late is known without a look at its place, so that comes first.
		e.placement = PlaceOn(g, fix)
	}
	if e.placement.Far && e.input.Outside == OutsideDeadLetter {
		// Before the state is brought to its version: nothing may come of this fix.
		return schemas.Sanitized{}, mechanism.Outcome{}, mechanism.Unchanged, &schemas.Rejection{
			Reason: schemas.ReasonOutsideMap,
		}
	}
	migration := use.sanitizer.Migrate(state)
	outcome, err := use.sanitizer.Step(state, mechanism.Input{
		User:    fix.UserID,
		Step:    use.step,
		Cell:    g.Locate(fix.Latitude, fix.Longitude),
		Release: true,
		Near:    e.near,
	})
	if err != nil || !outcome.Kind.Published() {
		return schemas.Sanitized{}, outcome, migration, err
	}
	record := schemas.Sanitized{
		UserID:    e.publisher.user(fix.UserID),
		Timestamp: e.publisher.timestamp(fix.Timestamp),
		RadiusM:   outcome.RadiusKM * 1000,
		Epsilon:   outcome.Epsilon,
		Delta:     e.options.Delta,
		Mechanism: e.mechanism,
		ModelID:   use.modelID,
		Step:      use.step,
		Release:   int64(outcome.Number),
		Kind:      kindOf(outcome.Kind),
	}
	record.Latitude, record.Longitude = g.ToDegrees(outcome.Estimate)
	// The stored posterior is the one that the estimate stands for, whatever the step did.
	setEllipse(&record, mechanism.EllipseOf(g, &state.Posterior))
	if outcome.Kind != mechanism.Predicted {
		e.publisher.release(&record, g, outcome.Release)
	}
	return record, outcome, migration, nil
}

// Look says how a fix would be taken whose user has no state: its step, and how it lies to the
// map of its version.
func (e *Engine) Look(fix schemas.Raw) (step int64, place Placement, err error) {
	step = e.models.first.StepAt(fix.Timestamp)
	use, err := e.models.lane(e.models.at(step, new(mechanism.State)))
	if err != nil {
		return step, Placement{}, err
	}
	return step, PlaceOn(use.model.Grid, fix), nil
}

// beginsMS returns when the step of a fix begins, Unix milliseconds.
func (e *Engine) beginsMS(fix schemas.Raw) int64 {
	return e.models.first.StepAt(fix.Timestamp) * e.models.stepMS
}

// late reports whether a fix is of a step before its user's last one.
func (e *Engine) late(fix schemas.Raw, state *mechanism.State) bool {
	return state.StepMS == e.models.stepMS && e.latenessMS(fix, state) > 0
}

// latenessMS is by how much the step of a fix begins before its user's last one, for a
// state that counts in steps of the models' length.
func (e *Engine) latenessMS(fix schemas.Raw, state *mechanism.State) int64 {
	if !state.Started {
		return 0
	}
	return (state.Step - e.models.first.StepAt(fix.Timestamp)) * e.models.stepMS
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
