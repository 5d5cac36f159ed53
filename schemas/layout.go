package schemas

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/linkedin/goavro/v2"
)

// maxFields is at least the number of fields of every schema.
const maxFields = 24

// kind is the type of a field, which decides how either encoding writes it.
type kind uint8

const (
	kindText         kind = iota // string
	kindInt                      // int: 32 bits
	kindLong                     // long: 64 bits
	kindTimestamp                // long of logical type timestamp-millis
	kindDouble                   // double
	kindNullOrDouble             // union of null and double, in this order
)

// value is one field of a record. Only the part for the field's kind is used.
type value struct {
	text    string
	number  float64
	integer int64
	present bool // the record has the field
}

func (v value) nullable() Nullable {
	if !v.present {
		return Nullable{}
	}
	return Some(v.number)
}

func (n Nullable) value() value { return value{number: n.Number, present: n.Known} }

// column is one field of a schema.
type column struct {
	name  string // in the encoded record
	field string // in the schema; differs from name after RenameRaw
	kind  kind
}

// layout is a schema that is prepared for coding: its fields in order, and the header of its data.
type layout struct {
	columns    []column
	header     [headerBytes]byte
	primitives primitives
	// before and after enclose a JSON object of the fields in JSONSchema.
	before, after string
}

// definition is the part of an .avsc file that matters here.
type definition struct {
	Type      string            `json:"type"`
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Fields    []fieldDefinition `json:"fields"`
}

type fieldDefinition struct {
	Name string `json:"name"`
	Type any    `json:"type"`
}

func newLayout(schema string) (*layout, error) {
	d, err := parse(schema)
	if err != nil {
		return nil, err
	}
	if len(d.Fields) > maxFields {
		return nil, fmt.Errorf("schema %s: %d fields, more than %d", d.Name, len(d.Fields),
			maxFields)
	}
	l := &layout{columns: make([]column, len(d.Fields))}
	for i, f := range d.Fields {
		k, _, err := kindOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("schema %s, field %s: %w", d.Name, f.Name, err)
		}
		l.columns[i] = column{name: f.Name, field: f.Name, kind: k}
	}
	codec, err := plainCodec(d)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", d.Name, err)
	}
	l.header = header(codec.Rabin)
	l.before, l.after = connectEnvelope(d, l.columns)
	l.primitives, err = newPrimitives()
	return l, err
}

func parse(schema string) (definition, error) {
	var d definition
	if err := json.Unmarshal([]byte(schema), &d); err != nil {
		return d, fmt.Errorf("schema: %w", err)
	}
	return d, nil
}

// plainCodec builds goavro's codec of the schema without its logical types. The fingerprint is that
// of the parsing canonical form, which has no logical types: the specification leaves "long" in
// their place, but goavro leaves {"type":"long"}. With them the fingerprint would differ from that
// of every other implementation.
func plainCodec(d definition) (*goavro.Codec, error) {
	d.Fields = slices.Clone(d.Fields)
	for i, f := range d.Fields {
		_, plain, err := kindOf(f.Type)
		if err != nil {
			return nil, err
		}
		d.Fields[i].Type = plain
	}
	plain, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return goavro.NewCodec(string(plain))
}

// kindOf returns the kind of a field's type, and the type without its logical type.
func kindOf(t any) (k kind, plain any, err error) {
	switch t := t.(type) {
	case string:
		switch t {
		case "string":
			return kindText, t, nil
		case "int":
			return kindInt, t, nil
		case "long":
			return kindLong, t, nil
		case "double":
			return kindDouble, t, nil
		}
	case map[string]any:
		if t["type"] == "long" && t["logicalType"] == "timestamp-millis" {
			return kindTimestamp, "long", nil
		}
	case []any:
		if len(t) == 2 && t[0] == "null" && t[1] == "double" {
			return kindNullOrDouble, t, nil
		}
	}
	return 0, nil, fmt.Errorf("type %v is not supported", t)
}

// connectEnvelope returns what stands before and after the payload of a record in JSONSchema: the
// envelope of Kafka Connect's JsonConverter, with the schema as Connect writes it.
func connectEnvelope(d definition, columns []column) (before, after string) {
	var b strings.Builder
	fmt.Fprintf(&b, `{"schema":{"type":"struct","name":"%s.%s","optional":false,"fields":[`,
		d.Namespace, d.Name)
	for i, c := range columns {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"field":"%s",%s}`, c.name, c.kind.connectType())
	}
	b.WriteString(`]},"payload":`)
	return b.String(), "}"
}

// connectType is the type of a field in a schema of Kafka Connect.
func (k kind) connectType() string {
	switch k {
	case kindText:
		return `"type":"string","optional":false`
	case kindInt:
		return `"type":"int32","optional":false`
	case kindTimestamp:
		return `"type":"int64","optional":false,` +
			`"name":"org.apache.kafka.connect.data.Timestamp","version":1`
	case kindDouble:
		return `"type":"double","optional":false`
	case kindNullOrDouble:
		return `"type":"double","optional":true`
	default: // kindLong
		return `"type":"int64","optional":false`
	}
}

// headerBytes is the length of a single-object header: C3 01 and a fingerprint.
const headerBytes = 10

func header(fingerprint uint64) (h [headerBytes]byte) {
	h[0], h[1] = 0xC3, 0x01
	binary.LittleEndian.PutUint64(h[2:], fingerprint)
	return h
}

// primitives holds goavro's codecs of the primitive types. The encoding of a record is that of its
// fields, one after the other. So to code the fields one by one gives goavro's bytes without
// goavro's map[string]any for every record; a test compares the two. To decode a primitive never
// allocates more than the length of the input, whatever the input says, and does not panic.
type primitives struct {
	long, double, bytes *goavro.Codec // bytes also decodes strings, without a copy
}

func newPrimitives() (p primitives, err error) {
	for _, t := range []struct {
		name string
		into **goavro.Codec
	}{{`"long"`, &p.long}, {`"double"`, &p.double}, {`"bytes"`, &p.bytes}} {
		if *t.into, err = goavro.NewCodec(t.name); err != nil {
			return p, err
		}
	}
	return p, nil
}
