package registry

import (
	"context"
	"time"

	"github.com/geodither/geodither/schemas"
)

// SchemaHeader is the header of a Kafka record that names the schema of its value, where the
// serializer writes it there and not before the value (Confluent's clients, version 8 and later).
const SchemaHeader = "__value_schema_id"

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
// has to, once; Know before it makes that unlikely.
func (r *Reader) Raw(value []byte) (schemas.Raw, error) {
	return r.RawNamed(context.Background(), value, nil)
}

// RawNamed is Raw of a value whose schema a header names (SchemaHeader); nil: the value does.
func (r *Reader) RawNamed(
	ctx context.Context, value, named []byte,
) (schemas.Raw, error) {
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

// Tree decodes a value of any framing into map[string]any, []any, string, int64, float64, bool,
// []byte and nil. Logical types of Avro are not looked at: a timestamp-micros is an int64 of
// microseconds, a decimal is bytes. A value in the single-object encoding has to be by raw.avsc.
// named is the value of the header SchemaHeader, or nil. The errors are a *schemas.Rejection for a
// value that will never be a record, and others where the registry could not be asked.
func (r *Reader) Tree(ctx context.Context, value, named []byte) (any, error) {
	switch {
	case len(value) == 0:
		return nil, reject(schemas.ReasonEmpty)
	case len(value) > schemas.MaxRecordBytes:
		return nil, reject(schemas.ReasonTooLarge)
	case named == nil && schemas.FramingOf(value) == schemas.FramingJSON:
		return treeOfJSON(value)
	case named == nil && schemas.FramingOf(value) == schemas.FramingSingle:
		fix, err := r.codec.DecodeRaw(value)
		return treeOf(fix), err
	}
	w, body, err := r.client.writerOf(ctx, value, named)
	if err != nil {
		return nil, err
	}
	return w.tree(body)
}

// treeOf returns the tree of a record by raw.avsc.
func treeOf(fix schemas.Raw) any {
	tree := map[string]any{
		"user_id": fix.UserID, "timestamp": fix.Timestamp, "latitude": fix.Latitude,
		"longitude": fix.Longitude, "accuracy_m": nil,
	}
	if fix.AccuracyM != nil {
		tree["accuracy_m"] = *fix.AccuracyM
	}
	return tree
}

// rawOf finds the fields of a raw record in a tree.
func rawOf(tree any, u unit) (fix schemas.Raw, err error) {
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
		{"timestamp", func(v any) (ok bool) { fix.Timestamp, ok = u.time(v); return ok }},
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
	return fix, nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	}
	return 0, false
}

// time returns a time in milliseconds since 1970, of a number of the unit or RFC 3339 text.
func (u unit) time(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return u.milliseconds(v), true
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		return t.UnixMilli(), err == nil
	}
	return 0, false
}
