package audit

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// seeded is noise that depends on a seed and not on the transcript. With it a probe tries one
// release after another for the same facts.
type seeded struct {
	seed uint64
	pcg  rand.PCG
}

// On implements noise.Streams.
func (s *seeded) On(noise.Day, []byte) (noise.Source, error) {
	s.pcg.Seed(s.seed, 0x666f72636564) // an arbitrary second word, which names the stream
	return &s.pcg, nil
}

// observer computes what an instance must publish and store from public facts alone: the
// settings, the state before, the time of the fix and the release. It shares no noise with
// the instance and never gets the true cell.
type observer struct {
	settings  Settings
	sanitizer *mechanism.Sanitizer
	emission  *mechanism.Emission
	codec     *schemas.Codec
	state     mechanism.State // scratch
}

func newObserver(s Settings) (*observer, error) {
	sanitizer, err := mechanism.NewSanitizer(s.Model, &seeded{}, s.Release)
	if err != nil {
		return nil, err
	}
	codec, err := schemas.NewCodec(s.encoding())
	if err != nil {
		return nil, err
	}
	s.Release = sanitizer.Options()
	emission, err := mechanism.NewEmission(s.Model.Grid, s.Release)
	return &observer{
		settings: s, sanitizer: sanitizer, emission: emission, codec: codec,
	}, err
}

// decide takes the step with an arbitrary cell. The rules must give the same result as for the true
// cell. It leaves the state after a step without a release.
func (o *observer) decide(f Fix, before []byte) (mechanism.Outcome, error) {
	if err := o.state.DecodeBinary(before); err != nil {
		return mechanism.Outcome{}, err
	}
	return o.sanitizer.Step(&o.state, mechanism.Input{
		User: f.User, Step: o.settings.Model.StepAt(f.Timestamp), Release: true,
	})
}

// expected returns the effect that an instance must have, given what it has released. It takes dead
// letters and the release from got.
func (o *observer) expected(f Fix, before []byte, got Effect) (Effect, error) {
	out, err := o.decide(f, before)
	if err != nil {
		return Effect{}, err
	}
	if out.Kind == mechanism.Released {
		var after mechanism.State
		if err := after.DecodeBinary(got.State); err != nil {
			return Effect{}, err
		}
		if err := o.observe(&out, f, before, after.Release); err != nil {
			return Effect{}, err
		}
	}
	want := Effect{State: before, DeadLetters: got.DeadLetters, Counts: o.counted(out, f)}
	if out.Changed {
		want.State = o.state.AppendBinary(nil)
	}
	if !out.Kind.Published() {
		return want, nil
	}
	record := o.record(f, out)
	value, err := o.codec.AppendSanitized(nil, record)
	want.Records = []task.Message{{
		Key: []byte(record.UserID), Value: value, Timestamp: o.time(f.KafkaMS),
	}}
	return want, err
}

// observe replaces the observer's own release by the real one.
func (o *observer) observe(out *mechanism.Outcome, f Fix, before []byte, z grid.Point) error {
	if err := o.state.DecodeBinary(before); err != nil {
		return err
	}
	seen := mechanism.Seen{
		Step: o.settings.Model.StepAt(f.Timestamp), Kind: mechanism.Released, Release: z,
	}
	err := o.sanitizer.Observe(&o.state, seen)
	out.Release, out.Estimate, out.RadiusKM, out.Number = z, o.state.Estimate, o.state.RadiusKM,
		o.state.Releases
	return err
}

// record returns the record of an outcome. o.state is the state after it.
func (o *observer) record(f Fix, out mechanism.Outcome) schemas.Sanitized {
	g, options := o.settings.Model.Grid, o.settings.Release
	r := schemas.Sanitized{
		UserID: f.User, Timestamp: o.time(f.Timestamp), RadiusM: out.RadiusKM * 1000,
		Epsilon: out.Epsilon,
		Delta:   options.Delta, Mechanism: options.Mechanism, ModelID: o.settings.Model.ID(),
		Step: o.settings.Model.StepAt(f.Timestamp), Release: int64(out.Number),
		Kind: out.Kind.String(),
	}
	if o.settings.Publish.User == engine.UserPseudonym {
		r.UserID = engine.Pseudonym(o.settings.Key, f.User)
	}
	r.Latitude, r.Longitude = g.ToDegrees(out.Estimate)
	ellipse := mechanism.EllipseOf(g, &o.state.Posterior)
	r.SigmaMajorM = schemas.Some(ellipse.MajorKM * 1000)
	r.SigmaMinorM = schemas.Some(ellipse.MinorKM * 1000)
	r.AzimuthDeg = schemas.Some(ellipse.AzimuthDeg)
	if out.Kind != mechanism.Predicted && !o.settings.Publish.OmitRelease {
		latitude, longitude := g.ToDegrees(out.Release)
		r.ReleaseLatitude, r.ReleaseLongitude = schemas.Some(latitude), schemas.Some(longitude)
	}
	return r
}

func (o *observer) time(ms int64) int64 {
	if o.settings.Publish.Timestamp != engine.TimestampStep || ms < 0 {
		return ms
	}
	stepMS := o.settings.Model.Step.Milliseconds()
	return ms - ms%stepMS
}

// counted returns what one record adds to the counters. o.state is the state after it.
func (o *observer) counted(out mechanism.Outcome, f Fix) engine.Tally {
	s := engine.Tally{RecordsIn: 1}
	if f.KafkaMS >= 0 && f.Timestamp > f.KafkaMS {
		s.Ahead.Add(f.Timestamp - f.KafkaMS)
	}
	if out.Exhausted {
		s.Exhausted = 1
	}
	if out.Kind.Published() {
		s.RecordsOut = 1
	}
	switch out.Kind {
	case mechanism.Released:
		s.Releases, s.Epsilon, s.SetCells = 1, out.Epsilon, int64(out.SetSize)
		s.Sets.Add(out.SetSize)
	case mechanism.Repeated:
		s.Repeats = 1
	case mechanism.Predicted:
		s.Predictions = 1
	case mechanism.Late:
		s.Late, s.DeadLetters, s.Lateness = 1, 1, o.lateness(f)
	case mechanism.Skipped:
		s.Skipped = 1
	case mechanism.Suppressed:
		s.Suppressed = 1
	}
	return s
}

// lateness returns the histogram of one late fix, by the time from its step to the user's last
// step.
func (o *observer) lateness(f Fix) (l engine.Lateness) {
	late := time.Duration(o.state.Step-o.settings.Model.StepAt(f.Timestamp)) * o.settings.Model.Step
	_, bounds, _ := l.Buckets()
	bucket, _ := slices.BinarySearch(bounds, late.Seconds())
	l.Counts[bucket], l.Seconds = 1, late.Seconds()
	return l
}

// law returns the law of a release in a step after a state. It is valid until the next call. The
// prior is that of a report without a release, which needs neither a place nor noise.
func (o *observer) law(before []byte, step int64) (*stated, error) {
	var state mechanism.State
	if err := state.DecodeBinary(before); err != nil {
		return nil, err
	}
	out, err := o.sanitizer.Step(&state, mechanism.Input{Step: step, Prior: true})
	if err != nil {
		return nil, err
	}
	if out.Prior == nil { // a further release of a step starts at the posterior of the one before
		return newStated(o.emission, &state.Posterior), nil
	}
	return newStated(o.emission, out.Prior), nil
}
