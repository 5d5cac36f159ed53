package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// misconfigured is a cluster, a folder or a command line that is not as it should be. What
// is wrong with a config's text alone stands in TestWrongConfig.
type misconfigured struct {
	name string
	// served: the service has answered the town before, under the config as it is.
	served bool
	// wrong makes it wrong. It may change the config.
	wrong func(w *misconfigWorld)
	// args is the command line, CONFIG and DIR filled in; empty: run -c CONFIG.
	args []string
	// words are in the message.
	words []string
}

// misconfigWorld is the folder and the topics of one case.
type misconfigWorld struct {
	*testing.T
	broker string
	client *kafka.Client
	dir    string
	config string // the text
	n      int    // number of the case: its topics and its group are called by it
}

func (w *misconfigWorld) name(what string) string { return fmt.Sprintf("%s-%d", what, w.n) }

// edit replaces a text of the config that has to be there once.
func (w *misconfigWorld) edit(old, text string) {
	w.Helper()
	if strings.Count(w.config, old) != 1 {
		w.Fatalf("%q is not once in\n%s", old, w.config)
	}
	w.config = strings.Replace(w.config, old, text, 1)
}

// path writes the config and returns its path.
func (w *misconfigWorld) path() string {
	w.Helper()
	return write(w.T, w.dir, "geodither.yml", w.config)
}

// serve lets the service answer what the raw topic holds, and stops it.
func (w *misconfigWorld) serve() {
	w.Helper()
	service := start(w.T, nil, "run", "-c", w.path())
	eventually(w.T, "every answer", func() bool {
		return strings.Count(
			call(w.T, "consume", "--brokers", w.broker, "--topic", w.name("out")).out,
			"\n") >= len(servicetest.TownFixes())
	})
	if code := service.stop(w.T); code != cli.ExitDone {
		w.Fatalf("the service ended with %d\n%s", code, service.log)
	}
}

// remake deletes a topic and, with partitions, makes it again.
func (w *misconfigWorld) remake(topic string, partitions int, configs map[string]string) {
	w.Helper()
	answer, err := w.client.DeleteTopics(w.Context(),
		&kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = answer.Errors[topic]
	}
	if err != nil {
		w.Fatal(err)
	}
	if partitions > 0 {
		w.topic(topic, partitions, configs)
	}
}

func (w *misconfigWorld) topic(topic string, partitions int, configs map[string]string) {
	w.Helper()
	err := admin.CreateTopics(w.Context(), w.client, wire.Options{},
		admin.Topic{Name: topic, Partitions: partitions, Configs: configs})
	if err != nil {
		w.Fatal(err)
	}
}

// spent is how many records the sanitized topic holds for readers of uncommitted data,
// transaction markers included: more of them afterwards would be releases.
func (w *misconfigWorld) spent() (n int64) {
	w.Helper()
	counts, err := admin.Partitions(w.Context(), w.client, wire.Options{}, w.name("out"))
	if err != nil {
		return 0 // not there
	}
	for p := range int32(counts[w.name("out")]) {
		fetcher, err := consumer.NewFetcher(w.client, w.name("out"), p,
			consumer.FetcherOptions{Uncommitted: true})
		if err != nil {
			w.Fatal(err)
		}
		_, end, err := fetcher.Bounds(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		n += end
	}
	return n
}

// TestMisconfigured: whatever is wrong around a config that can be read is answered by a
// clear message and a non-zero exit, and nothing is spent: no record is written to the
// sanitized topic, not even one that is aborted.
func TestMisconfigured(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("runs a service for each case")
	}
	t.Setenv(files.KeyVariable, "")
	broker := startBroker(t)
	model := t.TempDir()
	townFiles(t, model)
	for n, c := range misconfigurations {
		t.Run(c.name, func(t *testing.T) {
			w := &misconfigWorld{
				T: t, broker: broker, client: kafkaClient(broker), dir: t.TempDir(), n: n,
			}
			for _, file := range []string{"model.avro", "traces.csv"} {
				write(t, w.dir, file, read(t, filepath.Join(model, file)))
			}
			succeed(t, "key", "new", filepath.Join(w.dir, "noise.key"))
			w.config = fmt.Sprintf(misconfigBase, broker, w.name("g"), w.name("raw"), w.name("out"))
			succeed(t, "produce", "--brokers", broker, "--topic", w.name("raw"), "--create", "2",
				filepath.Join(w.dir, "traces.csv"))
			if c.served {
				w.serve()
			}
			if c.wrong != nil {
				c.wrong(w)
			}
			before := w.spent()
			args := c.args
			if args == nil {
				args = []string{"run", "-c", "CONFIG"}
			}
			path := w.path()
			filled := make([]string, len(args))
			for i, arg := range args {
				filled[i] = strings.NewReplacer("CONFIG", path, "DIR", w.dir, "BROKER", broker,
					"RAW", w.name("raw"), "OUT", w.name("out")).Replace(arg)
			}
			command := start(t, nil, filled...)
			code, log := command.wait(t), command.log.String()
			requireClear(t, code, command.out.String(), log, c.words)
			if secret := strings.TrimSpace(read(t, filepath.Join(w.dir,
				"noise.key"))); strings.Contains(log+command.out.String(), secret) {
				t.Error("it prints the key")
			}
			if after := w.spent(); after != before {
				t.Errorf("%d records and markers were in the sanitized topic, now %d",
					before, after)
			}
		})
	}
}

// requireClear requires a non-zero exit, and a last message that says all words and speaks
// neither of Go nor of a crash. What doctor finds is on its standard output.
func requireClear(t *testing.T, code int, out, log string, words []string) {
	t.Helper()
	at := strings.LastIndex("\n"+log, "\ngeodither: ")
	if code == cli.ExitDone || at < 0 {
		t.Fatalf("exit %d, and the last line does not begin with the command's name:\n%s",
			code, log)
	}
	message := log[at:] + out
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("it does not say %q:\n%s", word, message)
		}
	}
	for _, word := range []string{
		"panic", "goroutine ", "struct {", "main.", "service.Options", "engine.Settings", "%!",
	} {
		if strings.Contains(message, word) {
			t.Errorf("it says %q:\n%s", word, message)
		}
	}
	if lines := strings.Count(strings.TrimSpace(log[at:]), "\n") + 1; lines > 4 {
		t.Errorf("the cause is in %d lines:\n%s", lines, log[at:])
	}
}

const misconfigBase = `brokers: [%q]
group: %s
topics: {raw: %s, sanitized: %s, create: true}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: {epsilon: 400, window: 24h}}
`

var misconfigurations = []misconfigured{
	{
		name:  "sanitized topic of another size",
		wrong: func(w *misconfigWorld) { w.topic(w.name("out"), 3, nil) },
		words: []string{"out-", "exists with 3 partitions, not 2"},
	},
	{
		name:  "changelog that is not compacted",
		wrong: func(w *misconfigWorld) { w.topic(w.name("g")+"-changelog", 2, nil) },
		words: []string{"changelog", "cleanup.policy", "compact"},
	},
	{
		name:   "changelog deleted",
		served: true,
		wrong:  func(w *misconfigWorld) { w.remake(w.name("g")+"-changelog", 0, nil) },
		words:  []string{"changelog", "rebuild-changelog", "--accept-lost-account"},
	},
	{
		name:   "changelog deleted, asked the doctor",
		served: true,
		wrong:  func(w *misconfigWorld) { w.remake(w.name("g")+"-changelog", 0, nil) },
		args:   []string{"doctor", "-c", "CONFIG"},
		words:  []string{"changelog", "rebuild-changelog", "--accept-lost-account"},
	},
	{
		name:   "changelog made again, empty",
		served: true,
		wrong: func(w *misconfigWorld) {
			w.remake(w.name("g")+"-changelog", 2, map[string]string{"cleanup.policy": "compact"})
		},
		words: []string{"changelog", "rebuild-changelog", "--accept-lost-account"},
	},
	{
		name:   "changelog and state folder lost",
		served: true,
		wrong: func(w *misconfigWorld) {
			w.remake(w.name("g")+"-changelog", 0, nil)
			if err := os.RemoveAll(filepath.Join(w.dir, "state")); err != nil {
				w.Fatal(err)
			}
		},
		words: []string{"changelog", "--accept-lost-account"},
	},
	{
		name:   "raw topic made again",
		served: true,
		wrong: func(w *misconfigWorld) {
			w.remake(w.name("raw"), 2, nil)
			succeed(w.T, "produce", "--brokers", w.broker, "--topic", w.name("raw"),
				filepath.Join(w.dir, "traces.csv"))
		},
		words: []string{"deleted and made again", "another group"},
	},
	{
		name:   "group moved back",
		served: true,
		wrong:  func(w *misconfigWorld) { w.moveGroup(1) },
		words:  []string{"the group is at 1, the changelog at", "moved"},
	},
	{
		name:   "group moved forward",
		served: true,
		wrong:  func(w *misconfigWorld) { w.moveGroup(1_000_000) },
		words:  []string{"the group is at 1000000, the changelog at", "moved"},
	},
	{
		name: "state folder is a file",
		wrong: func(w *misconfigWorld) {
			w.edit("state_dir: state", "state_dir: traces.csv")
		},
		words: []string{"traces.csv", "name another one"},
	},
	{
		name: "state folder below a file",
		wrong: func(w *misconfigWorld) {
			w.edit("state_dir: state", "state_dir: traces.csv/state")
		},
		words: []string{"traces.csv", "name another one"},
	},
	{
		name:   "state folder of another instance",
		served: true,
		wrong: func(w *misconfigWorld) {
			service := start(w.T, nil, "run", "-c", w.path())
			eventually(w.T, "a start", func() bool {
				return strings.Contains(service.log.String(), "partitions assigned")
			})
		},
		words: []string{"in use by another instance", "state folder of its own"},
	},
	{
		name: "a seed for a key",
		wrong: func(w *misconfigWorld) {
			write(w.T, w.dir, "noise.key", noise.KeyFromSeed(1).Reveal())
		},
		words: []string{"seed", "key new"},
	},
	{
		name:  "partitioner of another producer",
		wrong: func(w *misconfigWorld) { w.otherPartitioner() },
		words: []string{"partitioner", "murmur2"},
	},
	{
		name:  "partitioner of another producer, asked the doctor",
		wrong: func(w *misconfigWorld) { w.otherPartitioner() },
		args:  []string{"doctor", "-c", "CONFIG"},
		words: []string{"partitioner", "murmur2"},
	},
	{
		name:  "raw topic of another size than the config's",
		wrong: func(w *misconfigWorld) { w.edit("create: true", "create: true, partitions: 5") },
		words: []string{"topics.partitions", "5", "2"},
	},
	{
		name: "a port that is in use",
		wrong: func(w *misconfigWorld) {
			w.config += fmt.Sprintf("http: {listen: %q}\n", w.broker)
		},
		words: []string{"http.listen: ", "is in use by another process", "choose another port"},
	},
	{
		name:  "raw topic misspelt",
		wrong: func(w *misconfigWorld) { w.edit("raw: raw-", "raw: rwa-") },
		args:  []string{"doctor", "-c", "CONFIG"},
		words: []string{"rwa-", "topics.partitions"},
	},
	{
		name:  "raw topic in another encoding",
		wrong: func(w *misconfigWorld) { w.edit("model:", "encoding: {raw: json}\nmodel:") },
		args:  []string{"doctor", "-c", "CONFIG"},
		words: []string{"encoding.raw"},
	},
	{
		name:  "no broker",
		wrong: func(w *misconfigWorld) { w.edit(w.broker, "127.0.0.1:1") },
		args:  []string{"doctor", "-c", "CONFIG"},
		words: []string{"127.0.0.1:1", "is Kafka running"},
	},
	{
		name:   "replay under another ε",
		served: true,
		wrong:  func(w *misconfigWorld) { w.edit("epsilon: 2,", "epsilon: 3,") },
		args:   []string{"replay", "-c", "CONFIG", "--output-topic", "again-other"},
		words:  []string{"release.epsilon", "--spend-again"},
	},
	{
		name:   "dry replay under another key",
		served: true,
		wrong: func(w *misconfigWorld) {
			write(w.T, w.dir, "noise.key", noise.NewKey().Reveal())
		},
		args:  []string{"replay", "-c", "CONFIG", "--output-topic", "again-dry", "--dry-run"},
		words: []string{"key_file", "--spend-again"},
	},
	{
		name:   "replay into the service's own topic",
		served: true,
		args:   []string{"replay", "-c", "CONFIG", "--output-topic", "OUT"},
		words:  []string{"the service itself uses topic", "--output-topic"},
	},
	{
		name:   "verification of a group that is not there",
		served: true,
		wrong:  func(w *misconfigWorld) { w.edit("group: g-", "group: other-") },
		args:   []string{"state", "verify", "-c", "CONFIG"},
		words:  []string{"other-"},
	},
	{
		name:   "verification under another model",
		served: true,
		wrong: func(w *misconfigWorld) {
			succeed(w.T, "train", "--in", filepath.Join(w.dir, "traces.csv"), "--box",
				servicetest.TownBox,
				"--cell", "250m", "--step", servicetest.TownStep,
				"--out", filepath.Join(w.dir, "model.avro"))
		},
		args:  []string{"state", "verify", "-c", "CONFIG"},
		words: []string{"model"},
	},
	{
		name:  "aggregate of the raw topic",
		wrong: func(w *misconfigWorld) { w.edit(w.name("out"), w.name("raw")) },
		args: []string{
			"aggregate", "-c", "CONFIG", "--window", "10m", "--zone", "1km",
			"--out", "DIR/density.csv",
		},
		words: []string{"raw-", "is this a sanitized topic"},
	},
	{
		name:  "dead letters of another size",
		wrong: func(w *misconfigWorld) { w.topic(w.name("g")+"-dead-letters", 7, nil) },
		words: []string{"dead-letters", "7 partitions"},
	},
	{
		name:   "other settings beside a running instance",
		served: true,
		wrong: func(w *misconfigWorld) {
			service := start(w.T, nil, "run", "-c", w.path())
			eventually(w.T, "a start", func() bool {
				return strings.Contains(service.log.String(), "partitions assigned")
			})
			w.edit("epsilon: 2,", "epsilon: 3,")
			w.edit("state_dir: state", "state_dir: other")
			write(w.T, w.dir, "other.yml", w.config)
		},
		args:  []string{"run", "-c", "DIR/other.yml"},
		words: []string{"other settings", "release.epsilon"},
	},
	{
		name: "key for pseudonyms alone",
		wrong: func(w *misconfigWorld) {
			succeed(w.T, "key", "export", "--pseudonym", filepath.Join(w.dir, "names.key"),
				"--key-file", filepath.Join(w.dir, "noise.key"))
			w.edit("noise.key", "names.key")
		},
		words: []string{"key_file", "pseudonyms"},
	},
	{
		name: "schedule without its model",
		wrong: func(w *misconfigWorld) {
			write(w.T, w.dir, "schedule.yml", "- model: gone.avro\n")
			w.edit("model: model.avro", "models: schedule.yml")
		},
		words: []string{"gone.avro", "no such file"},
	},
	{
		name: "session timeout that the broker refuses",
		wrong: func(w *misconfigWorld) {
			w.edit("state_dir:", "session_timeout: 50ms\nstate_dir:")
		},
		words: []string{"session", "timeout"},
	},
	{
		name: "something else than a broker",
		wrong: func(w *misconfigWorld) {
			w.edit(w.broker, listener(w.T, func(c net.Conn) {
				fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}))
		},
		args:  []string{"doctor", "-c", "CONFIG"},
		words: []string{"127.0.0.1:", "something else than Kafka's protocol"},
	},
	{
		name:   "nobody's state",
		args:   []string{"state", "inspect", "-c", "CONFIG", "--user", "nobody"},
		words:  []string{"no state"},
		served: true,
	},
	{
		name:   "rebuilding beside a running service",
		served: true,
		wrong: func(w *misconfigWorld) {
			service := start(w.T, nil, "run", "-c", w.path())
			eventually(w.T, "a start", func() bool {
				return strings.Contains(service.log.String(), "partitions assigned")
			})
		},
		args:  []string{"state", "rebuild-changelog", "-c", "CONFIG"},
		words: []string{"stop"},
	},
	{
		name:   "rebuilding from a folder that is not there",
		served: true,
		wrong:  func(w *misconfigWorld) { w.remake(w.name("g")+"-changelog", 0, nil) },
		args:   []string{"state", "rebuild-changelog", "-c", "CONFIG", "DIR/gone"},
		words:  []string{"gone", "state folder"},
	},
	{
		name:   "replay of nothing",
		served: true,
		args: []string{
			"replay", "-c", "CONFIG", "--output-topic", "again-none",
			"--from", "2030-01-01T00:00:00Z",
		},
		words: []string{"--from", "holds nothing"},
	},
	{
		name:  "a topic that is not there",
		args:  []string{"consume", "--brokers", "BROKER", "--topic", "nowhere"},
		words: []string{"nowhere"},
	},
	{
		name:  "aggregate without a model",
		wrong: func(w *misconfigWorld) { w.edit("model: model.avro\n", "") },
		args: []string{
			"aggregate", "-c", "CONFIG", "--window", "10m", "--zone", "1km",
			"--out", "DIR/density.csv",
		},
		words: []string{"--model"},
	},
	{
		name: "users' own models",
		wrong: func(w *misconfigWorld) {
			w.edit("model: model.avro", "model: model.avro\npersonal: nowhere")
		},
		words: []string{"personal", "geodither sanitize"},
	},
	{
		name: "a model that is cut short",
		wrong: func(w *misconfigWorld) {
			write(w.T, w.dir, "model.avro", read(w.T, filepath.Join(w.dir, "model.avro"))[:500])
		},
		words: []string{"model.avro"},
	},
	{
		name:  "a key that is a folder",
		wrong: func(w *misconfigWorld) { w.edit("key_file: noise.key", "key_file: .") },
		words: []string{"key_file", "directory"},
	},
}

// otherPartitioner feeds many users by murmur2, and says that they are fed by crc32.
func (w *misconfigWorld) otherPartitioner() {
	w.Helper()
	w.remake(w.name("raw"), 2, nil)
	var fixes []schemas.Raw
	for n := range 60 {
		fix := servicetest.TownFixes()[0]
		fix.UserID = fmt.Sprintf("bus-%d", n)
		fixes = append(fixes, fix)
	}
	succeed(w.T, "produce", "--brokers", w.broker, "--topic", w.name("raw"),
		write(w.T, w.dir, "many.csv", servicetest.TownCSV(fixes)))
	w.edit("create: true", "create: true, partitioner: crc32")
}

// moveGroup commits an offset for the group, as kafka-consumer-groups would.
func (w *misconfigWorld) moveGroup(offset int64) {
	w.Helper()
	commits := map[string][]kafka.OffsetCommit{
		w.name("raw"): {{Partition: 0, Offset: offset}, {Partition: 1, Offset: offset}},
	}
	if _, err := w.client.OffsetCommit(w.Context(), &kafka.OffsetCommitRequest{
		GroupID: w.name("g"), GenerationID: -1, Topics: commits,
	}); err != nil {
		w.Fatal(err)
	}
}
