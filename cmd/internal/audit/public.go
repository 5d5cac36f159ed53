package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// seeded is noise that a seed decides and the transcript does not: with it an audit tries
// one release after the other, at the same facts.
type seeded struct {
	seed uint64
	pcg  rand.PCG
}

// On implements noise.Streams.
func (s *seeded) On(noise.Day, []byte) (noise.Source, error) {
	s.pcg.Seed(s.seed, 0x666f72636564) // any second word: it names the stream
	return &s.pcg, nil
}

// observer computes what an instance must publish and store from public facts alone: the
// settings, the state before, the time of the fix and the release. It shares no noise with
// the instance and is not given the true cell.
type observer struct {
	settings  Settings
	sanitizer *mechanism.Sanitizer
	lookout   *attack.Lookout
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
	return &observer{
		settings: s, sanitizer: sanitizer, codec: codec,
		lookout: attack.NewLookout(s.Model, s.Release),
	}, nil
}

// decide takes the step with a cell of the observer's own. The rules must come to the same
// result as with the true one. It leaves the state after a step without a release.
func (o *observer) decide(f Fix, before []byte) (mechanism.Outcome, error) {
	if err := o.state.DecodeBinary(before); err != nil {
		return mechanism.Outcome{}, err
	}
	return o.sanitizer.Step(&o.state, mechanism.Input{
		User: f.User, Step: o.settings.Model.StepAt(f.Timestamp), Release: true,
	})
}

// expected is the effect that an instance must have, given what it has released. A dead
// letter and a release are taken from got.
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
	if out.Kind == mechanism.Late && o.settings.Input.Late == pipeline.LateDrop {
		got.DeadLetters = nil // none may be written
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
	want.Records = []task.Message{{Key: []byte(record.UserID), Value: value, Timestamp: o.time(f.KafkaMS)}}
	return want, err
}

// observe replaces the observer's own release by the one that was drawn.
func (o *observer) observe(out *mechanism.Outcome, f Fix, before []byte, z grid.Point) error {
	if err := o.state.DecodeBinary(before); err != nil {
		return err
	}
	seen := mechanism.Seen{Step: o.settings.Model.StepAt(f.Timestamp), Kind: mechanism.Released, Release: z}
	err := o.sanitizer.Observe(&o.state, seen)
	out.Release, out.Estimate, out.RadiusKM, out.Number = z, o.state.Estimate, o.state.RadiusKM, o.state.Releases
	return err
}

func (o *observer) record(f Fix, out mechanism.Outcome) schemas.Sanitized {
	g, options := o.settings.Model.Grid, o.settings.Release
	r := schemas.Sanitized{
		UserID: f.User, Timestamp: o.time(f.Timestamp), RadiusM: out.RadiusKM * 1000, Epsilon: out.Epsilon,
		Delta: options.Delta, Mechanism: options.Mechanism, ModelID: o.settings.Model.ID(),
		Step: o.settings.Model.StepAt(f.Timestamp), Release: int64(out.Number), Kind: out.Kind.String(),
	}
	if o.settings.Publish.User == pipeline.UserPseudonym {
		r.UserID = pipeline.Pseudonym(o.settings.Key, f.User)
	}
	r.Latitude, r.Longitude = g.ToDegrees(out.Release)
	r.EstimateLatitude, r.EstimateLongitude = g.ToDegrees(out.Estimate)
	if o.settings.Publish.Metric {
		r.Factor200M, r.Factor1KM, r.FactorSet = out.Metric.Within200M, out.Metric.Within1KM, out.Metric.Across
	}
	return r
}

func (o *observer) time(ms int64) int64 {
	if o.settings.Publish.Timestamp != pipeline.TimestampStep || ms < 0 {
		return ms
	}
	stepMS := o.settings.Model.Step.Milliseconds()
	return ms - ms%stepMS
}

// counted is what one record adds to the counters, where o.state is the one after it.
func (o *observer) counted(out mechanism.Outcome, f Fix) pipeline.Tally {
	s := pipeline.Tally{RecordsIn: 1}
	if out.Kind.Published() {
		s.RecordsOut = 1
	}
	switch out.Kind {
	case mechanism.Released:
		s.Releases, s.Epsilon, s.SetCells = 1, out.Epsilon, int64(out.SetSize)
	case mechanism.Repeated:
		s.Repeats = 1
	case mechanism.Predicted:
		s.Predictions = 1
	case mechanism.Late:
		s.Late, s.Lateness = 1, o.lateness(f)
		if o.settings.Input.Late == pipeline.LateDrop {
			s.LateDropped = 1
		} else {
			s.DeadLetters = 1
		}
	case mechanism.Skipped:
		s.Skipped = 1
	case mechanism.Suppressed:
		s.Suppressed = 1
	case mechanism.Dropped:
		s.Dropped = 1
	}
	return s
}

// lateness is the histogram of one late fix: its step before the user's last one.
func (o *observer) lateness(f Fix) (l pipeline.Lateness) {
	late := time.Duration(o.state.Step-o.settings.Model.StepAt(f.Timestamp)) * o.settings.Model.Step
	bucket, _ := slices.BinarySearch(pipeline.LatenessBounds(), late)
	l.Counts[bucket], l.Seconds = 1, late.Seconds()
	return l
}

// set is the location set of a fix after a state. It is valid until the next call.
func (o *observer) set(before []byte, step int64) ([]grid.Cell, error) {
	var state mechanism.State
	if err := state.DecodeBinary(before); err != nil {
		return nil, err
	}
	return o.lookout.Cells(&state, step), nil
}

// bayes tests a release: the location set holds its mass, no two of its places are told
// apart by more than ε (beside a line all would be), and the posterior follows by Bayes' rule
// from the cells' surrogates. K is built by brute force.
func (o *observer) bayes(check *Check, before []byte, step int64, after *mechanism.State) error {
	cells, err := o.set(before, step)
	if err != nil {
		return err
	}
	g, options, prior := o.settings.Model.Grid, o.settings.Release, o.lookout.Prior()
	check.Trials++
	mass := 0.0
	for _, c := range cells {
		mass += prior.At(c)
	}
	if mass < (1-options.Delta)*prior.Total()-1e-9 {
		check.fail("a location set holds less than 1 - δ of the prior")
	}
	k := ball(g, options, cells)
	exponent := make(map[grid.Cell]float64, len(cells))
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range cells {
		d := after.Release.Sub(g.Centre(c))
		e := -options.Epsilon * k.Gauge(d.X/g.CellKM(), d.Y/g.CellKM())
		exponent[c], low, high = e, min(low, e), max(high, e)
	}
	if k.Dim() > 0 && !(high-low <= options.Epsilon*(1+1e-9)) {
		check.fail("a release tells two places of its location set apart by more than e^ε")
	}
	if options.Inference != mechanism.InferenceSurrogate || k.Dim() == 0 {
		return nil
	}
	total := 0.0
	posterior := make(map[grid.Cell]float64, prior.Len())
	for i, c := range prior.Cells {
		p := prior.P[i] * math.Exp(exponent[attack.NearestMember(g, cells, c)]-high)
		posterior[c] = p
		total += p
	}
	// Pruning drops at most 10⁻⁴ of the mass and float32 rounds by 10⁻⁷.
	for i, c := range after.Posterior.Cells {
		if want, p := posterior[c]/total, after.Posterior.P[i]; math.Abs(p-want) > 1e-3*want {
			check.fail("the posterior is not that of Bayes' rule under the stated law")
			return nil
		}
	}
	return nil
}

// fix is a raw record of a cell, somewhere within it.
func fix(g *grid.Grid, user string, timestamp int64, cell grid.Cell, rng *rand.Rand) Fix {
	centre := g.Centre(cell)
	within := func() float64 { return (rng.Float64() - .5) * .9 * g.CellKM() }
	f := Fix{User: user, Timestamp: timestamp, KafkaMS: timestamp, AccuracyM: 40 * rng.Float64()}
	f.Latitude, f.Longitude = g.ToDegrees(grid.Point{X: centre.X + within(), Y: centre.Y + within()})
	return f
}

// placed is f from another cell, with an accuracy of its own.
func placed(f Fix, g *grid.Grid, cell grid.Cell, rng *rand.Rand) Fix {
	other := fix(g, f.User, f.Timestamp, cell, rng)
	other.KafkaMS, other.Offset = f.KafkaMS, f.Offset
	return other
}

func userName(kind string, i int) string { return fmt.Sprintf("audit-%s-%d", kind, i) }
