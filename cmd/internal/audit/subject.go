package audit

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Settings are the settings of an instance of the service. An attacker knows all of them except the
// key.
type Settings struct {
	Model   *mobility.Model
	Key     noise.Key
	Release mechanism.Options
	Publish engine.Publish
	Input   engine.Input
	// Encoding is that of sanitized records; empty means Avro.
	Encoding schemas.Encoding
	// Streams take the place of the key's noise, for checks that need two truths to give
	// equal releases. nil means the noise of the key.
	Streams noise.Streams
}

// Facts are what the settings say of releases and records, by their keys in the config:
// intervals in steps, distances in kilometres. Two audits of one model attack the same if their
// lawFacts are the same. The release must have its defaults (mechanism.Sanitizer.Options). How raw
// records are read is not among them, because an audit makes its own.
func (s Settings) Facts() map[string]string {
	filled := engine.Settings{Publish: s.Publish, Input: s.Input}.WithDefaults()
	r, publish, input := s.Release, filled.Publish, filled.Input
	facts := map[string]string{}
	for key, value := range map[string]any{
		"release.mechanism": r.Mechanism, "release.inference": r.Inference,
		"release.isotropy": r.Isotropy, "release.subdivision": r.Subdivision,
		"release.epsilon": r.Epsilon, "release.delta": r.Delta,
		"release.prune": max(r.Prune, 0), "release.max_gap": r.MaxGap,
		"release.min_cells": max(r.MinCells, 0), "release.estimate": r.Estimate,
		"release.interval": r.ReleaseInterval, "release.between": r.Between,
		"release.budget.epsilon": r.Budget.Epsilon, "release.budget.window": r.Budget.WindowSteps,
		"release.budget.lifetime":        r.Budget.Lifetime,
		"release.between (budget spent)": r.Budget.Spent,
		"release.hours":                  r.Hours,
		"publish.timestamp":              publish.Timestamp,
		"publish.user":                   publish.User,
		"publish.release":                !publish.OmitRelease, "input.outside": input.Outside,
		"encoding.sanitized": s.encoding(),
	} {
		facts[key] = fmt.Sprint(value)
	}
	return facts
}

func (s Settings) encoding() schemas.Encoding {
	if s.Encoding == "" {
		return schemas.Avro
	}
	return s.Encoding
}

// Fix is one raw record. Its place is secret; everything else is public.
type Fix struct {
	User                string
	Timestamp           int64 // event time, milliseconds
	KafkaMS             int64 // timestamp of the Kafka record, milliseconds
	Offset              int64 // of the Kafka record
	Latitude, Longitude float64
	AccuracyM           float64
}

// Format writes [redacted] whatever the verb, since the place is secret.
func (Fix) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "[redacted]") }

// LogValue returns [redacted].
func (Fix) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// Effect is everything that follows from a raw record and that somebody may see.
type Effect struct {
	Records, DeadLetters []task.Message
	// State is the user's encoded state after the record, even if it has not changed.
	State []byte
	// Counts are what the record adds to the counters. Drifts, and the fixes that
	// were clamped or look swapped, are 0, because they are secret: only the owner may read them.
	Counts engine.Tally
}

// Subject is one instance under attack. Feed gives it a fix and the user's encoded state before the
// fix, which is empty for a new user. One goroutine may use it.
type Subject interface {
	Feed(f Fix, state []byte) (Effect, error)
}

// Maker starts an instance. An instance knows nothing of what other instances were fed.
type Maker func(Settings) (Subject, error)

// genuine is the real subject.
type genuine struct {
	processor *engine.Processor
	raw       *schemas.Codec
	value     []byte
}

// Engine starts the code that the service runs.
func Engine(s Settings) (Subject, error) {
	raw, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return nil, err
	}
	processor, err := engine.NewAudited(engine.Settings{
		Model: s.Model, Key: s.Key, Release: s.Release, Publish: s.Publish,
		Input: s.Input, SanitizedEncoding: s.encoding(),
	}, s.Streams)
	if err != nil {
		return nil, err
	}
	return &genuine{processor: processor, raw: raw}, nil
}

// Feed implements Subject.
func (e *genuine) Feed(f Fix, state []byte) (Effect, error) {
	var err error
	e.value, err = e.raw.AppendRaw(e.value[:0], schemas.Raw{
		UserID: f.User, Timestamp: f.Timestamp, Latitude: f.Latitude, Longitude: f.Longitude,
		AccuracyM: &f.AccuracyM,
	})
	if err != nil {
		return Effect{}, err
	}
	var fx task.Effects
	record := task.Record{
		Offset: f.Offset, Timestamp: f.KafkaMS, Key: []byte(f.User), Value: e.value,
	}
	if err := e.processor.Process(record, state, &fx); err != nil {
		return Effect{}, err
	}
	effect := Effect{
		Records: cloned(fx.Output), DeadLetters: cloned(fx.DeadLetters), State: bytes.Clone(state),
	}
	if len(fx.State) > 0 {
		effect.State = bytes.Clone(fx.State)
	}
	effect.Counts, _ = e.processor.Take()
	effect.Counts.Drifts = 0
	effect.Counts.OutsideClamped, effect.Counts.OutsideSwapped = 0, 0
	effect.Counts.Refusals = engine.Refusals{} // a dead letter has its reason
	return effect, nil
}

func cloned(messages []task.Message) []task.Message {
	out := make([]task.Message, 0, len(messages))
	for _, m := range messages {
		out = append(out, task.Message{
			Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value), Timestamp: m.Timestamp,
		})
	}
	return out
}

// difference names a part in which two effects differ, byte for byte, or returns "".
func difference(a, b Effect) string {
	switch {
	case len(a.Records) != len(b.Records):
		return "the number of records"
	case !bytes.Equal(a.State, b.State):
		return "the bytes of the state"
	case !slices.EqualFunc(a.DeadLetters, b.DeadLetters, same):
		return "a dead letter"
	case a.Counts != b.Counts:
		return "a counter"
	}
	for i, one := range a.Records {
		switch other := b.Records[i]; {
		case !bytes.Equal(one.Value, other.Value):
			return "the bytes of a record"
		case !bytes.Equal(one.Key, other.Key):
			return "the key of a record"
		case one.Timestamp != other.Timestamp:
			return "the Kafka timestamp of a record"
		}
	}
	return ""
}

func same(a, b task.Message) bool {
	return bytes.Equal(a.Value, b.Value) && bytes.Equal(a.Key, b.Key) && a.Timestamp == b.Timestamp
}

// fix returns a raw record from somewhere within a cell.
func fix(g *grid.Grid, user string, timestamp int64, cell grid.Cell, rng *rand.Rand) Fix {
	centre := g.Centre(cell)
	within := func() float64 { return (rng.Float64() - .5) * .9 * g.CellKM() }
	f := Fix{User: user, Timestamp: timestamp, KafkaMS: timestamp, AccuracyM: 40 * rng.Float64()}
	f.Latitude, f.Longitude = g.ToDegrees(grid.Point{
		X: centre.X + within(), Y: centre.Y + within(),
	})
	return f
}

// placed returns f from another cell, with another accuracy.
func placed(f Fix, g *grid.Grid, cell grid.Cell, rng *rand.Rand) Fix {
	other := fix(g, f.User, f.Timestamp, cell, rng)
	other.KafkaMS, other.Offset = f.KafkaMS, f.Offset
	return other
}
