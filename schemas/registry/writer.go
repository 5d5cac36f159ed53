package registry

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"time"

	"github.com/twmb/avro"

	"github.com/geodither/geodither/schemas"
)

// writer decodes what was written with one schema of a registry.
type writer struct {
	own    bool             // it is raw.avsc
	schema *avro.Schema     // without logical types; nil: the values are JSON
	unit   schemas.TimeUnit // of the field "timestamp"
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
		own: bytes.Equal(parsed.Canonical(), own.Canonical()) && unit == schemas.Milliseconds,
	}
}

// plain returns a schema without most logical types, so that values are decoded as the types of
// Avro that they are stored as, and the unit of the field "timestamp". It keeps those of numbers
// that mean nothing without them: decimals, and times without a zone.
func plain(schema string) (string, schemas.TimeUnit, error) {
	decoder := json.NewDecoder(strings.NewReader(schema))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		return "", "", err
	}
	u := schemas.Milliseconds
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
		if !keptType(t) {
			delete(t, "logicalType")
		}
		delete(t, "default")
		for _, part := range []string{"type", "items", "values", "fields"} {
			strip(t[part])
		}
	}
}

// keptType reports whether values are decoded by a logical type. A decimal is kept only where Avro
// defines it, because a reader ignores one that is not.
func keptType(t map[string]any) bool {
	name, _ := t["logicalType"].(string)
	if name != "decimal" {
		return t["type"] == "long" && strings.HasPrefix(name, localTimestamp)
	}
	scale, precision := wholeOf(t["scale"]), wholeOf(t["precision"])
	return t["type"] == "bytes" && precision > 0 && precision <= maxDigits && scale >= 0 &&
		scale <= precision
}

const (
	localTimestamp = "local-timestamp-"
	maxDigits      = 1000 // of a decimal that is read: a column of a database has fewer
)

// wholeOf returns a whole number of a schema, 0 where there is none and -1 for anything else.
func wholeOf(v any) int64 {
	number, ok := v.(json.Number)
	if v == nil {
		return 0
	}
	n, err := number.Int64()
	if !ok || err != nil {
		return -1
	}
	return n
}

// unitOf returns the unit of the field "timestamp" of a record: by its logical type, else
// milliseconds. Times without a zone have none.
func unitOf(record map[string]any) schemas.TimeUnit {
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
			switch name, _ := t["logicalType"].(string); {
			case name == "timestamp-micros":
				return schemas.Microseconds
			case name == "timestamp-nanos":
				return schemas.Nanoseconds
			case strings.HasPrefix(name, localTimestamp):
				return schemas.RFC3339
			}
		}
	}
	return schemas.Milliseconds
}

// tree decodes a body into plain values.
func (w *writer) tree(body []byte) (any, error) {
	if w.schema == nil {
		return schemas.DecodeTree(body)
	}
	var v any
	rest, err := w.schema.Decode(body, &v)
	if err != nil || len(rest) > 0 {
		return nil, reject(schemas.ReasonMalformed)
	}
	return widen(v), nil
}

// widen turns Avro's int and float into int64 and float64, decimals into json.Number and times
// without a zone into text without one, in place where it can.
func widen(v any) any {
	switch v := v.(type) {
	case *big.Rat:
		digits, _ := v.FloatPrec() // exact: the denominator is a power of ten
		return json.Number(v.FloatString(digits))
	case time.Time:
		return v.Format("2006-01-02T15:04:05.999999999")
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

func reject(reason schemas.Reason) error { return &schemas.Rejection{Reason: reason} }
