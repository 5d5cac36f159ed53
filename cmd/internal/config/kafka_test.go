package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/consumer/wire"
)

// readText reads a config of some text, and returns it with its folder.
func readText(t *testing.T, text string) (File, string, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "geodither.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := Read(path)
	return file, dir, err
}

// TestKafka: every key of the section has an effect, and its paths are those of the config's
// folder.
func TestKafka(t *testing.T) {
	file, dir, err := readText(t, `
kafka:
  client_id: truck
  rack: a
  tls: {ca_file: ca, cert_file: cert, key_file: key, server_name: name}
  sasl:
    mechanism: OAUTHBEARER
    username: u
    password: p
    password_file: pf
    allow_plaintext: true
    oauthbearer: {token_endpoint_url: url, client_id: c, client_secret: s,
      client_secret_file: sf, scope: sc, ca_file: oca, token_file: tf, extensions: {a: b}}
`)
	if err != nil {
		t.Fatal(err)
	}
	var whole func(name string, v reflect.Value)
	whole = func(name string, v reflect.Value) {
		for i := range v.NumField() {
			field, f := name+"."+v.Type().Field(i).Name, v.Field(i)
			switch {
			case f.Kind() == reflect.Struct:
				whole(field, f)
			case f.IsZero() && field != "kafka.unset":
				t.Errorf("%s is not set", field)
			}
		}
	}
	whole("kafka", reflect.ValueOf(file.Kafka))
	ready, err := file.Kafka.ready()
	if err != nil {
		t.Fatal(err)
	}
	o := ready.options("member")
	whole("tls", reflect.ValueOf(*o.TLS))
	whole("sasl", reflect.ValueOf(*o.SASL))
	a := o.SASL.OAuth
	for _, path := range []string{
		o.TLS.CAFile, o.TLS.CertFile, o.TLS.KeyFile, o.SASL.PasswordFile, a.ClientSecretFile,
		a.CAFile, a.TokenFile,
	} {
		if filepath.Dir(path) != dir {
			t.Errorf("%s is not in the folder of the config", path)
		}
	}
	if o.ClientID != "truck" || o.Rack != "a" {
		t.Errorf("client id %q, rack %q", o.ClientID, o.Rack)
	}
}

// TestKafkaSwitches: TLS is on if its section is there, and so is a login. Nothing in them, such as
// a variable that is empty, turns them off.
func TestKafkaSwitches(t *testing.T) {
	for text, want := range map[string]string{
		"group: g": "", "kafka: {rack: a}": "",
		"kafka: {tls: {ca_file: ca}}":     "TLS",
		"kafka: {tls: {}}":                "TLS",
		"kafka: {tls: }":                  "TLS",
		"kafka: {tls: {server_name: ''}}": "TLS",
		"kafka: {<<: {tls: {}}}":          "TLS",
		"kafka: {sasl: {username: u}}":    "SASL",
		"kafka: {sasl: {username: ''}}":   "SASL",
		"kafka: {sasl: }":                 "SASL",
	} {
		file, _, err := readText(t, text)
		if err != nil {
			t.Fatal(err)
		}
		ready, err := file.Kafka.ready()
		if err != nil {
			t.Fatal(err)
		}
		o := ready.options("")
		if (o.TLS != nil) != (want == "TLS") || (o.SASL != nil) != (want == "SASL") {
			t.Errorf("%s: %+v", text, o)
		}
	}
}

// TestEmptyPaths: a path that was written and is empty is an error, not a setting less.
func TestEmptyPaths(t *testing.T) {
	for text, key := range map[string]string{
		"tls: {ca_file: '${GEODITHER_TEST_NONE:}'}":        "tls.ca_file",
		"tls: {cert_file: '', key_file: a}":                "tls.cert_file",
		"tls: {key_file: }":                                "tls.key_file",
		"sasl: {password_file: '${GEODITHER_TEST_NONE:}'}": "sasl.password_file",
		"sasl: {oauthbearer: {ca_file: ''}}":               "sasl.oauthbearer.ca_file",
		"sasl: {oauthbearer: {token_file: ''}}":            "sasl.oauthbearer.token_file",
		"sasl: {oauthbearer: {client_secret_file: ''}}":    "sasl.oauthbearer.client_secret_file",
	} {
		file, _, err := readText(t, "kafka: {"+text+"}")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Connection(); err == nil ||
			!strings.Contains(err.Error(), "kafka."+key+" is empty") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestKafkaVariables: a command that connects to nothing needs no variable of the section kafka,
// and one that connects does.
func TestKafkaVariables(t *testing.T) {
	const text = "kafka: {sasl: {mechanism: PLAIN, username: u, " +
		"allow_plaintext: true, password: '${GEODITHER_TEST_LATE}'}}"
	file, _, err := readText(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Connection(); err == nil ||
		!strings.Contains(err.Error(), "no variable GEODITHER_TEST_LATE:") {
		t.Errorf("without the variable: %v", err)
	}
	t.Setenv("GEODITHER_TEST_LATE", "p")
	if file, _, err = readText(t, text); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := file.Connection(); err != nil {
			t.Error(err)
		}
	}
}

// TestSecretsAreInConnections: what stands on a line of a connection is never repeated in an error,
// so no other section may hold a secret.
func TestSecretsAreInConnections(t *testing.T) {
	var holds func(of reflect.Type) bool
	holds = func(of reflect.Type) bool {
		if of.Kind() != reflect.Struct {
			return of == reflect.TypeFor[kafkaconn.Secret]()
		}
		for i := range of.NumField() {
			if of.Field(i).IsExported() && holds(of.Field(i).Type) {
				return true
			}
		}
		return false
	}
	of := reflect.TypeFor[File]()
	for i := range of.NumField() {
		name := of.Field(i).Tag.Get("yaml")
		if holds(of.Field(i).Type) != slices.Contains(connections, name) {
			t.Errorf("the section %q", name)
		}
	}
}

// TestClientID: instances that have an id of their own are told apart by it.
func TestClientID(t *testing.T) {
	for text, want := range map[string]string{
		"group: g":        "geodither",
		"instance_id: i7": "geodither-i7",
		"instance_id: i7\nkafka: {client_id: fleet}": "fleet",
	} {
		file, _, err := readText(t, text)
		if err != nil {
			t.Fatal(err)
		}
		connection, err := file.Connection()
		if err != nil {
			t.Fatal(err)
		}
		if got := connection.Client([]string{
			"b:1",
		}).Transport.(*wire.Transport).ClientID; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestVariables: variables of the environment are put into texts after YAML was parsed, so that
// what they hold is one text, whatever it is.
func TestVariables(t *testing.T) {
	t.Setenv("GEODITHER_TEST_TRICK", "a: [b}\n# \"c\" ${GEODITHER_TEST_EMPTY}")
	t.Setenv("GEODITHER_TEST_EMPTY", "")
	t.Setenv("GEODITHER_TEST_BROKER", "one:9092")
	file, dir, err := readText(t, `
brokers: ["${GEODITHER_TEST_BROKER}", two:9092]
group: x-${GEODITHER_TEST_TRICK}-y
instance_id: "${GEODITHER_TEST_NONE:pod}${GEODITHER_TEST_NONE:}"
state_dir: ${GEODITHER_TEST_NONE:state}
topics: {raw: "$${GEODITHER_TEST_BROKER} $5", sanitized: "${GEODITHER_TEST_EMPTY:no}"}
kafka:
  sasl:
    password: "${GEODITHER_TEST_BROKER}"
    oauthbearer: {extensions: {a: "${GEODITHER_TEST_BROKER}"}}
`)
	if err != nil {
		t.Fatal(err)
	}
	kafka, err := file.Kafka.ready()
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][2]string{
		"in a list":  {strings.Join(file.Brokers, " "), "one:9092 two:9092"},
		"as it is":   {file.Group, "x-a: [b}\n# \"c\" ${GEODITHER_TEST_EMPTY}-y"},
		"default":    {file.Member, "pod"},
		"in a path":  {file.StateDir, filepath.Join(dir, "state")},
		"escaped":    {file.Topics.Raw, "${GEODITHER_TEST_BROKER} $5"},
		"empty":      {file.Topics.Sanitized, ""},
		"in a map":   {kafka.SASL.OAuth.Extensions["a"], "one:9092"},
		"in secrets": {kafka.SASL.Password(), "one:9092"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %q, want %q", name, got[0], got[1])
		}
	}
	_, _, err = readText(t, "group: ${GEODITHER_TEST_NONE}\nmodel: ${GEODITHER_TEST_NONE_EITHER}")
	if err == nil || !strings.Contains(err.Error(), "no variable GEODITHER_TEST_NONE:") ||
		!strings.Contains(err.Error(), "no variable GEODITHER_TEST_NONE_EITHER:") {
		t.Errorf("variables that are not there: %v", err)
	}
}

// TestNumbersFromVariables: numbers, durations and switches of any section can be variables, in
// every form that a line of YAML has, and what a variable holds stays one value.
func TestNumbersFromVariables(t *testing.T) {
	t.Setenv("GEODITHER_TEST_NUMBER", "1e-3")
	t.Setenv("GEODITHER_TEST_SECONDS", "90")
	t.Setenv("GEODITHER_TEST_OFF", "false")
	t.Setenv("GEODITHER_TEST_TRICK", "8 # more\nmax_ahead: 3m7s")
	file, _, err := readText(t, `
group: größe
topics: {create: "${GEODITHER_TEST_OFF}", partitions: '${GEODITHER_TEST_NONE:6}'} # ${NOTHING}
transaction:
  max_records: ${GEODITHER_TEST_SECONDS}
release:
  epsilon: ${GEODITHER_TEST_NUMBER}  # a comment
  mechanism: "${GEODITHER_TEST_NONE:codebook}"
  budget: {lifetime: "${GEODITHER_TEST_NONE:2}", "epsilon": "1${GEODITHER_TEST_SECONDS}", window:
"${GEODITHER_TEST_NONE:24h}"}
session_timeout: ${GEODITHER_TEST_SECONDS}s
kafka: {sasl: {allow_plaintext: "${GEODITHER_TEST_NONE:yes}"}}
input: {where: [{path: a, exists: "${GEODITHER_TEST_OFF}"}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	exists := file.Input.Where[0].Exists
	for name, ok := range map[string]bool{
		"a switch in quotes":        !file.Topics.Create,
		"a number in quotes":        file.Topics.Partitions == 6,
		"a number":                  file.Transaction.MaxRecords == 90,
		"a number that may be away": file.Release.Epsilon != nil && *file.Release.Epsilon == .001,
		"behind other letters":      file.Release.Budget.Lifetime == 2,
		"a part of a number":        file.Release.Budget.Epsilon == 190,
		"a duration":                file.Release.Budget.Window == 24*time.Hour,
		"a part of a duration":      file.SessionTimeout == 90*time.Second,
		"a switch in a list":        exists != nil && !*exists,
		"a switch in YAML's words":  file.Kafka.SASL.AllowPlaintext,
	} {
		if !ok {
			t.Errorf("%s is not what its variable holds", name)
		}
	}
	_, _, err = readText(t,
		"transaction:\n  max_records: ${GEODITHER_TEST_TRICK}\nmax_ahead: ${GEODITHER_TEST_OFF}")
	if err == nil ||
		!strings.Contains(err.Error(), "transaction.max_records: ${GEODITHER_TEST_TRICK} gives") ||
		!strings.Contains(err.Error(), "max_ahead: ${GEODITHER_TEST_OFF} gives something else") ||
		strings.Contains(err.Error(), "3m7s") {
		t.Errorf("variables that hold something else: %v", err)
	}
}
