package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/schemas/mapping"
)

// withInput is the complete config with another section input, and without encoding.raw, which a
// mapping excludes.
func withInput(t *testing.T, section string) string {
	t.Helper()
	text := strings.Replace(complete, "{raw: json, sanitized: avro}", "{sanitized: avro}", 1)
	text = strings.Replace(text, "input: {outside: clamp}", "input:"+section, 1)
	if !strings.Contains(text, "input:"+section) || strings.Contains(text, "raw: json") {
		t.Fatal("the config was not changed")
	}
	return text
}

// ownNames is a mapping that names everything.
const ownNames = `
  unwrap: payload
  each: fixes
  where:
    - {path: ok, equals: true}
    - {path: kind, not_equals: test}
    - {path: 'parts[key=Location]', exists: true}
  user: {path: $.vehicle.id}
  latitude: pos.lat
  longitude: pos.lon
  timestamp: {path: at, unit: s}
  key: json
  key_check: off
`

// TestInputMapping: a mapping reaches the service, and nothing of it is lost on the way.
func TestInputMapping(t *testing.T) {
	dir, _ := configDir(t, complete)
	fingerprints := map[string]string{}
	for _, section := range []string{
		" {outside: clamp}", " {preset: traccar}", " {preset: tesla}",
		" {preset: traccar, key_check: off}", " {format: auto}",
		" {preset: traccar, key: 'json:{\"id\":*}'}", " {preset: traccar, key: avro:42:long}",
		ownNames, strings.Replace(ownNames, "unit: s", "unit: ms", 1),
		strings.Replace(ownNames, "test", "other", 1),
	} {
		o, _, err := config.Service(write(t, dir, "mapped.yml", withInput(t, section)))
		if err != nil {
			t.Errorf("%s: %v", section, err)
			continue
		}
		text := string(o.Fingerprint())
		if other, twice := fingerprints[text]; twice || text == "" {
			t.Errorf("%s has the fingerprint of %s", section, other)
		}
		fingerprints[text] = section
	}
	o, _, err := config.Service(write(t, dir, "mapped.yml", withInput(t, ownNames)))
	if err != nil {
		t.Fatal(err)
	}
	rules := strings.Join(o.Input.Rules(), ", ")
	if !strings.Contains(rules,
		"ok is true, kind is not test, parts[key=Location] exists") {
		t.Errorf("the rules are %s", rules)
	}
	if shown := succeed(t, "config", "show", "-c", write(t, dir, "mapped.yml",
		withInput(t, ownNames))).out; strings.Contains(shown, "raw: avro") ||
		!strings.Contains(shown, "not_equals: test") {
		t.Errorf("config show has\n%s", shown)
	}
}

// TestWrongInput: each wrong mapping gets an error that names the key and says what to write.
func TestWrongInput(t *testing.T) {
	dir, _ := configDir(t, complete)
	change := func(old, text string) string { return strings.Replace(ownNames, old, text, 1) }
	for _, c := range []struct {
		name, section string
		words         []string
	}{
		{"preset", " {preset: telsa}", []string{`input: preset "telsa": choose`, "traccar"}},
		{"no unit", change(", unit: s", ""), []string{
			"input: timestamp: unit is missing", "s, ms, us, ns or rfc3339",
		}},
		{"unit", change("unit: s", "unit: seconds"), []string{
			`input: timestamp: unit: "seconds" is unknown`, "s, ms, us, ns or rfc3339",
		}},
		{"two times", change("unit: s", "unit: s, from: kafka"), []string{
			"input: timestamp: from stands alone",
		}},
		{"no columns", " {preset: debezium}", []string{
			"input: user: say where", "input: latitude: say where", "input: longitude: say where",
			"input: timestamp: say where", "not your columns",
		}},
		{"format", change("unwrap: payload", "format: xml"), []string{
			`input: format: "xml" is unknown`, "auto, json, avro or protobuf",
		}},
		{"protobuf", change("unwrap: payload", "format: protobuf"), []string{
			"input: format: protobuf is read for the presets tesla and gtfs_rt alone",
		}},
		{"path", change("pos.lat", "pos..lat"), []string{"input: latitude:", "empty name"}},
		{"index", change("pos.lat", "pos[first]"), []string{
			"input: latitude:", "without a number or name=value",
		}},
		{"rule", change(", equals: true", ""), []string{
			"input: where, rule 1: write equals, not_equals or exists",
		}},
		{"rule with a list", change("equals: true", "equals: [true]"), []string{
			"input: where, rule 1", "text, number or boolean",
		}},
		{"rule's key", change("equals: true", "equal: true"), []string{`unknown key "equal"`}},
		{"user", change("user: {path: $.vehicle.id}", "user: {from: vin}"), []string{
			`input: user: from: "vin" is unknown`, "key or header:NAME",
		}},
		{"two users", change("user: {path: $.vehicle.id}", "user: {from: key, path: id}"), []string{
			"input: user: from and path exclude each other",
		}},
		{"key", change("key: json", "key: xml"), []string{
			`input: key: "xml" is unknown`, "string, json or avro",
		}},
		{"keys of a registry", change("key: json", "key: avro"), []string{
			"input: key: avro needs a schema registry",
		}},
		{"a check of many spellings", change("key_check: off", "key_check: on"), []string{
			"input: key: json has many spellings", `json:{"id":*}`,
		}},
		{"no spelling", change("key: json", `key: 'json:{"id":7}'`), []string{
			"input: key: after json: write a key with one *",
		}},
		{"key check", change("key_check: off", "key_check: never"), []string{
			`input: key_check: "never" is unknown`, "on or off",
		}},
		{"a word for a section", " {user: key, preset: traccar}", []string{
			"cannot be used here: write settings below it",
		}},
	} {
		r := call(t, "run", "-c", write(t, dir, "wrong.yml", withInput(t, c.section)))
		t.Run(c.name, func(t *testing.T) {
			requireMessage(t, r, cli.ExitUsage, append(c.words, "wrong.yml")...)
		})
	}
	both := strings.Replace(complete, "outside: clamp", "outside: clamp, preset: traccar", 1)
	requireMessage(t, call(t, "run", "-c", write(t, dir, "wrong.yml", both)), cli.ExitUsage,
		"encoding.raw and the section input exclude each other", "set input.format")

	r := call(t, "produce", "-c", write(t, dir, "mapped.yml", withInput(t, " {preset: traccar}")),
		"--in", "traces.csv")
	requireMessage(t, r, cli.ExitUsage, "does not write")
}

// TestDocumentedInput: the examples of schemas/RECORDS.md are mappings, one for each preset at
// least.
func TestDocumentedInput(t *testing.T) {
	dir, _ := configDir(t, complete)
	presets := map[string]bool{}
	blocks := strings.Split(read(t, filepath.Join(root, "schemas", "RECORDS.md")), "```yaml\n")
	for _, block := range blocks[1:] {
		section, _, _ := strings.Cut(block, "```")
		section, ok := strings.CutPrefix(section, "input:")
		if !ok {
			continue
		}
		o, file, err := config.Service(write(t, dir, "documented.yml", withInput(t, section)))
		if err != nil || o.Input.Mapping == nil {
			t.Errorf("%s: %v", section, err)
		}
		presets[string(file.Input.Preset)] = true
	}
	for _, preset := range append(mapping.Presets(), "") {
		if !presets[string(preset)] {
			t.Errorf("there is no example of preset %q", preset)
		}
	}
}

// TestInputTest: sample messages are read as a service reads them, with and without keys.
func TestInputTest(t *testing.T) {
	dir, _ := configDir(t, complete)
	traccar := write(t, dir, "traccar.yml", withInput(t, " {preset: traccar}"))
	plain := write(t, dir, "plain.yml", complete)
	const fix = `{"position":{"valid":true,"fixTime":"2020-01-02T03:04:05Z",` +
		`"latitude":53.4,"longitude":-2.95},"device":{"id":7}}`
	const read = `user_id="7" timestamp=2020-01-02T03:04:05.000Z latitude=53.4 longitude=-2.95`
	lines := write(t, dir, "m.jsonl", "7\t"+fix+"\n\n8\t"+strings.Replace(fix, "53.4", `"x"`, 1)+
		"\n7\t"+strings.Replace(fix, "true", "false", 1)+"\n7\tnull\n7\t\nnull\t"+fix+"\n")
	r := call(t, "input", "test", "-c", traccar, "--keys", lines)
	if r.code != cli.ExitFailed || !strings.Contains(r.err, "2 of 6 fixes are refused") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	for _, want := range []string{
		"m.jsonl:1  " + read, "m.jsonl:3  refused, wrong_type: latitude: a field has another type",
		"m.jsonl:4  skipped: this rule does not hold: position.valid is true",
		"m.jsonl:5  skipped: tombstone", "m.jsonl:6  skipped: tombstone",
		"m.jsonl:7  refused, user_missing",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	requireMessage(t, call(t, "input", "test", "-c", traccar, "--keys",
		write(t, dir, "bare.jsonl", fix)), cli.ExitFailed, "bare.jsonl:1", "no tab")

	one := write(t, dir, "one", fix)
	if r := call(t, "input", "test", "-c", traccar, one); r.code == 0 ||
		!strings.Contains(r.out, "this config takes the user from the message's key") ||
		!strings.Contains(r.err, "without a key") {
		t.Errorf("without the key that holds the user: %+v", r)
	}
	empty := write(t, dir, "empty", "")
	write(t, dir, "empty.key", "7")
	if r := succeed(t, "input", "test", "-c", traccar, empty); !strings.Contains(r.out,
		"skipped: tombstone") {
		t.Errorf("a tombstone: %s%s", r.out, r.err)
	}
	write(t, dir, "one.key", "7\n")
	if r := succeed(t, "input", "test", "-c", traccar, one); !strings.Contains(r.out, read) {
		t.Errorf("with its key: %s", r.out)
	}

	const raw = `{"user_id":"u","timestamp":1500000000000,"latitude":53.4,"longitude":-2.95}`
	if r := succeed(t, "input", "test", "-c", plain, write(t, dir, "raw.json", raw)); !strings.
		Contains(r.out, `user_id="u"`) || !strings.Contains(r.out, "outside the map") {
		t.Errorf("a record of raw.avsc, without a key: %s", r.out)
	}
	write(t, dir, "raw.json.key", "v")
	if r := call(t, "input", "test", "-c", plain, filepath.Join(dir, "raw.json")); !strings.
		Contains(r.out, "key_mismatch") {
		t.Errorf("with another key: %s", r.out)
	}
	withoutModel := write(t, t.TempDir(), "geodither.yml", complete)
	r = succeed(t, "input", "test", "-c", withoutModel, write(t, dir, "fix.json", raw))
	if !strings.Contains(r.out, `user_id="u"`) || strings.Contains(r.out, "outside") ||
		!strings.Contains(r.err, "not checked: whether fixes lie on the map, since the config's "+
			"model is not there") {
		t.Errorf("without a model: %s%s", r.out, r.err)
	}
}
