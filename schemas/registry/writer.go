package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/geodither/geodither/schemas"
)

// writer decodes what was written with one schema of a registry.
type writer struct {
	own    bool         // it is raw.avsc
	schema *avro.Schema // without logical types; nil: the values are JSON
	unit   unit         // of the field "timestamp"
}

// unit is how many of a number are a millisecond.
type unit int64

// find returns the writer of a schema, by its number or GUID. The error is a *schemas.Rejection if
// the registry surely has no such schema, or one that is of no use here.
func (c *Client) find(ctx context.Context, key string, ask asking) (*writer, error) {
	if a, ok := c.writers.Get(key); ok && a.holds(c) {
		return a.result()
	}
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a, ok := c.writers.Get(key); ok && a.holds(c) {
		return a.result()
	}
	schema, err := ask(ctx)
	if missing(c.explain(err)) {
		// A registry that follows another one may learn of a schema a moment later.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.after(c.again):
		}
		schema, err = ask(ctx)
	}
	a := &answer{until: c.now().Add(c.ttl), reason: schemas.ReasonUnknownSchemaID}
	switch err = c.explain(err); {
	case missing(err):
	case err != nil:
		return nil, err
	default:
		if a.writer, err = c.parse(ctx, schema); err != nil {
			return nil, err
		}
		if a.reason = schemas.ReasonUnknownSchema; a.writer != nil {
			a.reason = ""
		}
	}
	c.writers.Add(key, a)
	return a.result()
}

// asking is a request for a schema.
type asking func(context.Context) (sr.Schema, error)

func (c *Client) byID(id uint32) (key string, ask asking) {
	return fmt.Sprint(id), func(ctx context.Context) (sr.Schema, error) {
		return c.sr.SchemaByID(ctx, int(id))
	}
}

func (c *Client) byGUID(guid [16]byte) (key string, ask asking) {
	text := fmt.Sprintf("%x-%x-%x-%x-%x", guid[:4], guid[4:6], guid[6:8], guid[8:10], guid[10:])
	return text, func(ctx context.Context) (sr.Schema, error) {
		found, err := c.sr.SchemaByGUID(ctx, text)
		return found.Schema, err
	}
}

func (a *answer) holds(c *Client) bool { return a.writer != nil || c.now().Before(a.until) }

func (a *answer) result() (*writer, error) {
	if a.reason != "" {
		return nil, &schemas.Rejection{Reason: a.reason}
	}
	return a.writer, nil
}

// maxReferences bounds how many other schemas a schema may be made of.
const maxReferences = 100

// parse makes the writer of a schema; nil if it is of no use here: of Protobuf, or not valid.
func (c *Client) parse(ctx context.Context, s sr.Schema) (*writer, error) {
	switch s.Type {
	case sr.TypeJSON:
		return &writer{unit: milliseconds}, nil
	case sr.TypeAvro:
	default:
		return nil, nil
	}
	var known avro.SchemaCache
	left := maxReferences
	if ok, err := c.refer(ctx, &known, s.References, &left); !ok {
		return nil, err
	}
	return newWriter(&known, s.Schema), nil
}

// refer parses the schemas that a schema is made of, those that they are made of first. It returns
// false for ones that cannot be used.
func (c *Client) refer(
	ctx context.Context, known *avro.SchemaCache, references []sr.SchemaReference, left *int,
) (bool, error) {
	for _, r := range references {
		if *left--; *left < 0 {
			return false, nil
		}
		found, err := c.sr.SchemaByVersion(ctx, r.Subject, r.Version)
		if err = c.explain(err); err != nil {
			return false, err
		}
		if ok, err := c.refer(ctx, known, found.References, left); !ok {
			return false, err
		}
		text, _, err := plain(found.Schema.Schema)
		if err != nil {
			return false, nil //nolint:nilerr // the schema is of no use
		}
		if _, err := known.Parse(text); err != nil {
			return false, nil //nolint:nilerr // the schema is of no use
		}
	}
	return true, nil
}

// newWriter parses an Avro schema; nil if it is not valid.
func newWriter(known *avro.SchemaCache, schema string) *writer {
	text, unit, err := plain(schema)
	if err != nil {
		return nil
	}
	parsed, err := known.Parse(text)
	if err != nil {
		return nil
	}
	own := avro.MustParse(schemas.RawSchema())
	return &writer{
		schema: parsed, unit: unit,
		own: bytes.Equal(parsed.Canonical(), own.Canonical()) && unit == milliseconds,
	}
}

const milliseconds unit = 1

// plain returns a schema without its logical types, so that values are decoded as the types of
// Avro that they are stored as, and the unit of the field "timestamp".
func plain(schema string) (string, unit, error) {
	decoder := json.NewDecoder(strings.NewReader(schema))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		return "", 0, err
	}
	u := milliseconds
	if record, ok := parsed.(map[string]any); ok {
		u = unitOf(record)
	}
	strip(parsed)
	text, err := json.Marshal(parsed)
	return string(text), u, err
}

// strip removes logical types from all that a schema consists of. Defaults and properties are of no
// use to a reader of the writer's own schema.
func strip(t any) {
	switch t := t.(type) {
	case []any:
		for _, branch := range t {
			strip(branch)
		}
	case map[string]any:
		delete(t, "logicalType")
		delete(t, "default")
		for _, part := range []string{"type", "items", "values", "fields"} {
			strip(t[part])
		}
	}
}

// unitOf returns the unit of the field "timestamp" of a record: by its logical type, else
// milliseconds.
func unitOf(record map[string]any) unit {
	fields, _ := record["fields"].([]any)
	for _, f := range fields {
		field, _ := f.(map[string]any)
		if field["name"] != "timestamp" {
			continue
		}
		branches, isUnion := field["type"].([]any)
		if !isUnion {
			branches = []any{field["type"]}
		}
		for _, b := range branches {
			t, _ := b.(map[string]any)
			switch t["logicalType"] {
			case "timestamp-micros", "local-timestamp-micros":
				return 1000
			case "timestamp-nanos", "local-timestamp-nanos":
				return 1_000_000
			}
		}
	}
	return milliseconds
}

// tree decodes a body into plain values.
func (w *writer) tree(body []byte) (any, error) {
	if w.schema == nil {
		return treeOfJSON(body)
	}
	var v any
	rest, err := w.schema.Decode(body, &v)
	if err != nil || len(rest) > 0 {
		return nil, reject(schemas.ReasonMalformed)
	}
	return widen(v), nil
}

// widen turns Avro's int and float into int64 and float64, in place where it can.
func widen(v any) any {
	switch v := v.(type) {
	case int32:
		return int64(v)
	case float32:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = widen(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = widen(v[k])
		}
	}
	return v
}

// treeOfJSON decodes a JSON value. A number is an int64 if it is written as one and fits, else a
// float64.
func treeOfJSON(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, reject(schemas.ReasonMalformed)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, reject(schemas.ReasonMalformed)
	}
	return numbers(v)
}

func numbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if integer, err := v.Int64(); err == nil {
			return integer, nil
		}
		number, err := v.Float64()
		if err != nil {
			return nil, reject(schemas.ReasonNotFinite)
		}
		return number, nil
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = numbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func reject(reason schemas.Reason) error { return &schemas.Rejection{Reason: reason} }

// milliseconds converts a number of the unit, rounded down.
func (u unit) milliseconds(n int64) int64 {
	q := n / int64(u)
	if n < 0 && q*int64(u) != n {
		q--
	}
	return q
}
