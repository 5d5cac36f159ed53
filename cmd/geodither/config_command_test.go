package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/deploy"
)

// TestConfigLint: a config is checked where its files are, and where they are not.
func TestConfigLint(t *testing.T) {
	_, path := configDir(t, complete)
	r := succeed(t, "config", "lint", "-c", path)
	for _, want := range []string{
		"warning  release.budget", "no errors, 1 warning",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in:\n%s", want, r.out)
		}
	}
	slow := townModel(t)
	slow.Step = 5 * time.Minute
	if err := slow.WriteFile(filepath.Join(filepath.Dir(path), "model.avro")); err != nil {
		t.Fatal(err)
	}
	for hours, warns := range map[string]bool{
		`from: "06:01", to: "06:05"`: true, `from: "06:01", to: "06:06"`: false,
	} {
		r := succeed(t, "config", "lint", "-c", write(t, filepath.Dir(path), "narrow.yml",
			strings.Replace(complete, "from: 06:00, to: 18:00", hours, 1)))
		if strings.Contains(r.out, "release.hours: entry 1 holds no step's start") != warns {
			t.Errorf("with hours %s lint says\n%s", hours, r.out)
		}
		if !strings.Contains(r.out, "have a release, and one up to 4m0s after they open has none") {
			t.Errorf("with hours %s lint does not say that steps lie across:\n%s", hours, r.out)
		}
	}
	elsewhere := write(t, t.TempDir(), "geodither.yml", complete)
	r = succeed(t, "config", "lint", "-c", elsewhere)
	for _, want := range []string{
		"warning  model: not checked, because model.avro is not here",
		"warning  key_file: not checked, because noise.key is not here",
		"no errors, 3 warnings",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in:\n%s", want, r.out)
		}
	}
	login := strings.Replace(complete, "group: fleet\n", "group: fleet\nkafka: {tls: {}, sasl: "+
		"{mechanism: PLAIN, username: a, password: \"${GEODITHER_NOWHERE}\"}}\n", 1)
	r = succeed(t, "config", "lint", "-c", write(t, filepath.Dir(path), "login.yml", login))
	if want := "warning  kafka: not checked, because the environment has no variable " +
		"GEODITHER_NOWHERE"; !strings.Contains(r.out, want) {
		t.Errorf("%q is not in:\n%s", want, r.out)
	}
	for says, kafka := range map[string]string{
		"has no variable GEODITHER_NOWHERE, and no GEODITHER_NEVER\n": "{tls: {}, sasl: {" +
			"mechanism: PLAIN, username: \"${GEODITHER_NOWHERE}\", " +
			"password: \"${GEODITHER_NEVER}${GEODITHER_NOWHERE}\"}}",
		"these are not here: ca.crt, password\n": "{tls: {ca_file: ca.crt}, sasl: {" +
			"mechanism: SCRAM-SHA-512, username: a, password_file: password}}",
	} {
		text := strings.Replace(complete, "group: fleet\n", "group: fleet\nkafka: "+kafka+"\n", 1)
		r = succeed(t, "config", "lint", "-c", write(t, filepath.Dir(path), "all.yml", text))
		if want := "warning  kafka: not checked, because "; !strings.Contains(r.out, want) ||
			!strings.Contains(r.out, says) {
			t.Errorf("%q is not in:\n%s", says, r.out)
		}
	}
	// Whether a user may have two accounts is known where the number of partitions is.
	unchecked := strings.NewReplacer("  partitions: 6\n", "  partitioner: any\n",
		"raw: json, ", "", "outside: clamp", "preset: owntracks, key_check: off").Replace(complete)
	counted := strings.Replace(unchecked, "budget: {epsilon: 6, window: 2h, lifetime: 500}",
		"budget: none", 1)
	for text, refused := range map[string]int{
		unchecked: 2, counted: 0, counted + "counts: {epsilon: 1, per_day: 9, zone: 1km}\n": 2,
		strings.Replace(unchecked, "create: true", "create: true\n  partitions: 1", 1): 0,
	} {
		r = succeed(t, "config", "lint", "-c", write(t, filepath.Dir(path), "any.yml", text))
		if strings.Count(r.out, "who would have two accounts")+
			strings.Count(r.out, "a user in two has two accounts") != 2 ||
			strings.Count(r.out, "refused unless the raw topic has one partition") != refused {
			t.Errorf("%s\n%s", text, r.out)
		}
	}
	for _, c := range []struct{ old, wrong, want string }{
		{"epsilon: 0.5", "epsilon: -1", "release: epsilon"},
		{"partitions: 6", "partitions: 6\n  partitioner: any", "a raw topic of 6 partitions"},
	} {
		wrong := strings.Replace(complete, c.old, c.wrong, 1)
		if wrong == complete {
			t.Fatalf("the config has no %q", c.old)
		}
		r := call(t, "config", "lint", "-c", write(t, filepath.Dir(path), "wrong.yml", wrong))
		requireMessage(t, r, cli.ExitUsage, c.want)
	}
}

// TestConfigExamples: each example for an environment is a config without faults or warnings, where
// its files and variables are. Where they are not, it has no faults.
func TestConfigExamples(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
	})
	names := deploy.Environments()
	if len(names) < 5 {
		t.Errorf("the environments are %q", names)
	}
	for _, name := range names {
		text := succeed(t, "config", "example", name).out
		if text != read(t, filepath.Join(root, "deploy", "examples", name+".yml")) {
			t.Errorf("%s: what is printed is not the file", name)
		}
		if n := strings.Count(text, "\n"); n > 60 {
			t.Errorf("%s has %d lines: it holds what differs", name, n)
		}
		dir, _ := configDir(t, complete)
		path := write(t, dir, name+".yml", text)
		variables := regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(text, -1)
		if out := succeed(t, "config", "lint", "-c", path).out; len(variables) > 0 &&
			!strings.Contains(out, "kafka: not checked, because the environment has no") {
			t.Errorf("%s without its variables:\n%s", name, out)
		}
		for _, v := range variables {
			t.Setenv(v[1], "words-"+v[1])
		}
		write(t, dir, "ca.crt", string(authority))
		write(t, dir, "password", "words")
		warnings := "no errors, 0 warnings"
		if name == "sample" { // its traces are public, and it has no budget
			warnings = "no errors, 1 warning"
		}
		if out := succeed(t, "config", "lint", "-c", path).out; !strings.Contains(out, warnings) {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	requireMessage(t, call(t, "config", "example", "kafka"), cli.ExitUsage,
		`there is no example "kafka": choose one of confluent, local, msk, redpanda, sample, scram`)
	requireMessage(t, call(t, "config", "example", "msk", "scram"), cli.ExitUsage,
		"one environment")
}

// TestConfigShow: what is shown is the config with its defaults, without its secrets. As a config
// it means the same.
func TestConfigShow(t *testing.T) {
	t.Setenv("WORD", "hunter2")
	dir, path := configDir(t, strings.Replace(complete, "max_ahead: 2h\n",
		"kafka: {tls: {}, sasl: {mechanism: PLAIN, username: \"${USER_NAME:anna}\", "+
			"password: \"${WORD}\"}}\n", 1))
	shown := succeed(t, "config", "show", "-c", path).out
	for _, want := range []string{
		"max_ahead: 2m # default", "level: debug\n", "username: anna\n", "password: '[redacted]'\n",
		"interval: 10m\n", "window: 2h\n", "timestamp: step\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in:\n%s", want, shown)
		}
	}
	for _, wrong := range []string{"hunter2", "oauthbearer", "models"} {
		if strings.Contains(shown, wrong) {
			t.Errorf("%q is in:\n%s", wrong, shown)
		}
	}
	before, _, err := config.Service(path)
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := config.Service(write(t, dir, "shown.yml", shown))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before.Fingerprint(), after.Fingerprint()) {
		t.Errorf("the settings differ: %s", before.Differences(after.Fingerprint()))
	}
	login := "registry: {url: \"https://anna:hunter2@registry.example.com\"}\n" + complete
	if shown := succeed(t, "config", "show", "-c", write(t, dir, "login.yml", login)).out; strings.
		Contains(shown, "hunter2") || !strings.Contains(shown, "url: '[redacted]'") {
		t.Errorf("a login in an address:\n%s", shown)
	}
	none := strings.Replace(complete, "{epsilon: 6, window: 2h, lifetime: 500}",
		"none", 1)
	if shown := succeed(t, "config", "show", "-c", write(t, dir, "none.yml", none)).out; !strings.
		Contains(shown, "budget: none\n") || strings.Contains(shown, "kafka") {
		t.Errorf("without a budget and a login:\n%s", shown)
	}
	requireMessage(t, call(t, "config", "show", "-c", write(t, dir, "wrong.yml", "gruop: a")),
		cli.ExitUsage, "did you mean group?")
}

// TestConfigSchema: the schema takes the configs that the service takes, and refuses names, kinds
// and words that it refuses. It explains each key that the example has a comment beside.
func TestConfigSchema(t *testing.T) {
	text := succeed(t, "config", "schema").out
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(config string) error {
		var value any
		if err := yaml.Unmarshal([]byte(config), &value); err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(decoded)
	}
	example := succeed(t, "config", "example").out
	if file := read(t, filepath.Join(root, "deploy", "geodither.yml")); example != file {
		t.Error("the example is not the file")
	}
	for _, name := range deploy.Environments() {
		text, _ := deploy.ExampleFor(name)
		if err := valid(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, config := range map[string]string{
		"example": example, "complete": complete,
		"compose": read(t, filepath.Join(root, "deploy", "compose", "geodither.yml")),
		"login": strings.Replace(complete, "group: fleet", "group: fleet\nkafka: {tls: {}, sasl: "+
			"{mechanism: \"${MECHANISM:PLAIN}\", password: a}}", 1),
		"no budget": strings.Replace(complete,
			"{epsilon: 6, window: 2h, lifetime: 500}", "none", 1),
		"variables": strings.NewReplacer("epsilon: 0.5", `epsilon: "${EPSILON:1}"`, "create: true",
			"create: ${CREATE:true}", "max_ahead: 2h", "max_ahead: ${AHEAD}", "partitions: 6",
			"partitions: ${COPIES}").Replace(complete),
	} {
		if err := valid(config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for old, wrong := range map[string]string{
		"group: fleet":         "gruop: fleet",
		"  raw: fleet.raw":     "  row: fleet.raw",
		"level: debug":         "level: loud",
		"mechanism: lattice":   "mechanism: gauss",
		"outside: clamp":       "outside: keep",
		"partitions: 6":        "partitions: six",
		"session_timeout: 7s":  "session_timeout: 7",
		"create: true":         "create: often",
		"budget: {epsilon: 6,": "budget: {epsilon: much,",
		"state_dir: state\n":   "",
	} {
		config := strings.Replace(complete, old, wrong, 1)
		if config == complete {
			t.Fatalf("the config has no %q", old)
		}
		if valid(config) == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	explained := 0
	for _, words := range []string{
		"least time between two releases of a user, a multiple of the model's step; default one",
		"a word that no comment has", "in the brokers' quotas and logs",
	} {
		if strings.Contains(text, words) {
			explained++
		}
	}
	if n := strings.Count(text, `"description"`); explained != 2 || n < 40 {
		t.Errorf("%d descriptions", n)
	}
}
