package registry

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/geodither/geodither/schemas"
)

// SchemaHeader is the header of a Kafka record that names the schema of its value, where the
// serializer writes it there and not before the value (Confluent's clients, version 8 and later).
const SchemaHeader = "__value_schema_id"

// KeySchemaHeader is SchemaHeader for keys.
const KeySchemaHeader = "__key_schema_id"

// Reader decodes the values of raw records in all framings. It keeps scratch space, so use one for
// each goroutine.
type Reader struct {
	client *Client // nil: there is no registry
	codec  *schemas.Codec
}

// NewReader returns a reader that asks a client; nil if there is no registry.
func NewReader(client *Client) (*Reader, error) {
	codec, err := schemas.NewCodec(schemas.Avro)
	return &Reader{client: client, codec: codec}, err
}

// Raw implements schemas.Framed: it decodes a value in the framing of a registry whose schema has
// the names of raw.avsc. Fields may be nullable, in any order, and beside others; a timestamp has
// the unit of its logical type, else milliseconds, or is RFC 3339 text. It asks the registry if it
// to.
func (r *Reader) Raw(value []byte) (schemas.Raw, error) {
	return r.RawNamed(context.Background(), value, nil)
}

// RawNamed is Raw of a value whose schema a header names (SchemaHeader); nil: the value does.
func (r *Reader) RawNamed(
	ctx context.Context, value, named []byte,
) (schemas.Raw, error) {
	if len(value) > schemas.MaxRecordBytes {
		return schemas.Raw{}, reject(schemas.ReasonTooLarge)
	}
	w, body, err := r.client.writerOf(ctx, value, named)
	if err != nil {
		return schemas.Raw{}, err
	}
	if w.own {
		return r.codec.DecodeRawBody(body)
	}
	tree, err := w.tree(body)
	if err != nil {
		return schemas.Raw{}, err
	}
	return rawOf(tree, w.unit)
}

// rawOf finds the fields of a raw record in a tree.
func rawOf(tree any, u schemas.TimeUnit) (fix schemas.Raw, err error) {
	record, ok := tree.(map[string]any)
	if !ok {
		return fix, reject(schemas.ReasonWrongType)
	}
	var accuracy float64
	for _, f := range []struct {
		name string
		take func(any) bool
	}{
		{"user_id", func(v any) (ok bool) { fix.UserID, ok = v.(string); return ok }},
		{"timestamp", func(v any) (ok bool) { fix.Timestamp, ok = timeOf(v, u); return ok }},
		{"latitude", func(v any) (ok bool) { fix.Latitude, ok = number(v); return ok }},
		{"longitude", func(v any) (ok bool) { fix.Longitude, ok = number(v); return ok }},
		{"accuracy_m", func(v any) (ok bool) { accuracy, ok = number(v); return ok }},
	} {
		v := record[f.name]
		switch {
		case v == nil && f.name == "accuracy_m":
		case v == nil:
			return schemas.Raw{}, reject(schemas.ReasonMissingField.At(f.name))
		case !f.take(v):
			return schemas.Raw{}, reject(schemas.ReasonWrongType.At(f.name))
		case f.name == "accuracy_m":
			fix.AccuracyM = &accuracy
		}
	}
	if err := fix.Validate(); err != nil {
		return schemas.Raw{}, err
	}
	fix.UserID = strings.Clone(fix.UserID) // a tree may share memory with the value
	return fix, nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case json.Number:
		x, err := v.Float64()
		return x, err == nil
	}
	return 0, false
}

// timeOf returns a time in milliseconds since 1970, of a number of the unit or RFC 3339 text.
func timeOf(v any, unit schemas.TimeUnit) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return unit.Millis(strconv.FormatInt(v, 10))
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return 0, false
		}
		return unit.Millis(v.String())
	case string:
		return schemas.ParseTime([]byte(v))
	}
	return 0, false
}
