package mapping

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

// TestSpellings: each user id has one key, which gives the id back, and no other key does.
func TestSpellings(t *testing.T) {
	const envelope = `{"schema":{"type":"int32","optional":false},"payload":*}`
	for _, test := range []struct {
		key, user, want string
		others          []string // keys of the same user elsewhere, or of nobody
	}{
		{`json:*`, "17", "17", []string{
			`"17"`, " 17", "17 ", "17\n", "017", "+17", "17.0", "1.7e1", `{"id":17}`, "",
		}},
		{`json:*`, "-17", "-17", []string{"-017", "- 17"}},
		{`json:*`, "0", "0", []string{"-0", "00", "0.0", ""}},
		{`json:"*"`, "17", `"17"`, []string{`17`, `"\u0031\u0037"`, ` "17"`, `"1\u0037"`}},
		{`json:"*"`, "zoë/é", `"zoë/é"`, []string{`"zo\u00eb/\u00e9"`, `"zoë\/é"`, `"zoë\u002fé"`}},
		{`json:"*"`, "a\"b\\\n\x01<", `"a\"b\\\n\u0001<"`, []string{
			`"a\u0022b\\\n\u0001<"`, `"a\"b\\\u000a\u0001<"`, `"a\"b\\\n\u0001\u003c"`,
			"\"a\\\"b\\\\\n\\u0001<\"",
		}},
		{`json:{"id":*}`, "17", `{"id":17}`, []string{
			`{"id": 17}`, `{"id":"17"}`, `{"ID":17}`, `{"id":17}` + "\n", `17`, `{"id":17,"id":17}`,
			`{"id":18,"id":17}`, `{"schema":null,"payload":{"id":17}}`, `{"\u0069d":17}`,
		}},
		{`json:{"id": "*"}`, "car", `{"id": "car"}`, []string{`{"id":"car"}`, `{"id": car}`}},
		{`json:` + envelope, "17", strings.Replace(envelope, "*", "17", 1), []string{
			`{"payload":17,"schema":{"type":"int32","optional":false}}`,
			`{"schema":{"type":"int64","optional":false},"payload":17}`, "17",
		}},
		{"avro:42:long", "17", "\x00\x00\x00\x00\x2a\x22", []string{
			"\x00\x00\x00\x00\x2b\x22", "\x00\x00\x00\x00\x2a\xa2\x00", "\x22",
			"\x00\x00\x00\x00\x2a",
			"\x00\x00\x00\x00\x2a\x02\x22", "\x00\x00\x00\x00\x2a\x22\x00",
			"\x00\x00\x00\x00\x2a\x0417",
			"\x00\x00\x00\x00\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		}},
		{"avro:42:string", "17", "\x00\x00\x00\x00\x2a\x0417", []string{
			"\x00\x00\x00\x00\x2a\x22", "\x00\x00\x00\x00\x2a\x84\x0017",
			"\x00\x00\x00\x00\x2a\x0417 ",
			"\x00\x00\x00\x00\x2a\x0617", "\x00\x00\x00\x00\x2a\x0217", "\x00\x00\x00\x00\x2a\x01",
		}},
		{"avro:300:string?", "x", "\x00\x00\x00\x01\x2c\x02\x02x", []string{
			"\x00\x00\x00\x01\x2c\x02x", "\x00\x00\x00\x01\x2c\x00",
			"\x00\x00\x00\x01\x2c\x04\x02x",
			"\x00\x00\x00\x01\x2c\x82\x00\x02x",
		}},
		{
			"avro:7:long?", "-1", "\x00\x00\x00\x00\x07\x02\x01",
			[]string{"\x00\x00\x00\x00\x07\x01"},
		},
	} {
		s, err := newSpelling(Key(test.key))
		if err != nil || s == nil {
			t.Errorf("%s: %v, %v", test.key, s, err)
			continue
		}
		key, ok := s.key(test.user)
		user, known := s.user(key)
		if !ok || key != test.want || !known || user != test.user {
			t.Errorf("%s: %q has the key %q, of %q; want %q", test.key, test.user, key, user,
				test.want)
		}
		for _, other := range test.others {
			if user, ok := s.user(other); ok {
				t.Errorf("%s: the key %q is taken as of %q", test.key, other, user)
			}
		}
	}
	for key, user := range map[string]string{
		`json:*`: "car", `json:"*"`: "\xff", "avro:1:long": "0x7", "avro:2:long": "007",
	} {
		s, err := newSpelling(Key(key))
		if err != nil {
			t.Fatal(err)
		}
		if spelled, ok := s.key(user); ok {
			t.Errorf("%s spells %q as %q", key, user, spelled)
		}
	}
	for _, wrong := range []string{
		"json:", `json:{"id":17}`, `json:{"id":*`, `json:[*,*]`, `json:{"id":*"}`, "json:a*",
		"avro:", "avro:42", "avro:x:long", "avro:42:int", "avro:4294967295:long", "avro:-1:long",
	} {
		o := named()
		o.Key = Key(wrong)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "key: after ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// FuzzSpelling: no two keys are of one user.
func FuzzSpelling(f *testing.F) {
	all := []Key{`json:*`, `json:"*"`, `json:{"id":*}`, "avro:42:long", "avro:42:string?"}
	for i, seed := range []string{"17", `"a\n"`, `{"id":1}`, "\x00\x00\x00\x00\x2a\x22"} {
		f.Add(byte(i), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, which byte, key []byte) {
		s, err := newSpelling(all[int(which)%len(all)])
		if err != nil {
			t.Fatal(err)
		}
		if user, ok := s.user(string(key)); ok {
			if own, spelled := s.key(user); !spelled || own != string(key) {
				t.Errorf("%q and %q are both of %q", key, own, user)
			}
		}
	})
}

// TestOneSpelling: a record whose key is in another spelling is refused, whether the user id is in
// the value or in the key.
func TestOneSpelling(t *testing.T) {
	for _, from := range []User{{Path: "device"}, {From: FromKey}} {
		m, err := New(Options{
			Format: JSON, User: from, Latitude: "lat", Longitude: "lon",
			Timestamp: Time{Path: "time", Unit: schemas.Milliseconds}, Key: `json:{"id":*}`,
		})
		if err != nil || m.UsersAreKeys() || !m.OneKey() || m.NeedsKeys() {
			t.Fatalf("%v, %+v", err, m)
		}
		reader, err := m.NewReader(Decoders{})
		if err != nil {
			t.Fatal(err)
		}
		for key, sound := range map[string]bool{
			`{"id":17}`: true, `{"id": 17}`: false, `17`: false, `{"id":"17"}`: false, ``: false,
		} {
			fixes, err := reader.Read(Record{
				Key: []byte(
					key,
				), Value: []byte(`{"device":17,"lat":53,"lon":-2,"time":1795248000000}`),
			})
			if err != nil || len(fixes) != 1 || (fixes[0].Refused == nil) != sound ||
				sound && UserOf(fixes) != "17" ||
				!sound && fixes[0].Refused.Reason != schemas.ReasonKeyMismatch {
				t.Errorf("user %+v, key %q: %+v, %v", from, key, fixes, err)
			}
		}
	}
	o := named()
	o.Key = `json:"*"`
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := m.KeyOf("a\"b"); !ok || key != `"a\"b"` || m.KeySpelling() != `json:"*"` {
		t.Errorf("the key is %q, %t", key, ok)
	}
}
