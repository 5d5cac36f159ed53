package registry

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/geodither/geodither/schemas"
)

// foreign is a schema of somebody else: our names, in another order, nullable, with more around.
const foreign = `{"type":"record","name":"Position","namespace":"com.example","fields":[
	{"name":"speed","type":"float"},
	{"name":"timestamp","default":null,
		"type":["null",{"type":"long","logicalType":"timestamp-%s"}]},
	{"name":"longitude","type":["null","double"]},
	{"name":"latitude","type":["double","null"]},
	{"name":"tags","type":{"type":"map","values":"string"}},
	{"name":"accuracy_m","type":["null","int"]},
	{"name":"user_id","type":["null","string"]},
	{"name":"engine","type":{"type":"record","name":"Engine","fields":[
		{"name":"rpm","type":"int"}]}}
]}`

func foreignRecord() map[string]any {
	return map[string]any{
		"speed": float32(1.5), "timestamp": int64(1_700_000_000_123), "longitude": -2.97919,
		"latitude": 53.40842, "tags": map[string]any{"a": "b"}, "accuracy_m": int32(7),
		"user_id": "bus-31", "engine": map[string]any{"rpm": int32(900)},
	}
}

// world is a registry with a schema of id 1, and a reader.
type world struct {
	*testing.T
	fake   *srfake.Registry
	reader *Reader
	schema *avro.Schema
}

func newWorld(t *testing.T, schema string) *world {
	t.Helper()
	f, c := fake(t)
	f.SeedSchema("raw-value", 1, 1, sr.Schema{Schema: schema})
	r, err := NewReader(c)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := plain(schema)
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, fake: f, reader: r, schema: avro.MustParse(text)}
}

func (w *world) body(record map[string]any) []byte {
	w.Helper()
	body, err := w.schema.Encode(record)
	if err != nil {
		w.Fatal(err)
	}
	return body
}

// TestForeignSchema reads records of somebody else's schema with our names, without a mapping.
func TestForeignSchema(t *testing.T) {
	for unit, n := range map[string]int64{"millis": 1, "micros": 1000, "nanos": 1_000_000} {
		w := newWorld(t, fmt.Sprintf(foreign, unit))
		record := foreignRecord()
		record["timestamp"] = int64(1_700_000_000_123)*n + n - 1
		fix, err := w.reader.Raw(framed(1, w.body(record)))
		if err != nil || fix.UserID != "bus-31" || fix.Timestamp != 1_700_000_000_123 ||
			fix.Latitude != 53.40842 || fix.Longitude != -2.97919 || *fix.AccuracyM != 7 {
			t.Errorf("%s: a fix of user %q at %d, %v", unit, fix.UserID, fix.Timestamp, err)
		}
	}
}

// TestLocalTimestamps: a time without a zone is none, in a record with our names and in a tree,
// where it is a text that no unit reads.
func TestLocalTimestamps(t *testing.T) {
	for unit, n := range map[string]int64{"millis": 1, "micros": 1000, "nanos": 1_000_000} {
		local := strings.Replace(fmt.Sprintf(foreign, unit), "timestamp-"+unit,
			"local-timestamp-"+unit, 1)
		own := strings.Replace(schemas.RawSchema(), "timestamp-millis", "local-timestamp-"+unit, 1)
		for _, schema := range []string{local, own} {
			w := newWorld(t, schema)
			record := foreignRecord()
			record["timestamp"] = 1_700_000_000_123 * n
			value := framed(1, w.body(record))
			_, err := w.reader.Raw(value)
			if reasonOf(err) != schemas.ReasonWrongType.At("timestamp") {
				t.Errorf("%s: %v", unit, err)
			}
			tree, err := w.reader.client.Tree(t.Context(), value, nil)
			if at := tree.(map[string]any)["timestamp"]; err != nil ||
				at != "2023-11-14T22:13:20.123" {
				t.Errorf("%s: %v in the tree, %v", unit, at, err)
			}
		}
	}
}

// TestDecimals: a decimal is the number that its schema says, and bytes where Avro defines none.
func TestDecimals(t *testing.T) {
	for properties, want := range map[string]any{
		`"precision":9,"scale":5`: json.Number("-1.3056"), `"precision":9`: json.Number("-130560"),
		`"scale":5`: []byte{0xfe, 2, 0}, `"precision":2,"scale":5`: []byte{0xfe, 2, 0},
	} {
		w := newWorld(
			t,
			`{"type":"record","name":"R","fields":[{"name":"d","type":{"type":"bytes",`+
				`"logicalType":"decimal",`+properties+`}}]}`,
		)
		body := append([]byte{6}, 0xfe, 2, 0)
		tree, err := w.reader.client.Tree(t.Context(), framed(1, body), nil)
		if err != nil || !reflect.DeepEqual(tree.(map[string]any)["d"], want) {
			t.Errorf("%s: %v, %v, want %v", properties, tree, err, want)
		}
	}
}

// TestForeignRecords: what is wrong with a record is told as with one of raw.avsc.
func TestForeignRecords(t *testing.T) {
	w := newWorld(t, fmt.Sprintf(foreign, "millis"))
	for _, test := range []struct {
		field string
		value any
		want  schemas.Reason
	}{
		{"accuracy_m", nil, ""},
		{"user_id", nil, schemas.ReasonMissingField.At("user_id")},
		{"timestamp", nil, schemas.ReasonMissingField.At("timestamp")},
		{"latitude", nil, schemas.ReasonMissingField.At("latitude")},
		{"longitude", nil, schemas.ReasonMissingField.At("longitude")},
		{"user_id", "", schemas.ReasonUserMissing},
		{"latitude", math.NaN(), schemas.ReasonNotFinite},
		{"latitude", 91.0, schemas.ReasonLatitudeOutOfRange},
		{"timestamp", int64(-1), schemas.ReasonBefore1970},
		{"accuracy_m", int32(-1), schemas.ReasonAccuracyNegative},
	} {
		record := foreignRecord()
		record[test.field] = test.value
		fix, err := w.reader.Raw(framed(1, w.body(record)))
		if reasonOf(err) != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%s %v: %v, want %q", test.field, test.value, err, test.want)
		}
		if err != nil && fix != (schemas.Raw{}) {
			t.Errorf("%s: a refused record came with data", test.field)
		}
	}
	body := w.body(foreignRecord())
	for name, bad := range map[string][]byte{"short": body[:len(body)-1], "long": append(body, 0)} {
		if _, err := w.reader.Raw(framed(1, bad)); reasonOf(err) != schemas.ReasonMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForeignTypes: fields of our names, but of other types.
func TestForeignTypes(t *testing.T) {
	record := func(user, time, latitude string) string {
		return `{"type":"record","name":"R","fields":[{"name":"user_id","type":` + user +
			`},{"name":"timestamp","type":` + time + `},{"name":"latitude","type":` + latitude +
			`},{"name":"longitude","type":"float"}]}`
	}
	for _, test := range []struct {
		schema string
		value  map[string]any
		want   schemas.Reason
	}{
		{
			record(`"string"`, `"string"`, `"int"`), map[string]any{
				"user_id": "u", "timestamp": "2023-11-14T22:13:20.5+00:00", "latitude": 53,
				"longitude": float32(-2.5),
			}, "",
		},
		{record(`"string"`, `"string"`, `"int"`), map[string]any{
			"user_id": "u", "timestamp": "yesterday", "latitude": 53, "longitude": float32(-2.5),
		}, schemas.ReasonWrongType.At("timestamp")},
		{record(`"long"`, `"long"`, `"int"`), map[string]any{
			"user_id": 7, "timestamp": 1, "latitude": 53, "longitude": float32(-2.5),
		}, schemas.ReasonWrongType.At("user_id")},
		{record(`"string"`, `"long"`, `"string"`), map[string]any{
			"user_id": "u", "timestamp": 1, "latitude": "53", "longitude": float32(-2.5),
		}, schemas.ReasonWrongType.At("latitude")},
	} {
		w := newWorld(t, test.schema)
		fix, err := w.reader.Raw(framed(1, w.body(test.value)))
		if reasonOf(err) != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%v: %v, want %q", test.value, err, test.want)
		}
		if test.want == "" && (fix.Timestamp != 1_700_000_000_500 || fix.Latitude != 53 ||
			fix.Longitude != -2.5) {
			t.Errorf("%v was read as a fix at %d", test.value, fix.Timestamp)
		}
	}
}

// TestOwnSchema: a record by raw.avsc is decoded as strictly as one in the single-object encoding.
func TestOwnSchema(t *testing.T) {
	w := newWorld(t, schemas.RawSchema())
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	single, err := codec.AppendRaw(nil, schemas.Raw{UserID: "u", Timestamp: 5, Latitude: 1})
	if err != nil {
		t.Fatal(err)
	}
	const header = 10
	body := single[header:]
	fix, err := w.reader.Raw(framed(1, body))
	if err != nil || fix.UserID != "u" || fix.Timestamp != 5 || fix.Latitude != 1 {
		t.Errorf("a fix of %q, %v", fix.UserID, err)
	}
	long := append([]byte{0x82, 0x00}, body[1:]...) // a length in two bytes where one is enough
	if _, err := w.reader.Raw(framed(1, long)); reasonOf(err) != schemas.ReasonMalformed {
		t.Errorf("a second encoding of a record: %v", err)
	}
}

// TestTree: all framings give the same tree.
func TestTree(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"i","type":"int"},
		{"name":"f","type":"float"},{"name":"t","type":{"type":"long","logicalType":
		"timestamp-micros"}},{"name":"n","type":["null","string"]},
		{"name":"a","type":{"type":"array","items":"int"}},
		{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":4}},
		{"name":"b","type":"boolean"}]}`
	w := newWorld(t, schema)
	body := w.body(map[string]any{
		"i": 7, "f": float32(.5), "t": int64(123456), "n": nil, "a": []any{1, 2},
		"d": []byte{1, 2}, "b": true,
	})
	want := map[string]any{
		"i": int64(7), "f": .5, "t": int64(123456), "n": nil, "a": []any{int64(1), int64(2)},
		"d": json.Number("258"), "b": true,
	}
	w.fake.SeedSchema("j", 1, 2, sr.Schema{Schema: `{}`, Type: sr.TypeJSON})
	for name, value := range map[string][]byte{"id": framed(1, body), "json": framed(2, []byte(
		`{"i":7,"f":0.5,"t":123456,"n":null,"a":[1,2],"b":true}`))} {
		got, err := w.reader.client.Tree(t.Context(), value, nil)
		if name == "json" { // it has no bytes, and its numbers are texts
			if fmt.Sprint(got) != "map[a:[1 2] b:true f:0.5 i:7 n:<nil> t:123456]" || err != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", name, got, err)
		}
	}
}

// TestRefusedValues: what no registry and no patience can turn into a record.
func TestRefusedValues(t *testing.T) {
	w := newWorld(t, schemas.RawSchema())
	w.fake.SeedSchema("p", 1, 2, sr.Schema{
		Schema: `syntax = "proto3"; message M {}`,
		Type:   sr.TypeProtobuf,
	})
	guid := append([]byte{1}, make([]byte, 16)...)
	for _, test := range []struct {
		name         string
		value, named []byte
		want         schemas.Reason
	}{
		{"nothing", nil, nil, schemas.ReasonMalformed},
		{"too much", make([]byte, schemas.MaxTreeBytes+1), nil, schemas.ReasonTooLarge},
		{"text", []byte("latitude 5"), nil, schemas.ReasonMalformed},
		{"half a header", []byte{0, 0, 0, 0}, nil, schemas.ReasonMalformed},
		{"Protobuf", framed(2, []byte("x")), nil, schemas.ReasonUnknownSchema},
		{"Glue", append([]byte{3, 0}, make([]byte, 16)...), nil, schemas.ReasonUnknownSchema},
		{"JSON without a header", []byte(`{}`), nil, schemas.ReasonMalformed},
		{"another object", []byte("\xC3\x01 1234567"), nil, schemas.ReasonUnknownSchema},
		{"an unknown id", framed(77, nil), nil, schemas.ReasonUnknownSchemaID},
		{"half a header beside it", []byte("x"), guid[:5], schemas.ReasonMalformed},
		{"more than a header beside it", []byte("x"), append(guid, 1), schemas.ReasonMalformed},
	} {
		_, err := w.reader.client.Tree(t.Context(), test.value, test.named)
		if reasonOf(err) != test.want {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	none, err := NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Raw(framed(1, nil)); reasonOf(err) != schemas.ReasonUnknownSchema {
		t.Errorf("without a registry: %v", err)
	}
}

// TestHeader: a header of the Kafka record can name the schema in place of the value.
func TestHeader(t *testing.T) {
	w := newWorld(t, fmt.Sprintf(foreign, "millis"))
	body := w.body(foreignRecord())
	fix, err := w.reader.RawNamed(t.Context(), body, framed(1, nil))
	if err != nil || fix.UserID != "bus-31" {
		t.Errorf("a fix of %q, %v", fix.UserID, err)
	}
	tree, err := w.reader.client.Tree(t.Context(), body, framed(1, nil))
	if record, ok := tree.(map[string]any); err != nil || !ok || record["user_id"] != "bus-31" {
		t.Errorf("a tree %v, %v", tree, err)
	}
}

// TestImpossibleIDs: a number that no registry gives is refused without a question, since some
// registries answer it as if the question were wrong.
func TestImpossibleIDs(t *testing.T) {
	url, asked := answering(t, 422, `{"error_code":42201,"message":"bad id"}`)
	c := clientOf(t, Options{URL: url})
	for _, id := range []uint32{0, 1 << 31, 1<<32 - 1} {
		for name, named := range map[string][]byte{"value": nil, "header": framed(id, nil)} {
			value := framed(id, []byte("body"))
			_, err := c.Tree(t.Context(), value, named)
			if reasonOf(err) != schemas.ReasonUnknownSchemaID || asked.Load() > 0 {
				t.Errorf("%d in the %s: %v after %d questions", id, name, err, asked.Load())
			}
		}
	}
	if _, err := c.Tree(t.Context(), framed(1<<31-1, nil), nil); isRejection(err) ||
		asked.Load() != 1 {
		t.Errorf("the largest number: %v after %d questions", err, asked.Load())
	}
}

// TestDeletedReference: a schema that is made of one that was deleted is of no use, for good.
func TestDeletedReference(t *testing.T) {
	f, c := fake(t)
	f.SeedSchema("place", 1, 1, sr.Schema{
		Schema: `{"type":"record","name":"Place","fields":[]}`,
	})
	f.SeedSchema("raw", 1, 2, sr.Schema{
		Schema:     `{"type":"record","name":"R","fields":[{"name":"place","type":"Place"}]}`,
		References: []sr.SchemaReference{{Name: "Place", Subject: "place", Version: 1}},
	})
	f.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/subjects/place/") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40402,"message":"Version 1 not found."}`))
		return true
	})
	if _, err := c.Tree(t.Context(), framed(2, nil), nil); reasonOf(err) !=
		schemas.ReasonUnknownSchema {
		t.Errorf("a schema without a part of it: %v", err)
	}
}

// TestReferences: a schema may be made of others.
func TestReferences(t *testing.T) {
	f, c := fake(t)
	f.SeedSchema("place", 1, 1, sr.Schema{Schema: `{"type":"record","name":"Place","fields":[
		{"name":"latitude","type":"double"}]}`})
	f.SeedSchema("raw", 1, 2, sr.Schema{
		Schema: `{"type":"record","name":"R","fields":[
			{"name":"user_id","type":"string"},{"name":"place","type":"Place"}]}`,
		References: []sr.SchemaReference{{Name: "Place", Subject: "place", Version: 1}},
	})
	r, err := NewReader(c)
	if err != nil {
		t.Fatal(err)
	}
	value := framed(2, append([]byte{2, 'u'}, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f))
	got, err := r.client.Tree(t.Context(), value, nil)
	if want := (map[string]any{
		"user_id": "u", "place": map[string]any{"latitude": 1.0},
	}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, err)
	}
}

// FuzzReader: whatever the bytes are, they are refused with a reason or give a sound record, and
// no schema is asked for twice.
func FuzzReader(f *testing.F) {
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("own", 1, 1, sr.Schema{Schema: schemas.RawSchema()})
	registry.SeedSchema("foreign", 1, 2, sr.Schema{Schema: fmt.Sprintf(foreign, "micros")})
	registry.SeedSchema("json", 1, 3, sr.Schema{Schema: `{}`, Type: sr.TypeJSON})
	r, err := NewReader(clientOf(f, Options{URL: registry.URL()}))
	if err != nil {
		f.Fatal(err)
	}
	text, _, err := plain(fmt.Sprintf(foreign, "micros"))
	if err != nil {
		f.Fatal(err)
	}
	body, err := avro.MustParse(text).Encode(foreignRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(framed(2, body), []byte(nil))
	f.Add(body, framed(2, nil))
	f.Add(framed(3, []byte(`{"user_id":"u","timestamp":1,"latitude":1,"longitude":2}`)),
		[]byte(nil))
	f.Add(framed(1, []byte("\x02u\x02\x00\x00")), []byte(nil))
	f.Add([]byte(`{"schema":{},"payload":{}}`), []byte(nil))
	f.Fuzz(func(t *testing.T, value, named []byte) {
		if len(named) == 0 {
			named = nil
		}
		for _, b := range [][]byte{value, named} { // of few schemas, so that few are asked for
			if len(b) >= 5 && b[0] == 0 {
				b[1], b[2], b[3] = 0, 0, 0
			} else if len(b) >= 17 && b[0] == 1 {
				clear(b[1:17])
			}
		}
		_, treeErr := r.client.Tree(t.Context(), value, named)
		fix, err := r.RawNamed(t.Context(), value, named)
		if err == nil && fix.Validate() != nil {
			t.Errorf("%x gives a fix that is not valid", value)
		}
		if err == nil && treeErr != nil && len(value) <= schemas.MaxTreeBytes {
			t.Errorf("%x is a fix, but no tree: %v", value, treeErr)
		}
		if err != nil && !isRejection(err) && !IsAway(err) {
			if e, ok := err.(*Error); !ok || e.Status != 404 { //nolint:errorlint // as it is
				t.Errorf("%x: %v", value, err)
			}
		}
	})
}
