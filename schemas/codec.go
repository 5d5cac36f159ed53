package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Some columns of sanitized records.
const (
	ellipseColumn = 5 // the first of three
	kindColumn    = 8
	epsilonColumn = 9
	releaseColumn = 15 // the first of two
)

// Codec encodes and decodes records in one encoding. It keeps scratch space, so use one for each
// goroutine.
type Codec struct {
	encoding   Encoding
	ids        IDs
	framed     Framed // nil: no registry
	raw        *layout
	sanitized  *layout
	deadLetter *layout
	counts     *layout
	row        [maxFields]value
}

// NewCodec returns a codec of the encoding. It parses the schemas, which takes some hundred
// microseconds: make one codec, and not one for each record.
func NewCodec(encoding Encoding) (*Codec, error) {
	if err := encoding.Validate(); err != nil && encoding != JSONText {
		return nil, err
	}
	c := &Codec{encoding: encoding}
	for _, s := range []struct {
		schema string
		into   **layout
	}{
		{rawSchema, &c.raw},
		{sanitizedSchema, &c.sanitized},
		{deadLetterSchema, &c.deadLetter},
		{countsSchema, &c.counts},
	} {
		l, err := newLayout(s.schema)
		if err != nil {
			return nil, err
		}
		*s.into = l
	}
	return c, nil
}

// UseIDs makes the codec write these numbers before records in AvroRegistry. Without it they are 0,
// which no registry gives.
func (c *Codec) UseIDs(ids IDs) { c.ids = ids }

// UseRegistry makes DecodeRaw pass values in the framings of registries on, if the encoding is
// Auto. Without it they are refused with ReasonUnknownSchema.
func (c *Codec) UseRegistry(f Framed) { c.framed = f }

// RenameRaw returns a JSON codec like c whose raw records have other names for some fields. The map
// gives the name in the JSON object for fields of the schema. It is for data that other programs
// have written. RenameRaw refuses an encoding whose records hold no names, a field that the schema
// does not have, and two fields with one name.
func (c *Codec) RenameRaw(names map[string]string) (*Codec, error) {
	if c.encoding != JSON {
		return nil, fmt.Errorf("schemas: records in %s have no field names", c.encoding)
	}
	raw := *c.raw
	raw.columns = slices.Clone(raw.columns)
	found, seen := 0, map[string]bool{}
	for i := range raw.columns {
		column := &raw.columns[i]
		if name, ok := names[column.name]; ok {
			column.name = name
			found++
		}
		if seen[column.name] || column.name == "" {
			return nil, errors.New("schemas: two fields have one name")
		}
		seen[column.name] = true
	}
	if found != len(names) {
		return nil, errors.New("schemas: there is no such field to rename")
	}
	renamed := *c
	renamed.raw = &raw
	return &renamed, nil
}

// DecodeRaw reads one raw record. The result has passed Validate and shares no
// memory with data. Its only errors are *Rejection, unless it asks a registry (UseRegistry).
func (c *Codec) DecodeRaw(data []byte) (Raw, error) {
	if c.encoding == Auto && FramingOf(data).OfRegistry() && len(data) <= MaxRecordBytes {
		if c.framed == nil {
			return Raw{}, reject(ReasonUnknownSchema)
		}
		return c.framed.Raw(data)
	}
	row, err := c.decode(c.raw, c.row[:], data)
	if err != nil {
		return Raw{}, err
	}
	return rawOf(row)
}

// DecodeRawBody reads a raw record in Avro's binary encoding, by raw.avsc and without a header. Its
// only errors are *Rejection.
func (c *Codec) DecodeRawBody(body []byte) (Raw, error) {
	row := c.row[:len(c.raw.columns)]
	clear(row)
	if reason := c.raw.decodeBody(row, body); reason != "" {
		return Raw{}, reject(reason)
	}
	return rawOf(row)
}

// rawOf returns the record of a row, if Validate accepts it.
func rawOf(row []value) (Raw, error) {
	r := Raw{
		UserID: row[0].text, Timestamp: row[1].integer,
		Latitude: row[2].number, Longitude: row[3].number,
	}
	if row[4].present {
		accuracy := row[4].number
		r.AccuracyM = &accuracy
	}
	if err := r.Validate(); err != nil {
		return Raw{}, err
	}
	return r, nil
}

// AppendRaw appends the encoding of r to dst. If Validate refuses r, it returns dst and the
// *Rejection.
func (c *Codec) AppendRaw(dst []byte, r Raw) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return dst, err
	}
	row := c.row[:len(c.raw.columns)]
	row[0] = value{text: r.UserID, present: true}
	row[1] = value{integer: r.Timestamp, present: true}
	row[2] = value{number: r.Latitude, present: true}
	row[3] = value{number: r.Longitude, present: true}
	row[4] = value{}
	if r.AccuracyM != nil {
		row[4] = value{number: *r.AccuracyM, present: true}
	}
	return c.append(c.raw, dst, row)
}

// DecodeSanitized reads one sanitized record, in whichever encoding it is: its first bytes tell.
// Its only errors are *Rejection. It keeps a kind that this version does not know.
func (c *Codec) DecodeSanitized(data []byte) (Sanitized, error) {
	row, err := c.decode(c.sanitized, c.row[:], data)
	if err != nil {
		return Sanitized{}, err
	}
	s := Sanitized{
		UserID: row[0].text, Timestamp: row[1].integer,
		Latitude: row[2].number, Longitude: row[3].number, RadiusM: row[4].number,
		SigmaMajorM: row[ellipseColumn].nullable(), SigmaMinorM: row[ellipseColumn+1].nullable(),
		AzimuthDeg: row[ellipseColumn+2].nullable(),
		Kind:       row[kindColumn].text, Epsilon: row[epsilonColumn].number,
		Delta: row[10].number, Mechanism: row[11].text, ModelID: row[12].text,
		Step: row[13].integer, Release: row[14].integer,
		ReleaseLatitude:  row[releaseColumn].nullable(),
		ReleaseLongitude: row[releaseColumn+1].nullable(),
	}
	if reason, ok := s.check(); !ok {
		return Sanitized{}, reject(reason)
	}
	return s, nil
}

// AppendSanitized appends the encoding of s to dst. An invalid user id, a number that is not
// finite, and half an ellipse or release are errors, but not *Rejection: they come from a bug in
// this program, and not from anybody's data.
func (c *Codec) AppendSanitized(dst []byte, s Sanitized) ([]byte, error) {
	row, err := c.sanitizedRow(s)
	if err != nil {
		return dst, err
	}
	return c.append(c.sanitized, dst, row)
}

// sanitizedRow checks a record and returns it as a row, which is valid until the next call.
func (c *Codec) sanitizedRow(s Sanitized) ([]value, error) {
	if reason, ok := s.check(); !ok {
		return nil, fmt.Errorf("encode sanitized record: %s", reason)
	}
	row := c.row[:len(c.sanitized.columns)]
	for i, x := range [...]value{
		{text: s.UserID},
		{integer: s.Timestamp},
		{number: s.Latitude},
		{number: s.Longitude},
		{number: s.RadiusM},
		s.SigmaMajorM.value(),
		s.SigmaMinorM.value(),
		s.AzimuthDeg.value(),
		{text: s.Kind},
		{number: s.Epsilon},
		{number: s.Delta},
		{text: s.Mechanism},
		{text: s.ModelID},
		{integer: s.Step},
		{integer: s.Release},
		s.ReleaseLatitude.value(),
		s.ReleaseLongitude.value(),
	} {
		row[i] = x
		if c.sanitized.columns[i].kind != kindNullOrDouble {
			row[i].present = true
		}
	}
	return row, nil
}

// DecodeDeadLetter reads one dead letter in whichever encoding it is. Its only errors are
// *Rejection. It keeps a reason that this version does not know.
func (c *Codec) DecodeDeadLetter(data []byte) (DeadLetter, error) {
	row, err := c.decode(c.deadLetter, c.row[:], data)
	if err != nil {
		return DeadLetter{}, err
	}
	return DeadLetter{
		Topic: row[0].text, Partition: int32(row[1].integer), Offset: row[2].integer,
		Reason: Reason(row[3].text), Timestamp: row[4].integer,
	}, nil
}

// AppendDeadLetter appends the encoding of d to dst.
func (c *Codec) AppendDeadLetter(dst []byte, d DeadLetter) ([]byte, error) {
	row := c.row[:len(c.deadLetter.columns)]
	row[0] = value{text: d.Topic, present: true}
	row[1] = value{integer: int64(d.Partition), present: true}
	row[2] = value{integer: d.Offset, present: true}
	row[3] = value{text: string(d.Reason), present: true}
	row[4] = value{integer: d.Timestamp, present: true}
	return c.append(c.deadLetter, dst, row)
}

// DecodeCounts reads one record of counts in whichever encoding it is. Its only errors are
// *Rejection.
func (c *Codec) DecodeCounts(data []byte) (Counts, error) {
	row, err := c.decode(c.counts, c.row[:], data)
	if err != nil {
		return Counts{}, err
	}
	n := Counts{
		WindowStart: row[0].integer, WindowEnd: row[1].integer, Day: row[2].text,
		Zone: row[3].text, Latitude: row[4].nullable(), Longitude: row[5].nullable(),
		Vehicles: row[6].integer, Low: row[7].integer, High: row[8].integer,
		Estimate: row[9].number, Epsilon: row[10].number, PerDay: int32(row[11].integer),
		Edition: row[12].integer,
	}
	if reason, ok := n.check(); !ok {
		return Counts{}, reject(reason)
	}
	return n, nil
}

// AppendCounts appends the encoding of n to dst. A number that is not finite and half a place are
// errors, but not *Rejection: they come from a bug in this program.
func (c *Codec) AppendCounts(dst []byte, n Counts) ([]byte, error) {
	if reason, ok := n.check(); !ok {
		return dst, fmt.Errorf("encode counts: %s", reason)
	}
	row := c.row[:len(c.counts.columns)]
	for i, x := range [...]value{
		{integer: n.WindowStart},
		{integer: n.WindowEnd},
		{text: n.Day},
		{text: n.Zone},
		n.Latitude.value(),
		n.Longitude.value(),
		{integer: n.Vehicles},
		{integer: n.Low},
		{integer: n.High},
		{number: n.Estimate},
		{number: n.Epsilon},
		{integer: int64(n.PerDay)},
		{integer: n.Edition},
	} {
		row[i] = x
		if c.counts.columns[i].kind != kindNullOrDouble {
			row[i].present = true
		}
	}
	return c.append(c.counts, dst, row)
}

// decode reads data into as much of row as the layout has columns.
func (c *Codec) decode(l *layout, row []value, data []byte) ([]value, error) {
	row = row[:len(l.columns)]
	clear(row)
	reason := c.encodingOf(l, data).read(l, row, data)
	if reason != "" {
		return nil, reject(reason)
	}
	return row, nil
}

// encodingOf returns the encoding to read data in. Raw records have the codec's, because a topic
// that mixes encodings is likely a mistake; Auto allows it. What this program has written is
// known by its first bytes.
func (c *Codec) encodingOf(l *layout, data []byte) Encoding {
	if l == c.raw && (c.encoding == Avro || c.encoding == JSON) {
		return c.encoding
	}
	switch f := FramingOf(data); {
	case f == FramingJSON:
		return JSONSchema
	case f == FramingID && l != c.raw:
		return AvroRegistry
	case f == FramingUnknown && (c.encoding == JSON || c.encoding == JSONSchema):
		return JSON
	}
	return Avro
}

// read reads data of the encoding into row. It returns "" or the reason why the record is refused.
func (e Encoding) read(l *layout, row []value, data []byte) Reason {
	switch {
	case len(data) == 0:
		return ReasonEmpty
	case len(data) > MaxRecordBytes:
		return ReasonTooLarge
	}
	switch e {
	case JSON:
		return l.decodeJSON(row, data, false)
	case JSONSchema:
		return l.decodeJSON(row, data, true)
	case AvroRegistry:
		return l.decodeBody(row, data[IDHeaderBytes:])
	default:
		return l.decodeAvro(row, data)
	}
}

// append appends the encoding of row to dst.
func (c *Codec) append(l *layout, dst []byte, row []value) ([]byte, error) {
	for _, v := range row {
		if !utf8.ValidString(v.text) {
			return dst, fmt.Errorf("encode record: %s", ReasonInvalidUTF8)
		}
	}
	switch {
	case c.encoding == JSON, c.encoding == JSONText:
		return l.appendJSON(dst, row, c.encoding == JSONText), nil
	case c.encoding == JSONSchema && l != c.raw:
		return append(l.appendJSON(append(dst, l.before...), row, false), l.after...), nil
	case c.encoding == AvroRegistry && l != c.raw:
		id := c.ids.Sanitized
		switch l {
		case c.deadLetter:
			id = c.ids.DeadLetter
		case c.counts:
			id = c.ids.Counts
		}
		return l.appendBody(binary.BigEndian.AppendUint32(append(dst, magicID), id), row)
	}
	return l.appendBody(append(dst, l.header[:]...), row)
}
