package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// traccarText is the town's fixes as the messages of Traccar's forwarder, with something between
// and around them.
func traccarText(before, between, behind string) string {
	var messages []string
	for _, fix := range servicetest.TownFixes() {
		messages = append(messages, fmt.Sprintf(`{"position":{"valid":true,"fixTime":%q,`+
			`"latitude":%v,"longitude":%v},"device":{"id":%s}}`,
			files.Time(fix.Timestamp), fix.Latitude, fix.Longitude, fix.UserID))
	}
	return before + strings.Join(messages, between) + behind
}

// TestNestedFiles: every command that reads traces reads nested JSON by the section input of a
// config, a message a line or a document of them, as if the fixes were CSV.
func TestNestedFiles(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	config := withConfig(
		t,
		"release: {mechanism: codebook, budget: none}",
		"input: {preset: traccar}",
	)
	lines := write(t, dir, "lines.ndjson", traccarText("", "\n", "\n"))
	document := write(t, dir, "document.json", traccarText("[\n", ",\n", "\n]"))
	commands := map[string][]string{
		"train": townTraining("IN", "OUT"),
		"sanitize": {
			"sanitize", "--in", "IN", "--out", "OUT", "--model", model, "--seed", "1",
			"--epsilon", "2",
		},
		"counts": {
			"counts", "--in", "IN", "--out", "OUT", "--from", "2023-11-14", "--to", "2023-11-15",
			"--epsilon", "1", "--per-day", "3", "--zone", "1km", "--box", servicetest.TownBox,
			"--key-file", write(t, dir, "key", strings.Repeat("7", 64)),
		},
		"tune": {
			"tune", "--in", "IN", "--out", "OUT", "--box", servicetest.TownBox, "--cell",
			servicetest.TownCell, "--step", servicetest.TownStep, "--quick",
		},
	}
	for name, words := range commands {
		var want string
		for i, in := range []string{traces, lines, document} {
			out := filepath.Join(dir, fmt.Sprint(name, i))
			if name != "tune" {
				out += ".csv"
			}
			r := succeed(t, strings.Split(strings.NewReplacer("IN", in, "OUT", out).Replace(
				strings.Join(append(words, config...), "\n")), "\n")...)
			if strings.Contains(r.err, "skipped:") {
				t.Errorf("%s of %s: %s", name, in, r.err)
			}
			if name == "tune" {
				out = filepath.Join(out, "tables", "plans.csv")
			}
			if got := read(t, out); i == 0 {
				want = got
			} else if got != want {
				t.Errorf("%s of %s differs from that of CSV", name, filepath.Base(in))
			}
		}
	}
	requireMessage(t, call(t, townTraining(document, filepath.Join(dir, "no.avro"))...),
		cli.ExitFailed, "document.json: this is one JSON document, not one object a line",
		"(traces-form)")
	requireMessage(t, call(t, townTraining(lines, filepath.Join(dir, "no.avro"))...),
		cli.ExitFailed, "missing_field: user_id", "-c")
}

// TestForeignTypes: what becomes of the types of other people's schemas, from a config to a fix.
func TestForeignTypes(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	const schema = `{"type":"record","name":"R","fields":[{"name":"u","type":"string"},
		{"name":"at","type":{"type":"long","logicalType":"%stimestamp-millis"}},
		{"name":"lat","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":5}},
		{"name":"lon","type":"double"}]}`
	fake.SeedSchema("zone", 1, 1, sr.Schema{Schema: fmt.Sprintf(schema, "")})
	fake.SeedSchema("none", 1, 2, sr.Schema{Schema: fmt.Sprintf(schema, "local-")})
	dir, _ := configDir(t, complete)
	config := write(t, dir, "foreign.yml", withInput(t, " {user: {path: u}, latitude: lat, "+
		"longitude: lon, timestamp: {path: at, unit: ms}}\nregistry: {url: "+fake.URL()+"}"))
	body := "\x02v\xf6\xa2\xab\x99\xf9b" + "\x06\x51\x8d\x4a" + strings.Repeat("\x00", 8)
	for id, want := range map[string]string{
		"\x01": "latitude=53.44586", "\x02": "refused, wrong_type: timestamp",
		"\x00\x00\x00\x00\x07": "refused, apicurio_id",
	} {
		value := write(t, dir, "value.avro", "\x00\x00\x00\x00"+id+body)
		r := call(t, "input", "test", "-c", config, value)
		if !strings.Contains(r.out, want) {
			t.Errorf("schema %q: %s%s, want %s", id, r.out, r.err, want)
		}
	}
}
