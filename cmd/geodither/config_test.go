package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// complete is a config with every key.
const complete = `brokers: [one:9092, two:9092]
group: fleet
topics:
  raw: fleet.raw
  sanitized: fleet.sanitized
  changelog: fleet.changelog
  dead_letters: fleet.dead
  create: true
  partitions: 6
  replication: 3
encoding: {raw: json, sanitized: avro}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: lattice, epsilon: 0.5, delta: 0.02, interval: 10m, between: skip, hours: [{days: mon-fri, from: 06:00, to: 18:00, zone: Europe/London}], budget: {epsilon: 6, window: 2h, lifetime: 500}}
publish: {timestamp: step, user: pseudonym, release: false, estimate: median}
input: {outside: clamp}
transaction: {max_records: 100, max_interval: 20ms, timeout: 12s}
session_timeout: 7s
max_ahead: 2h
log: {level: debug, format: json}
`

// configDir is a folder with a model, a key and a config, and the config's path.
func configDir(t *testing.T, text string) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	townFiles(t, dir)
	write(t, dir, "noise.key", noise.KeyFromSeed(3<<40).Reveal())
	return dir, write(t, dir, "geodither.yml", text)
}

// TestLogDurations: both formats of the log write a duration with its unit.
func TestLogDurations(t *testing.T) {
	for format, want := range map[string]string{
		"text": "next_look_in=1.5s after.took=20ms",
		"json": `"next_look_in":"1.5s","after":{"took":"20ms"}`,
	} {
		var out strings.Builder
		log, err := config.Log{Format: format}.Logger(&out)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("waiting", "next_look_in", 1500*time.Millisecond,
			slog.Group("after", "took", 20*time.Millisecond))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q is not in %s", format, want, &out)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	dir, path := configDir(t, complete)
	o, file, err := config.Service(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, ok := range map[string]bool{
		"brokers": strings.Join(o.Brokers, " ") == "one:9092 two:9092",
		"group":   o.Group == "fleet",
		"topics":  o.Topics.Raw == "fleet.raw" && o.Topics.Sanitized == "fleet.sanitized",
		"own topics": o.Topics.Changelog == "fleet.changelog" &&
			o.Topics.DeadLetters == "fleet.dead",
		"creation": o.Topics.Create && o.Topics.Partitions == 6 && o.Topics.Replication == 3,
		"encoding": o.RawEncoding == schemas.JSON && o.SanitizedEncoding == schemas.Avro,
		"model":    o.Model != nil && o.Model.Step == time.Minute,
		"key":      o.Key.Equal(noise.KeyFromSeed(3 << 40)),
		"state":    o.StateDir == filepath.Join(dir, "state"),
		"transaction": o.MaxRecords == 100 && o.MaxInterval == 20*time.Millisecond &&
			o.TransactionTimeout == 12*time.Second,
		"times": o.SessionTimeout == 7*time.Second && o.MaxAhead == 2*time.Hour,
		"log":   file.Log == config.Log{Level: "debug", Format: "json"},
		"release": reflect.DeepEqual(o.Release, mechanism.Options{
			Mechanism: "lattice", Epsilon: .5, Delta: .02,
			ReleaseInterval: 10, Between: "skip", Estimate: "median",
			Hours: []hours.Span{{Days: 0b111110, From: 360, To: 1080, Zone: "Europe/London"}},
			Budget: mechanism.Budget{
				Epsilon: 6, WindowSteps: 120, Lifetime: 500, Spent: "suppress",
			},
		}),
		"input": o.Input == engine.Input{Outside: "clamp"},
		"publish": o.Publish == engine.Publish{
			Timestamp: "step", User: "pseudonym", OmitRelease: true,
		},
	} {
		if !ok {
			t.Errorf("%s: not as the file has it", what)
		}
	}
}

// TestConfigIsWhole: complete has every key that a release and publishing have, and
// none is without effect: it would be a setting that silently keeps its default.
func TestConfigIsWhole(t *testing.T) {
	_, path := configDir(t, complete)
	o, file, err := config.Service(path)
	if err != nil {
		t.Fatal(err)
	}
	var whole func(name string, v reflect.Value)
	whole = func(name string, v reflect.Value) {
		for i := range v.NumField() {
			field := name + "." + v.Type().Field(i).Name
			switch f := v.Field(i); {
			case f.Kind() == reflect.Struct:
				whole(field, f)
			case f.IsZero():
				t.Errorf("%s is not set", field)
			}
		}
	}
	whole("file.release", reflect.ValueOf(file.Release))
	whole("file.publish", reflect.ValueOf(file.Publish))
	whole("options.release.budget", reflect.ValueOf(o.Release.Budget))
	whole("options.publish", reflect.ValueOf(o.Publish))
}

// TestHoursConfig: what is wrong with release.hours is an error that names the entry and says what
// to write, and the time zones' rules belong to the settings.
func TestHoursConfig(t *testing.T) {
	before, _, _ := strings.Cut(complete, "release:")
	load := func(text string) (service.Options, error) {
		_, path := configDir(t, before+"release: {mechanism: codebook, epsilon: 4, "+text+
			"budget: none}\n")
		o, _, err := config.Service(path)
		return o, err
	}
	o, err := load(`hours: [{from: "22:00", to: 6:00, zone: UTC}, ` +
		`{days: "sat, sun", from: 00:00, to: 24:00, zone: Asia/Kathmandu}], `)
	if err != nil {
		t.Fatal(err)
	}
	if want := []hours.Span{
		{Days: 127, From: 1320, To: 360, Zone: "UTC"},
		{Days: 0b1000001, From: 0, To: 1440, Zone: "Asia/Kathmandu"},
	}; !slices.Equal(o.Release.Hours, want) {
		t.Errorf("hours are %v, want %v", o.Release.Hours, want)
	}
	without := o.Settings
	without.Release.Hours = nil
	if got := without.Differences(o.Fingerprint()); got !=
		"release.hours or the rules of its time zones" {
		t.Errorf("the difference is %q", got)
	}
	entry := func(days, from, to, zone string) string {
		return fmt.Sprintf("[{days: %s, from: %s, to: %s, zone: %s}]", days, from, to, zone)
	}
	for text, want := range map[string]string{
		"[]":                                     "leave it out to release at all times",
		"[{from: 06:00, to: 18:00}]":             "hours: entry 1: set from, to and zone",
		"[{form: 06:00}]":                        "form",
		entry("mo-fri", "06:00", "18:00", "UTC"): "mo-fri",
		entry("mon", "1080", "18:00", "UTC"):     "write 06:00",
		entry("mon", "06:00", "24:01", "UTC"):    "24:01",
		entry("mon", "06:60", "18:00", "UTC"):    "06:60",
		entry("mon", "24:00", "18:00", "UTC"):    "from is not 00:00 to 23:59",
		entry("mon", "06:00", "06:00", "UTC"):    "00:00 to 24:00",
		entry("mon", "06:00", "18:00", "Local"):  `zone "Local" is not in`,
		entry("mon", "06:00", "18:00", "CEST"):   "Europe/London",
	} {
		if _, err := load("hours: " + text + ", "); err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestReleaseDefaults: a config with mechanism, ε and δ alone is that of the mechanism's
// defaults, and flags that nobody has touched mean the same. Without a config the mechanism is
// codebook, which takes no δ.
func TestReleaseDefaults(t *testing.T) {
	_, path := configDir(t, complete[:strings.Index(complete, "release:")]+
		"release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: none}\n")
	o, _, err := config.Service(path)
	if err != nil {
		t.Fatal(err)
	}
	unspent := mechanism.Budget{Spent: mechanism.SpentPredict} // a spent budget follows "between"
	if want := (mechanism.Options{
		Mechanism: law.Lattice, Epsilon: 2, Delta: .02, Budget: unspent,
	}); !reflect.DeepEqual(o.Release, want) ||
		o.Publish != (engine.Publish{}) {
		t.Errorf("%+v, %+v", o.Release, o.Publish)
	}
	codebook := mechanism.Options{Mechanism: law.Codebook, Epsilon: 2, Budget: unspent}
	for _, c := range []struct {
		args  []string
		want  mechanism.Options
		words string
	}{
		{[]string{"--mechanism", "lattice", "--epsilon", "2", "--delta", "0.02"}, o.Release, ""},
		{[]string{"--epsilon", "2"}, codebook, ""},
		{[]string{"-c", path, "--mechanism", "codebook"}, codebook, ""},
		{[]string{"-c", path}, o.Release, ""},
		{[]string{"--epsilon", "2", "--delta", "0.02"}, codebook, "no location set"},
		{
			[]string{"-c", path, "--mechanism", "codebook", "--delta", "0.1"},
			codebook, "no location set",
		},
		{[]string{"--mechanism", "lattice", "--epsilon", "2"}, o.Release, "needs delta"},
	} {
		var f config.Flags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.StringVarP(&f.Path, "config", "c", "", "")
		f.Register(flags, "codebook or lattice")
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		file, err := f.File(flags)
		if err != nil {
			t.Fatal(err)
		}
		flagged, err := file.Release.Options(o.Model.Step)
		switch {
		case c.words == "" && (err != nil || !reflect.DeepEqual(flagged, c.want)):
			t.Errorf("%q: %+v, %v", c.args, flagged, err)
		case c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)):
			t.Errorf("%q: %v, want %q", c.args, err, c.words)
		}
	}
}

// TestConfigPaths: relative paths are relative to the file, others are kept.
func TestConfigPaths(t *testing.T) {
	dir, _ := configDir(t, complete)
	text := strings.Replace(complete, "model: model.avro",
		"model: "+filepath.Join(dir, "model.avro"), 1)
	text = strings.Replace(text, "key_file: noise.key", "key_file: ../noise.key", 1)
	o, _, err := config.Service(write(t, dir, "below/geodither.yml", text))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "below", "state"); o.StateDir != want {
		t.Errorf("state_dir is %s, want %s", o.StateDir, want)
	}
}

// TestWrongConfig: each fault is wrong usage, and its message names the file, the
// setting and what would be right, in words of the file and not of Go.
func TestWrongConfig(t *testing.T) {
	dir, _ := configDir(t, complete)
	write(t, dir, "seeded.key", noise.KeyFromSeed(1).Reveal())
	succeed(t, "key", "export", "--pseudonym", filepath.Join(dir, "names.key"),
		"--key-file", filepath.Join(dir, "noise.key"))
	for _, c := range []struct {
		name, old, new string
		words          []string
	}{
		{"empty", complete, "", []string{"empty", "geodither config example"}},
		{"comments alone", complete, "# nothing\n", []string{"empty"}},
		{"no YAML", complete, "a: [b", []string{"yaml"}},
		{"a model", complete, "Obj\x01\x04", []string{"a model, not a config", "model: FILE"}},
		{"two documents", "\nlog:", "\n---\nlog:", []string{"second YAML document"}},
		{"unknown key", "group:", "gruop:", []string{
			"line 2", `unknown key "gruop"`, "did you mean group?",
		}},
		{"unknown key of two letters more", "group:", "sesion_timeot:", []string{
			`unknown key "sesion_timeot"`, "did you mean session_timeout?",
		}},
		{"a key like no other", "group:", "colour_scheme:", []string{
			`unknown key "colour_scheme": a misspelling? geodither run --help lists the keys`,
		}},
		{"smoothing as a service", "group:", "smooth:", []string{
			`unknown key "smooth"`, "geodither consume | geodither smooth --in -",
		}},
		{"unknown key below", "  raw:", "  row:", []string{
			"line 4", `unknown key "row"`, "did you mean raw?",
		}},
		{"key twice", "group: fleet", "group: fleet\ngroup: fleet", []string{"already defined"}},
		{"no epsilon", "epsilon: 0.5, ", "", []string{"epsilon", "which has no default"}},
		{"no delta", "delta: 0.02, ", "", []string{"delta", "which has no default"}},
		{"epsilon 0", "epsilon: 0.5", "epsilon: 0", []string{
			"release: epsilon", "is not set or 0",
		}},
		{"epsilon nan", "epsilon: 0.5", "epsilon: .nan", []string{"release: epsilon"}},
		{"delta 1", "delta: 0.02", "delta: 1", []string{"delta"}},
		{"epsilon text", "epsilon: 0.5", "epsilon: one", []string{"line 15", "`one`", "a number"}},
		{"a list of brokers", "brokers: [one:9092, two:9092]", "brokers: one:9092", []string{
			"`one:9092`", "a list",
		}},
		{"a switch", "create: true", "create: often", []string{"`often`", "true or false"}},
		{"no settings", "log: {level: debug, format: json}", "log: 1", []string{
			"`1`", "settings below",
		}},
		{"an experiment's mechanism", "mechanism: lattice", "mechanism: pim", []string{
			"release: mechanism pim is for experiments", "may reveal more than ε",
			`write "mechanism: codebook" or lattice`,
		}},
		{"mechanism", "mechanism: lattice", "mechanism: gauss", []string{
			`"gauss"`, "laplace-tight",
		}},
		{"interval between steps", "interval: 10m", "interval: 90s", []string{
			"release: interval", "1m30s", "no multiple of the step 1m0s",
			"1m0s or 2m0s",
		}},
		{"interval below a step", "interval: 10m", "interval: 1s", []string{
			"interval", "shorter than the model's step",
		}},
		{"negative interval", "interval: 10m", "interval: -10m", []string{"interval", "negative"}},
		{"window between steps", "window: 2h", "window: 61s", []string{
			"budget.window", "no multiple",
		}},
		{
			"no mechanism", "mechanism: lattice, ", "",
			[]string{
				"release: set mechanism", "codebook has the least error",
				"lattice is the paper's",
			},
		},
		{
			"delta of a codebook", "mechanism: lattice", "mechanism: codebook",
			[]string{"release: delta", "codebook has no location set", "mechanism lattice"},
		},
		{
			"codebook without epsilon", "mechanism: lattice, " +
				"epsilon: 0.5, delta: 0.02, ", "mechanism: codebook, ",
			[]string{"epsilon is not set"},
		},
		{
			"misspelt mechanism", "mechanism: lattice", "mechanism: codebok",
			[]string{
				`mechanism "codebok" is unknown: for people: codebook, lattice; `,
				"for comparison: pim",
			},
		},
		{"between", "between: skip", "between: nothing", []string{`"nothing"`, "predict"}},
		{
			"too exact", "mechanism: lattice, epsilon: 0.5",
			"mechanism: lattice, epsilon: 0.1234567891",
			[]string{"epsilon", "decimals"},
		},
		{"timestamp", "timestamp: step", "timestamp: day", []string{`timestamp "day"`, "exact"}},
		{"user", "user: pseudonym", "user: hidden", []string{`user "hidden"`, "plain"}},
		{"encoding", "raw: json", "raw: xml", []string{"xml", "avro"}},
		{"duration without unit", "session_timeout: 7s", "session_timeout: 7", []string{
			"line 19", "`7`", "a duration with its unit",
		}},
		{"duration of nonsense", "max_ahead: 2h", "max_ahead: soon", []string{
			"`soon`", "a duration",
		}},
		{"negative duration", "max_interval: 20ms", "max_interval: -20ms", []string{
			"max_interval",
		}},
		{"negative timeout", "timeout: 12s", "timeout: -12s", []string{"transaction.timeout"}},
		{"negative session", "session_timeout: 7s", "session_timeout: -7s", []string{
			"session_timeout",
		}},
		{"listener without a port", "\nlog:", "\nhttp: {listen: 8080}\nlog:", []string{
			"http: listen: write HOST:PORT", "8080",
		}},
		{"listener at a URL", "\nlog:", "\nhttp: {listen: \"http://host:80\"}\nlog:", []string{
			"http: listen: write HOST:PORT",
		}},
		{"profiles for everybody", "\nlog:", "\nhttp: {pprof: \":6060\"}\nlog:", []string{
			"http: pprof: :6060 can be reached from other machines", "write localhost:PORT",
		}},
		{"fixes outside", "outside: clamp", "outside: keep", []string{
			"input", "clamp", "dead_letter",
		}},
		{"negative ahead", "max_ahead: 2h", "max_ahead: -2h", []string{"max_ahead"}},
		{"no brokers", "brokers: [one:9092, two:9092]", "brokers: []", []string{"brokers"}},
		{"a protocol", "one:9092, two:9092", "PLAINTEXT://one:9092", []string{
			"brokers", "names a protocol",
		}},
		{"an IPv6 address", "one:9092, two:9092", "\"::1:9092\"", []string{"brackets, such as"}},
		{"no port", "one:9092, two:9092", "one:9092, two", []string{`"two"`, "has no port"}},
		{"an empty broker", "one:9092, two:9092", "one:9092, ''", []string{"brokers", "empty"}},
		{"no group", "group: fleet", "group: ''", []string{"group"}},
		{"no raw topic", "raw: fleet.raw", "raw: ''", []string{"topics.raw"}},
		{"a topic twice", "changelog: fleet.changelog", "changelog: fleet.raw", []string{
			"fleet.raw", "own topic",
		}},
		{"no model", "model: model.avro", "model: ''", []string{"model", "geodither train"}},
		{"model missing", "model: model.avro", "model: gone.avro", []string{
			"model", "gone.avro", "no such file",
		}},
		{"model garbage", "model: model.avro", "model: traces.csv", []string{
			"model", "traces.csv",
		}},
		{"no key", "key_file: noise.key", "key_file: ''", []string{
			"key_file", "key-file", files.KeyVariable,
		}},
		{"key missing", "key_file: noise.key", "key_file: gone.key", []string{
			"key_file", "gone.key", "key new",
		}},
		{"a seed for a key", "key_file: noise.key", "key_file: seeded.key", []string{
			"key_file: ", "seed", "key-file",
		}},
		{"a key for pseudonyms alone", "key_file: noise.key", "key_file: names.key", []string{
			"key_file: ", "pseudonyms",
		}},
		{"a key that is a folder", "key_file: noise.key", "key_file: .", []string{
			"key_file", "directory",
		}},
		{"key short", "key_file: noise.key", "key_file: model.avro", []string{
			"key_file", "64 hexadecimal digits",
		}},
		{"no state", "state_dir: state", "state_dir: ''", []string{"state_dir"}},
		{
			"a login in plain text", "group: fleet",
			"kafka: {sasl: {mechanism: PLAIN, username: u, password: p}}\ngroup: fleet",
			[]string{"kafka.sasl: PLAIN", "(no-tls)"},
		},
		{
			"an authority from an empty variable", "group: fleet",
			"kafka: {tls: {ca_file: \"${GEODITHER_NOWHERE:}\"}}\ngroup: fleet",
			[]string{"kafka.tls.ca_file is empty"},
		},
		{
			"a secret in the place of a map", "group: fleet",
			"kafka: {sasl: {oauthbearer: {extensions: hunter2}}}\ngroup: fleet",
			[]string{"line 2: a single value cannot be used here: write settings below it"},
		},
		{
			"an authority missing", "group: fleet",
			"kafka: {tls: {ca_file: gone.crt}}\ngroup: fleet",
			[]string{"kafka.tls.ca_file: open", "gone.crt", "name an existing file"},
		},
		{
			"a password in the wrong line", "group: fleet", "kafka: {sasl: hunter2}\ngroup: fleet",
			[]string{"line 2: a single value cannot be used here: write settings below it"},
		},
		{
			"a password in the registry's line", "group: fleet",
			"registry: hunter2\ngroup: fleet",
			[]string{"line 2: a single value cannot be used here: write settings below it"},
		},
		{
			"a password in the line of a login", "group: fleet",
			"registry:\n  url: https://a\n  basic_auth: hunter2\ngroup: fleet",
			[]string{"line 4: a single value cannot be used here: write settings below it"},
		},
		{
			"a password for a switch", "group: fleet",
			"kafka: {sasl: {allow_plaintext: hunter2}}\ngroup: fleet",
			[]string{"line 2: a single value cannot be used here: write true or false"},
		},
		{
			"a variable for a number", "epsilon: 0.5", `epsilon: "${SECRET:hunter2}"`,
			[]string{"line 15: release.epsilon: ${SECRET} gives something else than a number"},
		},
		{
			"a variable that turns a limit off", "{epsilon: 6,", `{epsilon: "${NOTHING:}",`,
			[]string{"release.budget.epsilon: ${NOTHING} gives something else than a number"},
		},
		{
			"a variable for a duration", "max_ahead: 2h", "max_ahead: ${AHEAD:2}",
			[]string{"line 20: max_ahead: ${AHEAD} gives something else than a duration"},
		},
		{
			"a number of a variable that is not there", "partitions: 6",
			"partitions: ${GEODITHER_NOWHERE}",
			[]string{
				"line 9: topics.partitions: the environment has no variable GEODITHER_NOWHERE",
			},
		},
		{
			"a variable that is not there", "group: fleet",
			"kafka: {client_id: \"${GEODITHER_NOWHERE}\"}\ngroup: fleet",
			[]string{"the environment has no variable GEODITHER_NOWHERE", "$${GEODITHER_NOWHERE}"},
		},
		{"level", "level: debug", "level: loud", []string{
			"log.level", "debug, info, warn or error",
		}},
		{"format", "format: json", "format: xml", []string{"log.format", "text or json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(complete, c.old, c.new, 1)
			if text == complete {
				t.Fatal("the config was not changed")
			}
			r := call(t, "run", "-c", write(t, dir, "wrong.yml", text))
			code := cli.ExitUsage
			if slices.Contains([]string{ // the config is right, and something is not there
				"model missing", "no key", "key missing", "a key that is a folder",
				"an authority missing",
			}, c.name) {
				code = cli.ExitFailed
			}
			requireMessage(t, r, code, append(c.words, "wrong.yml")...)
			if strings.Contains(r.err, "hunter2") {
				t.Errorf("%q has what may be a secret", r.err)
			}
			if strings.Contains(r.err, "struct {") || strings.Contains(r.err, "main.") ||
				strings.Contains(r.err, "time.Duration") {
				t.Errorf("%q speaks of Go's types", r.err)
			}
		})
	}
	requireMessage(t, call(t, "run", "-c", filepath.Join(dir, "gone.yml")), cli.ExitFailed,
		"gone.yml", "geodither config example")
	requireMessage(t, call(t, "run", "-c", dir), cli.ExitFailed, dir)
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
		t.Error("a wrong config made a state folder")
	}
}

// TestConfigModels: a schedule in place of the model; users' own models are for no service.
func TestConfigModels(t *testing.T) {
	dir, _ := configDir(t, complete)
	townVersions(t, dir)
	load := func(model string) (service.Options, error) {
		o, _, err := config.Service(write(t, dir, "geodither.yml",
			strings.Replace(complete, "model: model.avro", model, 1)))
		return o, err
	}
	one, err := load("model: model.avro")
	if err != nil {
		t.Fatal(err)
	}
	o, err := load("models: schedule.yml")
	if err != nil || len(o.Later) != 1 ||
		!bytes.Equal(o.Fingerprint(), one.Fingerprint()) {
		t.Errorf("a schedule gives %d later versions, %v", len(o.Later), err)
	}
	for want, model := range map[string]string{
		"exclude each other": "model: model.avro\nmodels: schedule.yml",
		"nothing.yml":        "models: nothing.yml",
	} {
		if _, err := load(model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v does not say %q", model, err, want)
		}
	}
}

// TestEachErrorHasALine: several errors are several lines, and each of them names the file, its
// section and one thing that is wrong. A setting that YAML cannot read is one too.
func TestEachErrorHasALine(t *testing.T) {
	dir, _ := configDir(t, complete)
	for name, c := range map[string]struct {
		change []string
		want   []string
	}{
		"values": {
			[]string{
				"group: fleet\n", "group: ''\n", "mechanism: lattice", "mechanism: gauss",
				"epsilon: 0.5", "epsilon: -1", "max_ahead: 2h", "max_ahead: -2h",
			},
			[]string{"group: ", "max_ahead: ", "release: mechanism", "release: epsilon -1"},
		},
		"release": {
			[]string{"interval: 10m", "interval: 90s", "window: 2h", "window: 61s"},
			[]string{"release: interval: ", "release: budget.window: "},
		},
		"yaml": {
			[]string{"group:", "gruop:", "create: true", "create: often"},
			[]string{"line 2: ", "line 8: "},
		},
		"one": {[]string{"group: fleet\n", "group: ''\n"}, []string{"group: "}},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, dir, "wrong.yml", strings.NewReplacer(c.change...).Replace(complete))
			r := call(t, "run", "-c", path)
			lines := strings.Split(strings.TrimSpace(r.err), "\n")
			lines[0] = strings.TrimPrefix(lines[0], "geodither: ")
			if lines = lines[:len(lines)-1]; len(lines) != len(c.want) {
				// the last one points to the help
				t.Fatalf("%d errors, want %d:\n%s", len(lines), len(c.want), r.err)
			}
			for i, line := range lines {
				if want := "config " + path + ": " + c.want[i]; !strings.HasPrefix(line, want) {
					t.Errorf("%q does not begin with %q", line, want)
				}
			}
		})
	}
}
