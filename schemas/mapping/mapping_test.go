package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

// headers are those of a record in a test.
type headers map[string]string

func (h headers) Last(name string) ([]byte, bool) {
	value, ok := h[name]
	return []byte(value), ok
}

func TestHeadersAndKafkaTime(t *testing.T) {
	o := Options{
		User: User{From: "header:vin"}, Latitude: "lat", Longitude: "lon",
		Timestamp: Time{From: FromKafka},
	}
	r := reader(t, o)
	value := []byte(`{"lat": 53.5, "lon": -2.5}`)
	for _, c := range []struct {
		record Record
		want   string
	}{
		{
			Record{
				Key: []byte("v1"), Value: value, Headers: headers{"vin": "v1"},
				Timestamp: 1795248000000,
			},
			"v1 2026-11-21T08:00:00Z 53.5 -2.5\n",
		},
		{
			Record{Key: []byte("v2"), Value: value, Headers: headers{"vin": "v1"}, Timestamp: 1},
			"refused: key_mismatch\n",
		},
		{
			Record{Key: []byte("v1"), Value: value, Headers: headers{}, Timestamp: 1},
			"refused: missing_field: user_id\n",
		},
		{
			Record{Key: []byte("v1"), Value: value, Timestamp: 1},
			"refused: missing_field: user_id\n",
		},
		{
			Record{Key: []byte("v1"), Value: value, Headers: headers{"vin": "v1"}, Timestamp: -1},
			"refused: missing_field: timestamp\n",
		},
	} {
		fixes, err := r.Read(c.record)
		if got := shown(r, fixes); err != nil || got != c.want {
			t.Errorf("%q (%v), want %q", got, err, c.want)
		}
	}
	o.KeyCheck = KeyCheckOff
	r = reader(t, o)
	unkeyed := Record{Value: value, Headers: headers{"vin": "v1"}, Timestamp: 1795248000000}
	fixes, err := r.Read(unkeyed)
	if err != nil || UserOf(fixes) != "v1" || fixes[0].Raw.UserID != "v1" {
		t.Errorf("without a key check: %q, %v", shown(r, fixes), err)
	}
}

// TestAvro: records of raw.avsc need no registry, others are the Decoder's, whose rejections are
// refusals and whose other errors end the reading.
func TestAvro(t *testing.T) {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	value, err := codec.AppendRaw(nil, schemas.Raw{
		UserID: "van-3", Timestamp: 1795248000000, Latitude: 53.5, Longitude: -2.5,
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "van-3 2026-11-21T08:00:00Z 53.5 -2.5\n"
	r := reader(t, Options{Format: Auto})
	fixes, err := r.Read(Record{Key: []byte("van-3"), Value: value})
	if got := shown(r, fixes); err != nil || got != want {
		t.Errorf("a record of raw.avsc: %q, %v", got, err)
	}

	away := errors.New("the registry does not answer")
	decode := func(value []byte, _ Headers) (any, error) {
		switch value[len(value)-1] {
		case 'r':
			return nil, &schemas.Rejection{Reason: schemas.ReasonMalformed}
		case 'e':
			return nil, away
		}
		return map[string]any{
			"user_id": "van-3", "timestamp": int64(1795248000000), "latitude": 53.5,
			"longitude": -2.5,
		}, nil
	}
	m, err := New(Options{
		Format: Auto, User: User{From: FromKey}, Key: KeyAvro, KeyCheck: KeyCheckOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	key := func(value []byte, _ Headers) (any, error) {
		switch value[0] {
		case 'r':
			return nil, &schemas.Rejection{Reason: schemas.ReasonMalformed}
		case 'e':
			return nil, away
		}
		return map[string]any{"id": "van-3"}, nil
	}
	if r, err = m.NewReader(Decoders{Value: decode, Key: key}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, value, want string
		err              error
	}{
		{"k", "\x00\x00\x00\x00\x07x", want, nil},
		{"k", "\x01x", want, nil},
		{"k", "\x03x", want, nil},
		{"k", "\xc3\x01x", "refused: malformed\n", nil}, // cut short: no registry helps
		{"k", "\xc3\x0112345678x", want, nil},           // a fingerprint of another schema
		{"k", "\x00\x00\x00\x00\x07r", "refused: malformed\n", nil},
		{"k", "\x00\x00\x00\x00\x07e", "", away},
		{"r", "\x00\x00\x00\x00\x07x", "refused: key_mismatch\n", nil},
		{"e", "\x00\x00\x00\x00\x07x", "", away},
	} {
		fixes, err := r.Read(Record{Key: []byte(c.key), Value: []byte(c.value)})
		if got := shown(r, fixes); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q, %q: %q, %v; want %q, %v", c.key, c.value, got, err, c.want, c.err)
		}
	}
}

func TestBounds(t *testing.T) {
	r := reader(t, Options{Preset: MDS})
	one := `{"device_id":"d","timestamp":1795248000000,"location":{"lat":1,"lng":2}}`
	batch := func(n int) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]")
	}
	deep := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	for _, c := range []struct {
		value []byte
		want  schemas.Reason
		fixes int
	}{
		{batch(MaxFixes), "", MaxFixes},
		{batch(MaxFixes + 1), schemas.ReasonTooLarge, 1},
		{[]byte(`"` + strings.Repeat("x", schemas.MaxTreeBytes) + `"`), schemas.ReasonMalformed, 1},
		{
			[]byte(`["` + strings.Repeat("x", schemas.MaxTreeBytes) + `"]`),
			schemas.ReasonTooLarge, 1,
		},
		{deep(schemas.MaxTreeDepth + 1), schemas.ReasonMalformed, 1},
		{deep(schemas.MaxTreeDepth), schemas.ReasonMissingField.At("user_id"), 1},
	} {
		if c.value[0] == '"' { // no object or array: not JSON by its first byte
			c.want = schemas.ReasonUnknownSchema
			r := reader(t, Options{Format: Auto})
			fixes, err := r.Read(Record{Value: c.value})
			if err != nil || fixes[0].Refused == nil || fixes[0].Refused.Reason != c.want {
				t.Errorf("%s: %v", shown(r, fixes), err)
			}
			continue
		}
		fixes, err := r.Read(Record{Key: []byte("d"), Value: c.value})
		if err != nil || len(fixes) != c.fixes {
			t.Fatalf("%d bytes: %d fixes, %v", len(c.value), len(fixes), err)
		}
		if got := fixes[0].Refused; (got == nil) != (c.want == "") ||
			got != nil && got.Reason != c.want {
			t.Errorf("%d bytes: %v, want %q", len(c.value), got, c.want)
		}
	}
}

// TestNothingOfARecordIsSaid: reasons and rules have nothing of the record in them.
func TestNothingOfARecordIsSaid(t *testing.T) {
	reasons := schemas.Reasons()
	for name, o := range settings() {
		r := reader(t, o)
		for _, rule := range r.Rules() {
			if strings.ContainsAny(rule, "\n") {
				t.Errorf("%s: a rule has the name %q", name, rule)
			}
		}
		for _, value := range hostile {
			fixes, err := r.Read(Record{Key: []byte("secret"), Value: []byte(value)})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, f := range fixes {
				if f.Refused != nil && !slices.Contains(reasons, f.Refused.Reason) {
					t.Errorf("%s: the reason %q is not in the list", name, f.Refused.Reason)
				}
				if text := fmt.Sprintf("%v %+v %#v", f, f, f); strings.Contains(text, "secret") ||
					strings.Contains(text, "53.4") {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
	}
}

// hostile are values that no source writes.
var hostile = []string{
	`{`, `[]`, `{}`, `null`, `[[[[]]]]`, `{"a":1}{"b":2}`, "\x00", "\xff\xfe", `{"data":{}}`,
	`{"data":[null,1,"x",{"key":"Location"},{"key":"Location","value":3}]}`,
	`{"position":[],"payload":7,"after":"secret","entity":{"vehicle":7},"location":[null]}`,
	`{"_type":"location","tst":"secret","lat":{},"lon":[]}`,
	`{"user_id":{},"device_id":"secret","timestamp":"53.4","latitude":"53.4","longitude":{}}`,
	`[{"device_id":"secret"},{"device_id":"other"},7]`,
}
