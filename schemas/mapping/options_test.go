package mapping

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

// named are options that name every part.
func named() Options {
	return Options{
		User: User{Path: "device.id"}, Latitude: "lat", Longitude: "lon",
		Timestamp: Time{Path: "at", Unit: schemas.Seconds},
	}
}

func TestWrongOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		words  []string
	}{
		{"preset", func(o *Options) { o.Preset = "telsa" }, []string{"telsa", "traccar"}},
		{"format", func(o *Options) { o.Format = "xml" }, []string{"format", "auto"}},
		{"protobuf", func(o *Options) { o.Format = Protobuf }, []string{"tesla and gtfs_rt"}},
		{"no unit", func(o *Options) { o.Timestamp.Unit = "" }, []string{
			"timestamp: unit is missing", "s, ms, us, ns or rfc3339",
		}},
		{"unit", func(o *Options) { o.Timestamp.Unit = "sec" }, []string{"sec", "rfc3339"}},
		{"two times", func(o *Options) { o.Timestamp.From = FromKafka }, []string{
			"from stands alone",
		}},
		{"time's source", func(o *Options) { o.Timestamp = Time{From: "clock"} }, []string{
			"kafka",
		}},
		{"two users", func(o *Options) { o.User.From = FromKey }, []string{"exclude each other"}},
		{"user's source", func(o *Options) { o.User = User{From: "vin"} }, []string{
			"vin", "header:NAME", "path:",
		}},
		{"header", func(o *Options) { o.User = User{From: FromHeader} }, []string{"header's name"}},
		{"key", func(o *Options) { o.Key = "xml" }, []string{"key:", "string, json or avro"}},
		{"check", func(o *Options) { o.KeyCheck = "no" }, []string{"key_check:", "on or off"}},
		{"keys in JSON", func(o *Options) { o.Key = KeyJSON }, []string{
			"key: json has many", "many spellings", "key_check: off",
		}},
		{"keys in Avro", func(o *Options) { o.Key, o.KeyCheck = KeyAvro, KeyCheckOn }, []string{
			"key: avro has many", "many spellings", "key_check: off",
		}},
		{"Connect's keys", func(o *Options) { o.Preset = Debezium }, []string{
			"key: json has many", "many spellings", "key_check: off",
		}},
		{"path", func(o *Options) { o.Latitude = "a..b" }, []string{"latitude:", "empty name"}},
		{"unwrap", func(o *Options) { o.Unwrap = "a[" }, []string{"unwrap:", "closing bracket"}},
		{"each", func(o *Options) { o.Each = "a[" }, []string{"each:", "closing bracket"}},
		{"rule's path", func(o *Options) { o.Where = []Rule{{Equals: 1}} }, []string{
			"where, rule 1", "path",
		}},
		{"rule", func(o *Options) { o.Where = []Rule{{Path: "a"}} }, []string{"write equals"}},
		{"two rules", func(o *Options) {
			o.Where = []Rule{{Path: "a", Equals: 1, Exists: yes()}}
		}, []string{"write equals"}},
		{"rule's value", func(o *Options) {
			o.Where = []Rule{{Path: "a", Equals: []any{1}}}
		}, []string{"text, number"}},
		{"rules", func(o *Options) {
			o.Where = make([]Rule, maxWhere+1)
		}, []string{"rules are the most"}},
		{"debezium", func(o *Options) { *o = Options{Preset: Debezium} }, []string{
			"user:", "latitude:", "longitude:", "timestamp:", "not your columns",
		}},
	} {
		o := named()
		c.change(&o)
		_, err := New(o)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q lacks %q", c.name, err, word)
			}
		}
	}
	if _, err := New(named()); err != nil {
		t.Error(err)
	}
	o := named()
	o.Key, o.KeyCheck = KeyAvro, KeyCheckOff
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewReader(Decoders{}); err == nil || !strings.Contains(err.Error(), "registry") {
		t.Errorf("keys in Avro without a registry: %v", err)
	}
}

// TestText: any change of what is read changes the text.
func TestText(t *testing.T) {
	text := func(change func(*Options)) string {
		o := named()
		o.Where = []Rule{{Path: "ok", Equals: 1}}
		change(&o)
		m, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return m.Text()
	}
	no := false
	seen := map[string]int{}
	for i, change := range []func(*Options){
		func(*Options) {},
		func(o *Options) { o.Format = JSON },
		func(o *Options) { o.Unwrap = "payload" },
		func(o *Options) { o.Each = "payload" },
		func(o *Options) { o.Where = nil },
		func(o *Options) { o.Where[0].Equals = "1" },
		func(o *Options) { o.Where[0] = Rule{Path: "ok", NotEquals: 1} },
		func(o *Options) { o.Where[0] = Rule{Path: "ok", Exists: yes()} },
		func(o *Options) { o.Where[0] = Rule{Path: "ok", Exists: &no} },
		func(o *Options) { o.User = User{From: FromKey} },
		func(o *Options) { o.User = User{From: "header:vin"} },
		func(o *Options) { o.Latitude = "y" },
		func(o *Options) { o.Longitude = "x" },
		func(o *Options) { o.Timestamp = Time{From: FromKafka} },
		func(o *Options) { o.Timestamp.Unit = schemas.Milliseconds },
		func(o *Options) { o.KeyCheck = KeyCheckOff },
		func(o *Options) { o.Key, o.KeyCheck = KeyJSON, KeyCheckOff },
	} {
		one := text(change)
		if other, twice := seen[one]; twice {
			t.Errorf("changes %d and %d have one text %s", other, i, one)
		}
		seen[one] = i
	}
	// What a default says in words is no change.
	if text(func(*Options) {}) != text(func(o *Options) {
		o.Format, o.Key, o.KeyCheck = Auto, KeyString, KeyCheckOn
	}) {
		t.Error("defaults that are written out are another mapping")
	}
}

func TestIsZero(t *testing.T) {
	if !(Options{}).IsZero() || (Options{KeyCheck: KeyCheckOn}).IsZero() || named().IsZero() {
		t.Error("only options without any setting are none")
	}
}
