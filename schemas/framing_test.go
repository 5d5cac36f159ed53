package schemas

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestFramingOf(t *testing.T) {
	for _, test := range []struct {
		value string
		want  Framing
	}{
		{"", FramingEmpty},
		{"\x00", FramingUnknown},
		{"\x00\x00\x00\x01", FramingUnknown},
		{"\x00\x00\x00\x00\x01", FramingID},
		{"\x01" + strings.Repeat("g", 15), FramingUnknown},
		{"\x01" + strings.Repeat("g", 16), FramingGUID},
		{"\x03" + strings.Repeat("g", 16), FramingUnknown},
		{"\x03" + strings.Repeat("g", 17), FramingGlue},
		{"\xC3", FramingUnknown},
		{"\xC3\x01", FramingSingle},
		{"\xC3\x02", FramingUnknown},
		{"{}", FramingJSON},
		{" \r\n\t{", FramingJSON},
		{"[1]", FramingUnknown},
		{" ", FramingUnknown},
		{"Obj\x01", FramingUnknown},
	} {
		if got := FramingOf([]byte(test.value)); got != test.want {
			t.Errorf("%q is %d, want %d", test.value, got, test.want)
		}
	}
}

// TestEveryReaderReadsEveryEncoding: whichever encoding a codec writes, all codecs read it.
func TestEveryReaderReadsEveryEncoding(t *testing.T) {
	predicted := exampleSanitized()
	predicted.ReleaseLatitude, predicted.ReleaseLongitude = Nullable{}, Nullable{}
	for _, writer := range codecs() {
		writer.UseIDs(IDs{Sanitized: 7, DeadLetter: 1 << 31})
		for _, reader := range codecs() {
			for _, want := range []Sanitized{exampleSanitized(), predicted} {
				value := must(writer.AppendSanitized(nil, want))
				if got, err := reader.DecodeSanitized(value); err != nil || got != want {
					t.Errorf("%s reads of %s %+v, %v", reader.encoding, writer.encoding, got, err)
				}
			}
			value := must(writer.AppendDeadLetter(nil, exampleDeadLetter()))
			got, err := reader.DecodeDeadLetter(value)
			if err != nil || got != exampleDeadLetter() {
				t.Errorf("%s reads of %s %+v, %v", reader.encoding, writer.encoding, got, err)
			}
			value = must(writer.AppendCounts(nil, exampleCounts()))
			counts, err := reader.DecodeCounts(value)
			if err != nil || counts != exampleCounts() {
				t.Errorf("%s reads of %s %+v, %v", reader.encoding, writer.encoding, counts, err)
			}
		}
	}
}

// TestRegistryHeader: a zero byte and the number, then the same body as in a single object.
func TestRegistryHeader(t *testing.T) {
	single, framed := must(NewCodec(Avro)), must(NewCodec(AvroRegistry))
	framed.UseIDs(IDs{Sanitized: 0x01020304, DeadLetter: 5, Counts: 6})
	for _, test := range []struct {
		name         string
		single, with []byte
		header       string
	}{
		{
			"sanitized", must(single.AppendSanitized(nil, exampleSanitized())),
			must(framed.AppendSanitized(nil, exampleSanitized())), "0001020304",
		},
		{
			"dead letter", must(single.AppendDeadLetter(nil, exampleDeadLetter())),
			must(framed.AppendDeadLetter(nil, exampleDeadLetter())), "0000000005",
		},
		{
			"counts", must(single.AppendCounts(nil, exampleCounts())),
			must(framed.AppendCounts(nil, exampleCounts())), "0000000006",
		},
	} {
		if got := hex.EncodeToString(test.with[:IDHeaderBytes]); got != test.header ||
			!bytes.Equal(test.with[IDHeaderBytes:], test.single[headerBytes:]) {
			t.Errorf("%s is %x, want %s and %x", test.name, test.with, test.header,
				test.single[headerBytes:])
		}
		plain := WithoutID(bytes.Clone(test.with))
		if !bytes.Equal(plain[:IDHeaderBytes], make([]byte, IDHeaderBytes)) ||
			!bytes.Equal(plain[IDHeaderBytes:], test.with[IDHeaderBytes:]) {
			t.Errorf("%s without its number is %x", test.name, plain)
		}
		if other := bytes.Clone(test.single); !bytes.Equal(WithoutID(other), test.single) {
			t.Errorf("%s in another framing was changed", test.name)
		}
	}
}

// TestConnectEnvelope holds the envelope to what Kafka Connect's JsonConverter wants: a schema and
// a payload and nothing else, the fields in the order of the schema.
func TestConnectEnvelope(t *testing.T) {
	c := must(NewCodec(JSONSchema))
	type connectSchema struct {
		Type, Name, Field string
		Version           int
		Optional          *bool
	}
	for _, test := range []struct {
		name, avsc string
		value      []byte
	}{
		{
			"io.github.geodither.Sanitized", sanitizedSchema,
			must(c.AppendSanitized(nil, exampleSanitized())),
		},
		{
			"io.github.geodither.DeadLetter", deadLetterSchema,
			must(c.AppendDeadLetter(nil, exampleDeadLetter())),
		},
		{
			"io.github.geodither.Counts", countsSchema,
			must(c.AppendCounts(nil, exampleCounts())),
		},
	} {
		var envelope struct {
			Schema struct {
				connectSchema
				Fields []connectSchema
			}
			Payload map[string]any
		}
		decoder := json.NewDecoder(bytes.NewReader(test.value))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&envelope); err != nil {
			t.Fatal(err)
		}
		if envelope.Schema.Type != "struct" || envelope.Schema.Name != test.name {
			t.Errorf("the schema is %+v", envelope.Schema.connectSchema)
		}
		own := must(parse(test.avsc))
		if len(own.Fields) != len(envelope.Schema.Fields) {
			t.Fatalf("%s has %d fields", test.name, len(envelope.Schema.Fields))
		}
		for i, f := range envelope.Schema.Fields {
			kind, _, err := kindOf(own.Fields[i].Type)
			if err != nil || f.Field != own.Fields[i].Name || f.Optional == nil ||
				*f.Optional != (kind == kindNullOrDouble) {
				t.Errorf("field %d of %s is %+v, %v", i, test.name, f, err)
			}
			isTime := f.Name == "org.apache.kafka.connect.data.Timestamp"
			if isTime != (kind == kindTimestamp) || isTime && f.Version != 1 {
				t.Errorf("%s.%s: %+v", test.name, f.Field, f)
			}
			if _, there := envelope.Payload[f.Field]; !there && !*f.Optional {
				t.Errorf("%s.%s is not in the payload", test.name, f.Field)
			}
		}
	}
}

// TestPayloadOf: only the envelope itself is opened.
func TestPayloadOf(t *testing.T) {
	for _, test := range []struct{ object, want string }{
		{`{"schema":{"a":[1]},"payload":{"b":"}"}}`, `{"b":"}"}`},
		{` { "payload" : {"b":1} , "schema" : null } `, `{"b":1}`},
		{`{"schema":{},"payload":null}`, `null`},
		{`{"schema":{},"payload":{},"more":1}`, ""},
		{`{"payload":{}}`, ""},
		{`{"payload":{},"payload":{}}`, ""},
		{`{"schema":{},"schema":{}}`, ""},
		{`{}`, ""},
		{`[1]`, ""},
		{`7`, ""},
	} {
		if test.want == "" {
			test.want = test.object
		}
		if got := string(payloadOf([]byte(test.object))); got != test.want {
			t.Errorf("%s gives %s, want %s", test.object, got, test.want)
		}
	}
}

// framedStub is a registry that gives one answer.
type framedStub struct {
	asked [][]byte
	err   error
}

func (f *framedStub) Raw(value []byte) (Raw, error) {
	f.asked = append(f.asked, value)
	return exampleRaw(), f.err
}

// TestAuto: a codec with Auto takes raw records in both encodings, and passes on what a registry
// has the schema of. The other encodings are as strict as before.
func TestAuto(t *testing.T) {
	avro, text := must(NewCodec(Avro)), must(NewCodec(JSON))
	values := map[string][]byte{
		"avro": must(avro.AppendRaw(nil, exampleRaw())),
		"json": must(text.AppendRaw(nil, exampleRaw())),
		"id":   append([]byte{0, 0, 0, 0, 9}, "body"...),
		"guid": append([]byte{1}, "sixteen bytes 16"...),
		"glue": append([]byte{3, 0}, "sixteen bytes 16"...),
	}
	for _, test := range []struct {
		encoding Encoding
		registry bool
		want     map[string]Reason // what is not there is accepted
	}{
		{Auto, true, nil},
		{Auto, false, map[string]Reason{
			"id": ReasonUnknownSchema, "guid": ReasonUnknownSchema, "glue": ReasonUnknownSchema,
		}},
		{Avro, true, map[string]Reason{
			"json": ReasonMalformed, "id": ReasonMalformed, "guid": ReasonMalformed,
			"glue": ReasonMalformed,
		}},
		{JSON, true, map[string]Reason{
			"avro": ReasonInvalidUTF8, "id": ReasonMalformed, "guid": ReasonMalformed,
			"glue": ReasonMalformed,
		}},
	} {
		for name, value := range values {
			c, stub := must(NewCodec(test.encoding)), &framedStub{}
			if test.registry {
				c.UseRegistry(stub)
			}
			_, err := c.DecodeRaw(value)
			if got := reasonOf(t, err); got != test.want[name] {
				t.Errorf("%s, %s: %q, want %q", test.encoding, name, got, test.want[name])
			}
			framed := name == "id" || name == "guid" || name == "glue"
			if asked := len(stub.asked) > 0; asked != (framed && test.encoding == Auto &&
				test.registry) {
				t.Errorf("%s, %s: the registry was asked: %t", test.encoding, name, asked)
			}
		}
	}
	c := must(NewCodec(Auto))
	away := errors.New("away")
	c.UseRegistry(&framedStub{err: away})
	if _, err := c.DecodeRaw(values["id"]); !errors.Is(err, away) {
		t.Errorf("the registry's error became %v", err)
	}
	if _, err := c.DecodeRaw(append(values["id"], make([]byte, MaxRecordBytes)...)); reasonOf(t,
		err) != ReasonTooLarge {
		t.Errorf("too large a value: %v", err)
	}
}

// TestDecodeRawBody: a body is what follows the header.
func TestDecodeRawBody(t *testing.T) {
	c := must(NewCodec(Avro))
	body := must(c.AppendRaw(nil, exampleRaw()))[headerBytes:]
	got, err := c.DecodeRawBody(body)
	if err != nil || got.UserID != exampleRaw().UserID || got.Latitude != exampleRaw().Latitude {
		t.Errorf("the body was not read: %v", err)
	}
	for _, bad := range [][]byte{nil, body[1:], append(body, 0)} {
		if _, err := c.DecodeRawBody(bad); reasonOf(t, err) != ReasonMalformed {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

// FuzzDecodePublished: whatever the bytes are, every codec reads the same of them, and what is read
// is the same in all encodings.
func FuzzDecodePublished(f *testing.F) {
	seed(f)
	for _, c := range codecs() {
		c.UseIDs(IDs{Sanitized: 3, DeadLetter: 4})
		f.Add(must(c.AppendSanitized(nil, exampleSanitized())))
		f.Add(must(c.AppendDeadLetter(nil, exampleDeadLetter())))
	}
	all := codecs()
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := all[0].DecodeSanitized(data)
		letter, letterErr := all[0].DecodeDeadLetter(data)
		for _, c := range all[1:] {
			again, errAgain := c.DecodeSanitized(data)
			if again != first || (err == nil) != (errAgain == nil) {
				t.Errorf("%s reads %q as %+v, %v", c.encoding, data, again, errAgain)
			}
			if err == nil {
				written := must(c.AppendSanitized(nil, first))
				if got := must(all[0].DecodeSanitized(written)); got != first {
					t.Errorf("%s writes %+v as %q", c.encoding, first, written)
				}
			}
			if other, e := c.DecodeDeadLetter(data); other != letter ||
				(e == nil) != (letterErr == nil) {
				t.Errorf("%s reads the letter %q as %+v, %v", c.encoding, data, other, e)
			}
		}
	})
}
