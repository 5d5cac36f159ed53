package archtest

// Modules that packages may import, by the prefix of their packages' paths.
const (
	aws     = "github.com/aws" // in builds with the tag msk
	avro    = "github.com/twmb/avro"
	cobra   = "github.com/spf13/cobra"
	franz   = "github.com/twmb/franz-go"
	goavro  = "github.com/linkedin/goavro/v2"
	gonum   = "gonum.org/v1"
	plot    = "gonum.org/v1/plot"
	kafkaGo = "github.com/segmentio/kafka-go"
	kfake   = "github.com/twmb/franz-go/pkg/kfake"
	// jsonSchema validates documents by a JSON Schema.
	jsonSchema = "github.com/santhosh-tekuri/jsonschema/v6"
	lru        = "github.com/hashicorp/golang-lru/v2"
	parquet    = "github.com/parquet-go/parquet-go"
	pebble     = "github.com/cockroachdb/pebble/v2"
	pflag      = "github.com/spf13/pflag"
	prom       = "github.com/prometheus"
	protobuf   = "google.golang.org/protobuf"
	sync       = "golang.org/x/sync"
	term       = "golang.org/x/term"
	yamlGo     = "go.yaml.in/yaml/v3"
)

// rule says what one package may import beside the standard library.
type rule struct {
	ours  []string // packages of this module, without its path
	third []string // modules of others
	tests []string // what its tests may import on top, of either sort
	pure  bool     // mathematics: no network, no logging, no contexts
}

// table is the map of the repository: every package stands here, and every entry is used, or the
// test fails. The mathematics (mechanism and below) imports no plumbing, and the
// plumbing carries bytes and imports no mathematics; they meet in
// cmd/internal.
var table = map[string]rule{
	"deploy":           {}, // example configs, and what to do about errors
	"mechanism/convex": {pure: true},
	"mechanism/grid":   {tests: []string{"mechanism/internal/oracle"}, pure: true},
	"mechanism/noise":  {tests: []string{"mechanism/internal/oracle"}, pure: true},
	"mechanism/mobility": {
		ours:  []string{"mechanism/grid", "mechanism/internal/portable", "mechanism/parallel"},
		tests: []string{goavro}, // reads the model file by itself
		pure:  true,
	},
	"mechanism/mobility/train": {
		ours: []string{
			"mechanism/grid", "mechanism/mobility", "mechanism/parallel",
		},
		// goavro: what a file holds; mechanism: the example
		tests: []string{goavro, "mechanism", "mechanism/noise"},
		pure:  true,
	},
	"mechanism/mobility/train/private": {
		ours: []string{
			"mechanism/grid", "mechanism/mobility", "mechanism/mobility/train",
			"mechanism/noise", "mechanism/parallel",
		},
		tests: []string{gonum},
		pure:  true,
	},
	"mechanism/hours": {pure: true},
	"mechanism/ledger": {
		ours:  []string{"mechanism/internal/portable"},
		tests: []string{"mechanism/internal/testcase"}, pure: true,
	},
	"mechanism/law": {
		ours: []string{
			"mechanism/convex", "mechanism/grid", "mechanism/internal/portable",
			"mechanism/mobility", "mechanism/noise",
		},
		tests: []string{"mechanism/internal/oracle", "mechanism/internal/testcase"},
		pure:  true,
	},
	"mechanism/internal/portable": {pure: true},
	// Inputs for tests, oracles, and tests of distributions.
	"mechanism/internal/oracle": {third: []string{gonum}, pure: true},
	"mechanism/internal/testcase": {ours: []string{
		"mechanism/convex", "mechanism/grid", "mechanism/mobility", "mechanism/noise",
	}, pure: true},
	"mechanism": {
		ours: []string{
			"mechanism/convex", "mechanism/grid", "mechanism/hours", "mechanism/internal/portable",
			"mechanism/law", "mechanism/ledger", "mechanism/mobility", "mechanism/noise",
		},
		tests: []string{"mechanism/internal/testcase"},
		pure:  true,
	},
	"mechanism/trial": {
		ours: []string{
			"mechanism", "mechanism/grid", "mechanism/mobility", "mechanism/noise",
			"mechanism/parallel",
		},
		tests: []string{"mechanism/law"}, pure: true,
	},
	// A product for the readers of a sanitized topic, so it knows nothing of the evaluation.
	"mechanism/follow": {
		ours: []string{
			"mechanism", "mechanism/grid", "mechanism/internal/portable", "mechanism/law",
			"mechanism/mobility", "mechanism/noise", "mechanism/parallel",
		},
		tests: []string{"mechanism/internal/testcase"},
		pure:  true,
	},
	"mechanism/counts": {
		ours: []string{
			"mechanism/grid", "mechanism/hours", "mechanism/internal/portable", "mechanism/noise",
		},
		tests: []string{"mechanism/internal/oracle"},
		pure:  true,
	},
	"mechanism/parallel": {pure: true},
	"mechanism/evaluation/tune": {
		ours: []string{
			"mechanism/trial",
			"mechanism", "mechanism/grid", "mechanism/law", "mechanism/mobility",
			"mechanism/mobility/train", "mechanism/noise", "mechanism/parallel",
			"mechanism/evaluation/report",
		},
		pure: true,
	},
	"mechanism/evaluation/report": {
		third: []string{plot}, pure: true,
	},
	"mechanism/evaluation/experiment": {
		ours: []string{
			"mechanism", "mechanism/convex",
			"mechanism/evaluation/report", "mechanism/grid",
			"mechanism/law", "mechanism/mobility",
			"mechanism/mobility/train", "mechanism/noise", "mechanism/parallel", "mechanism/trial",
		},
		third: []string{gonum},
		pure:  true,
	},

	"schemas": {third: []string{goavro}, tests: []string{avro}},
	"schemas/mapping": {
		ours: []string{"schemas"}, third: []string{protobuf}, // the wire format alone
	},
	"schemas/registry": {
		ours: []string{"schemas"},
		// avro: schemas of others, which goavro does not resolve
		third: []string{avro, franz, lru},
	},
	"state": {third: []string{pebble}},
	"producer": {
		ours:  []string{"consumer/wire"},
		third: []string{kafkaGo},
		tests: []string{"consumer/wire/wiretest", franz},
	},
	"consumer": {
		ours:  []string{"consumer/wire"},
		third: []string{kafkaGo},
		tests: []string{
			"consumer/admin", "consumer/group", "consumer/wire/wiretest", "producer", franz,
		},
	},
	"consumer/admin": {
		ours:  []string{"consumer/wire"},
		third: []string{kafkaGo},
		tests: []string{"consumer/wire/wiretest", franz},
	},
	"consumer/group": {
		ours:  []string{"consumer/admin", "consumer/wire"},
		third: []string{kafkaGo},
		tests: []string{"consumer", "consumer/wire/wiretest", "producer", franz},
	},
	"consumer/task": {},
	"consumer/wire": {third: []string{kafkaGo}},
	// What the tests of the packages around it share: a cluster in the test's process.
	"consumer/wire/wiretest": {ours: []string{"consumer/wire"}, third: []string{kafkaGo, franz}},

	"cmd/internal/kafkaconn": {
		ours:  []string{"consumer/admin", "consumer/wire", "cmd/internal/cli"},
		third: []string{aws, kafkaGo},
		tests: []string{franz, yamlGo}, // a broker that has TLS and logins; how secrets print
	},
	"cmd/internal/servicetest/atwork": {
		ours: []string{
			"cmd/internal/account", "cmd/internal/checks", "cmd/internal/engine",
			"cmd/internal/replay", "cmd/internal/service",
			"cmd/internal/servicetest", "cmd/internal/topics", "cmd/internal/verify",
			"mechanism/law", "mechanism/mobility",
		},
	},
	"cmd/internal/verify": {
		ours: []string{
			"cmd/internal/counting", "cmd/internal/engine",
			"cmd/internal/service", "cmd/internal/topics", "consumer", "consumer/admin",
			"consumer/task", "consumer/wire", "mechanism/counts", "mechanism/noise", "schemas",
			"state",
		},
		third: []string{kafkaGo, sync},
		tests: []string{
			"cmd/internal/servicetest", "cmd/internal/servicetest/atwork", "mechanism",
			"producer", franz,
		},
	},
	"cmd/internal/erase": {
		ours: []string{
			"cmd/internal/account", "cmd/internal/counting", "cmd/internal/engine",
			"cmd/internal/topics", "consumer", "consumer/admin", "consumer/task", "consumer/wire",
			"mechanism", "producer", "state",
		},
		third: []string{kafkaGo},
		tests: []string{
			"cmd/internal/replay", "cmd/internal/service",
			"cmd/internal/servicetest", "cmd/internal/servicetest/atwork", "mechanism/grid",
			"mechanism/ledger", "mechanism/mobility", "schemas", pebble,
		},
	},
	"cmd/internal/checks": {
		ours: []string{
			"cmd/internal/account", "cmd/internal/engine", "cmd/internal/erase",
			"cmd/internal/files", "cmd/internal/topics", "consumer", "consumer/admin",
			"consumer/group", "consumer/task", "consumer/wire", "mechanism", "mechanism/hours",
			"mechanism/law", "mechanism/mobility", "mechanism/noise", "schemas", "schemas/mapping",
			"schemas/registry",
		},
		third: []string{kafkaGo},
		tests: []string{
			"cmd/internal/kafkaconn", "cmd/internal/service", "cmd/internal/servicetest",
			"cmd/internal/servicetest/atwork", "producer", franz,
		},
	},
	"cmd/internal/replay": {
		ours: []string{
			"cmd/internal/engine", "cmd/internal/service", "cmd/internal/topics",
			"cmd/internal/verify", "consumer", "consumer/admin", "consumer/task",
			"consumer/wire", "mechanism/noise", "schemas",
		},
		third: []string{kafkaGo},
		tests: []string{
			"cmd/internal/servicetest", "cmd/internal/servicetest/atwork", "mechanism",
			franz,
		},
	},
	// The only package that knows Prometheus.
	"cmd/internal/monitor": {
		ours: []string{
			"cmd/internal/cli", "cmd/internal/engine", "cmd/internal/topics", "consumer/wire",
		},
		third: []string{kafkaGo, prom},
		tests: []string{"schemas", "schemas/mapping", yamlGo},
	},
	"cmd/internal/service": {
		ours: []string{
			"cmd/internal/account", "cmd/internal/checks", "cmd/internal/counting",
			"cmd/internal/engine", "cmd/internal/monitor", "cmd/internal/topics", "consumer",
			"consumer/admin", "consumer/group", "consumer/task", "consumer/wire",
			"mechanism/counts", "mechanism/noise", "producer", "schemas", "schemas/registry",
			"state",
		},
		third: []string{kafkaGo},
		tests: []string{
			"cmd/internal/devbroker", "cmd/internal/erase", "cmd/internal/kafkaconn",
			"cmd/internal/replay", "cmd/internal/servicetest", "cmd/internal/servicetest/atwork",
			"cmd/internal/verify",
			"mechanism", "mechanism/grid", "mechanism/mobility", "schemas/mapping",
			franz, pebble,
		},
	},
	// The engine is attacked from outside: this package meets bytes and mathematics too.
	"cmd/internal/audit": {
		ours: []string{
			"cmd/internal/engine", "consumer/task", "mechanism",
			"mechanism/convex", "mechanism/grid", "mechanism/hours", "mechanism/law",
			"mechanism/mobility", "mechanism/noise", "mechanism/parallel", "mechanism/trial",
			"schemas",
		},
		third: []string{gonum},
	},
	"cmd/internal/cli": {
		ours: []string{
			"deploy", "mechanism/grid", "cmd/internal/traces", "schemas/mapping",
		},
		third: []string{cobra, pflag, term},
	},
	"cmd/internal/files": {
		ours: []string{"mechanism/noise", "schemas", "cmd/internal/cli"}, third: []string{parquet},
	},
	"cmd/internal/fleet": {
		ours: []string{
			"mechanism/trial",
			"mechanism/grid", "mechanism/mobility", "mechanism/mobility/train", "schemas",
			"consumer/admin", "consumer/wire", "producer",
			"cmd/internal/cli", "cmd/internal/traces",
		},
		third: []string{kafkaGo},
	},
	"cmd/internal/topics": {
		ours: []string{
			"cmd/internal/cli", "cmd/internal/kafkaconn", "consumer", "consumer/admin",
			"consumer/task", "consumer/wire",
		},
		third: []string{kafkaGo, sync},
		tests: []string{"cmd/internal/devbroker", "cmd/internal/servicetest"},
	},
	"cmd/internal/demo": {
		ours: []string{
			"cmd/internal/cli", "cmd/internal/devbroker", "cmd/internal/engine",
			"cmd/internal/expect", "cmd/internal/explore", "cmd/internal/fleet",
			"cmd/internal/gather", "cmd/internal/kafkaconn", "cmd/internal/monitor",
			"cmd/internal/service",
			"cmd/internal/topics", "consumer", "consumer/wire", "mechanism",
			"mechanism/follow", "mechanism/grid", "mechanism/law", "mechanism/mobility",
			"mechanism/noise", "mechanism/trial", "schemas",
		},
		third: []string{kafkaGo},
		tests: []string{term},
	},
	"cmd/internal/expect": {
		ours: []string{
			"cmd/internal/cli", "cmd/internal/engine", "mechanism", "mechanism/grid",
			"mechanism/hours", "mechanism/law", "mechanism/mobility", "mechanism/noise",
			"mechanism/trial", "mechanism/evaluation/report",
		},
		tests: []string{"cmd/internal/fleet", "cmd/internal/servicetest"},
	},
	"cmd/internal/gather": {
		ours: []string{
			"cmd/internal/cli", "cmd/internal/engine", "cmd/internal/files",
			"cmd/internal/topics", "cmd/internal/traces", "consumer", "consumer/admin",
			"consumer/wire", "mechanism/follow", "mechanism/grid", "mechanism/mobility",
			"mechanism/mobility/train", "mechanism/mobility/train/private",
			"mechanism/parallel", "schemas", "schemas/mapping",
		},
		third: []string{kafkaGo, sync},
		tests: []string{"cmd/internal/devbroker"},
	},
	"cmd/internal/config": {
		ours: []string{
			"cmd/internal/checks", "cmd/internal/cli", "cmd/internal/counting",
			"cmd/internal/engine", "cmd/internal/files", "mechanism/follow", "mechanism/counts",
			"cmd/internal/kafkaconn", "cmd/internal/monitor", "cmd/internal/service",
			"cmd/internal/topics", "deploy", "mechanism", "mechanism/grid", "mechanism/law",
			"mechanism/mobility", "mechanism/noise",
			"schemas", "schemas/mapping", "schemas/registry", "mechanism/hours",
		},
		third: []string{cobra, kafkaGo, pflag, yamlGo},
		tests: []string{"consumer/wire"},
	},
	"cmd/internal/countfiles": {
		ours: []string{
			"cmd/internal/cli", "cmd/internal/config", "cmd/internal/counting",
			"cmd/internal/engine", "cmd/internal/files", "cmd/internal/traces",
			"mechanism/counts", "mechanism/evaluation/report",
			"mechanism/evaluation/tune", "mechanism/hours", "mechanism/noise",
			"mechanism/parallel", "schemas",
		},
	},
	"cmd/internal/sanitize": {
		ours: []string{
			"cmd/internal/cli", "cmd/internal/engine", "cmd/internal/expect",
			"cmd/internal/files", "cmd/internal/traces", "mechanism", "mechanism/follow",
			"mechanism/law", "mechanism/mobility", "mechanism/noise", "mechanism/parallel",
			"mechanism/trial", "schemas",
		},
		tests: []string{"cmd/internal/servicetest", "mechanism/hours"},
	},
	"cmd/internal/statement": {
		ours: []string{
			"cmd/internal/audit", "cmd/internal/cli", "cmd/internal/config",
			"cmd/internal/countfiles", "cmd/internal/engine", "cmd/internal/files", "mechanism",
			"mechanism/hours", "mechanism/law", "mechanism/mobility", "mechanism/follow",
			"mechanism/noise", "mechanism/trial", "schemas/mapping",
		},
		tests: []string{"cmd/internal/servicetest", "deploy"},
	},
	// The web page. It takes a step apart, so it meets the whole of the mathematics.
	"cmd/internal/explore": {
		ours: []string{
			"cmd/internal/countfiles", "cmd/internal/engine", "cmd/internal/expect",
			"cmd/internal/fleet", "cmd/internal/sanitize", "cmd/internal/traces", "mechanism",
			"mechanism/follow", "mechanism/convex", "mechanism/counts", "mechanism/grid",
			"mechanism/hours", "mechanism/law", "mechanism/mobility", "mechanism/noise",
			"mechanism/parallel", "mechanism/trial", "schemas",
		},
		tests: []string{"cmd/internal/cli", "cmd/internal/config", "cmd/internal/files"},
	},
	"cmd/internal/devbroker": {third: []string{franz, kafkaGo, pebble}},
	"cmd/internal/traces": {
		ours: []string{"schemas", "schemas/mapping", "mechanism/parallel"},
	},
	"cmd/internal/kafkatest": {
		tests: []string{
			"cmd/internal/account", "cmd/internal/config", "cmd/internal/counting",
			"cmd/internal/checks", "cmd/internal/engine", "cmd/internal/erase",
			"cmd/internal/fleet", "cmd/internal/kafkaconn", "cmd/internal/monitor",
			"cmd/internal/service", "cmd/internal/servicetest", "cmd/internal/servicetest/atwork",
			"cmd/internal/topics", "cmd/internal/verify",
			"consumer", "consumer/admin", "consumer/group", "consumer/task", "consumer/wire",
			"mechanism", "mechanism/grid", "mechanism/law",
			"mechanism/mobility", "mechanism/noise", "producer", "schemas",
			"schemas/registry", franz, kafkaGo, sync,
		},
	},
	"cmd/internal/servicetest": {
		ours: []string{
			"cmd/internal/devbroker", "cmd/internal/kafkaconn", "cmd/internal/topics",
			"consumer", "consumer/admin", "consumer/task", "consumer/wire", "mechanism",
			"mechanism/grid", "mechanism/mobility", "mechanism/mobility/train",
			"mechanism/noise", "producer",
			"schemas", "mechanism/law",
		},
		third: []string{franz, kafkaGo},
	},
	"cmd/internal/engine": {
		ours: []string{
			"consumer/task", "mechanism", "mechanism/follow", "mechanism/grid",
			"mechanism/hours", "mechanism/law", "mechanism/mobility", "mechanism/noise",
			"schemas", "schemas/mapping", "schemas/registry",
		},
		tests: []string{"cmd/internal/servicetest", "mechanism/ledger", franz, kafkaGo},
	},
	"cmd/internal/counting": {
		ours: []string{
			"cmd/internal/engine", "consumer/task", "consumer/wire", "mechanism/counts",
			"mechanism/noise", "schemas", "schemas/mapping",
		},
		tests: []string{"mechanism/grid"},
	},
	"cmd/internal/account": {
		ours: []string{
			"cmd/internal/engine", "cmd/internal/topics", "consumer", "consumer/admin",
			"consumer/task", "consumer/wire", "mechanism", "mechanism/grid", "mechanism/ledger",
			"mechanism/mobility", "producer", "state",
		},
		third: []string{kafkaGo},
		tests: []string{
			"cmd/internal/service", "cmd/internal/servicetest", "cmd/internal/servicetest/atwork",
			"mechanism/noise", "schemas",
		},
	},
	"cmd/internal/archtest": {tests: []string{"deploy", yamlGo}},
	"cmd/geodither": {
		ours: []string{
			"cmd/internal/account",
			"cmd/internal/audit", "cmd/internal/cli", "cmd/internal/config",
			"cmd/internal/countfiles", "cmd/internal/counting", "cmd/internal/demo",
			"cmd/internal/devbroker",
			"cmd/internal/checks", "cmd/internal/engine", "cmd/internal/erase",
			"cmd/internal/expect", "cmd/internal/explore",
			"cmd/internal/files", "cmd/internal/fleet",
			"cmd/internal/gather", "cmd/internal/kafkaconn",
			"cmd/internal/monitor",
			"cmd/internal/replay", "cmd/internal/sanitize", "cmd/internal/service",
			"cmd/internal/statement", "cmd/internal/topics", "cmd/internal/traces",
			"cmd/internal/verify", "consumer",
			"deploy",
			"mechanism", "mechanism/follow", "mechanism/counts",
			"mechanism/grid",
			"mechanism/evaluation/experiment",
			"mechanism/evaluation/tune", "mechanism/law",
			"mechanism/mobility", "mechanism/mobility/train", "mechanism/noise",
			"mechanism/trial", "schemas", "schemas/registry",
		},
		third: []string{cobra, pflag},
		tests: []string{
			"consumer/admin", "consumer/wire", "mechanism/hours", "producer", "schemas/mapping",
			"cmd/internal/servicetest",
			franz, jsonSchema, kafkaGo, parquet, yamlGo,
		},
	},
}

// topLevel is what may lie at the root beside dot files.
var topLevel = []string{
	"go.mod", "go.sum", "cmd", "consumer", "producer", "state", "mechanism", "schemas", "deploy",
	"docker-compose.yml", "Makefile", "README.md", "LICENSE",
}

// noPlumbing are the parts of the standard library that pure packages keep away
// from. Their secret types may know log/slog, to be redacted in it.
var noPlumbing = []string{"context", "log", "net", "os/exec", "os/signal", "database", "syscall"}

// mayKeepRaw are the packages whose structs may hold raw fixes in unexported fields, which print in
// full: there, the fixes are those of the shipped sample.
var mayKeepRaw = []string{"cmd/internal/demo"}
