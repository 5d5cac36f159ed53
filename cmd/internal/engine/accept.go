package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
	"github.com/geodither/geodither/schemas/registry"
)

// Values of Settings.MaxAhead.
const (
	DefaultMaxAhead = schemas.DefaultMaxAhead
	// AnyAhead accepts a fix of any time, also of a record without a timestamp.
	AnyAhead = schemas.AnyAhead
)

// Source is the part of Settings that says how raw records are read.
type Source struct {
	Encoding schemas.Encoding // of records of raw.avsc, if there is no Mapping
	Mapping  *mapping.Mapping // or nil
	Registry *registry.Client // or nil
	MaxAhead time.Duration
}

// UsersAreKeys reports whether the key of each record that is accepted is its user id, byte for
// byte.
func (s Source) UsersAreKeys() bool { return s.Mapping == nil || s.Mapping.UsersAreKeys() }

// OneKey reports whether all accepted records of a user have the same key, byte for byte, so that a
// partitioner puts them into one partition.
func (s Source) OneKey() bool { return s.Mapping == nil || s.Mapping.OneKey() }

// KeyOf returns the one key of a user's records; ok is false if there is none, or several.
func (s Source) KeyOf(user string) (key []byte, ok bool) {
	if s.Mapping == nil {
		return []byte(user), true
	}
	text, ok := s.Mapping.KeyOf(user)
	return []byte(text), ok
}

// WhySkipped says why a fix is skipped; empty: it is not.
func (s Source) WhySkipped(f Fix) string {
	if f.Skipped == mapping.NoRule {
		return ""
	}
	name := Input{Mapping: s.Mapping}.Rules()[f.Skipped]
	if f.Skipped < len(mapping.BuiltIn()) {
		return name
	}
	return "this rule does not hold: " + name
}

// Fix is one fix of a record: accepted, refused, or skipped by a rule.
type Fix = mapping.Fix

// Reader is how everything that reads raw records reads them. It keeps scratch space, so use one
// for each goroutine.
type Reader struct {
	source Source
	codec  *schemas.Codec   // of records of raw.avsc
	framed *registry.Reader // or nil: of records in the framings of registries
	mapped *mapping.Reader  // or nil
	one    [1]Fix           // scratch
}

// NewReader makes a reader.
func NewReader(s Source) (r *Reader, err error) {
	r = &Reader{source: s}
	if s.Mapping == nil {
		if r.codec, err = schemas.NewCodec(s.Encoding); err != nil {
			return nil, err
		}
		if s.Encoding == schemas.Auto && s.Registry != nil {
			if r.framed, err = registry.NewReader(s.Registry); err != nil {
				return nil, err
			}
			r.codec.UseRegistry(r.framed)
		}
		return r, nil
	}
	if r.mapped, err = s.Mapping.NewReader(decoders(s.Registry)); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return r, nil
}

// decoders are how a mapping reads what needs a registry.
func decoders(client *registry.Client) (d mapping.Decoders) {
	if client == nil {
		return d
	}
	by := func(header string) mapping.Decoder {
		return func(value []byte, headers mapping.Headers) (any, error) {
			return client.Tree(context.Background(), value, named(headers, header))
		}
	}
	d.Value, d.Key = by(registry.SchemaHeader), by(registry.KeySchemaHeader)
	return d
}

// named returns the schema that a header names; nil: there is no such header.
func named(headers task.Headers, header string) []byte {
	if headers == nil {
		return nil
	}
	value, _ := headers.Last(header)
	return value
}

// Key returns the key of the state that a record belongs to: the user id. It is empty where nothing
// comes of the record. Where the fixes are read for that, they are given back in the record's Read.
func (r *Reader) Key(rec task.Record) (key []byte, read any, err error) {
	if r.source.UsersAreKeys() {
		return rec.Key, nil, nil
	}
	fixes, err := r.mapped.Read(mapped(rec))
	return []byte(mapping.UserOf(fixes)), fixes, unreadable(err)
}

// Fixes returns the fixes of a record in order. A fix that is not refused has a key and times that
// agree with the Kafka record, which it may be ahead of by MaxAhead. No clock is asked, so a topic
// gives the same fixes next year. Whether a fix is late or on the map, and whether the record lies
// in the right partition, is not looked at. An error says that the record cannot be read now. The
// caller may change the fixes; they are valid until the next call.
func (r *Reader) Fixes(rec task.Record) (fixes []Fix, err error) {
	if fixes, _ = rec.Read.([]Fix); fixes == nil {
		fixes, err = r.read(rec)
	}
	for i := range fixes {
		r.check(&fixes[i], rec)
	}
	return fixes, unreadable(err)
}

// Message is Fixes of a message outside a topic: without headers, and as if it had been written at
// the given time.
func (r *Reader) Message(key, value []byte, at time.Time) ([]Fix, error) {
	return r.Fixes(task.Record{Key: key, Value: value, Timestamp: at.UnixMilli()})
}

// read decodes the fixes of a record. Without a mapping there is one, of raw.avsc or of another
// schema with its names.
func (r *Reader) read(rec task.Record) ([]Fix, error) {
	if r.mapped != nil {
		return r.mapped.Read(mapped(rec))
	}
	var fix schemas.Raw
	var err error
	if schema := named(rec.Headers, registry.SchemaHeader); schema != nil && r.framed != nil {
		fix, err = r.framed.RawNamed(context.Background(), rec.Value, schema)
	} else {
		fix, err = r.codec.DecodeRaw(rec.Value)
	}
	if err == nil && string(rec.Key) != fix.UserID {
		err = &schemas.Rejection{Reason: schemas.ReasonKeyMismatch}
	}
	r.one[0] = Fix{Raw: fix}
	if err != nil && !errors.As(err, &r.one[0].Refused) {
		return nil, err
	}
	return r.one[:], nil
}

// check holds an accepted fix against its Kafka record, and against what can be.
func (r *Reader) check(f *Fix, rec task.Record) {
	if f.Refused != nil && ofApicurio(f.Refused.Reason, rec) {
		f.Refused = &schemas.Rejection{Reason: schemas.ReasonApicurioID}
	}
	if !f.Usable() {
		return
	}
	// A Kafka record without a timestamp has -1, which bounds nothing. It may also have any other,
	// so nothing is added to it.
	switch {
	case r.source.MaxAhead == AnyAhead:
		errors.As(Plausible(f.Raw), &f.Refused)
	case rec.Timestamp < 0:
		f.Refused = &schemas.Rejection{Reason: schemas.ReasonNoRecordTime}
	case f.Raw.Timestamp-r.source.MaxAhead.Milliseconds() > rec.Timestamp:
		f.Refused = &schemas.Rejection{Reason: schemas.ReasonTimestampAhead}
	default:
		errors.As(Plausible(f.Raw), &f.Refused)
	}
}

// ofApicurio reports whether a record that could not be decoded names its schema as Apicurio's
// serializers do by default: in headers, or by 8 bytes behind a zero. No registry gives the number
// 0, with which 8 bytes begin.
func ofApicurio(reason schemas.Reason, rec task.Record) bool {
	switch reason {
	case schemas.ReasonMalformed, schemas.ReasonUnknownSchema, schemas.ReasonUnknownSchemaID:
	default:
		return false
	}
	const longID = 1 + 8
	if len(rec.Value) > longID && bytes.Equal(rec.Value[:longID-4], make([]byte, longID-4)) {
		return true
	}
	if rec.Headers == nil {
		return false
	}
	_, global := rec.Headers.Last("apicurio.value.globalId")
	_, content := rec.Headers.Last("apicurio.value.contentId")
	return global || content
}

// mapped is what a mapping looks at of a record.
func mapped(rec task.Record) mapping.Record {
	return mapping.Record{
		Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Timestamp: rec.Timestamp,
	}
}

// unreadable marks an error of a registry: the schema may be there in a moment, unless the registry
// can never be asked for it.
func unreadable(err error) error {
	switch {
	case err == nil:
		return nil
	case registry.HasNoGUIDs(err):
		return task.WithRemedy(err, task.Fatal)
	}
	return task.WithRemedy(err, task.Rebuild)
}
