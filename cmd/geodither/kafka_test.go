package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// byUser groups records and keeps their order within a user, which is all that
// a topic of several partitions promises.
func byUser(records []schemas.Sanitized) map[string][]schemas.Sanitized {
	users := map[string][]schemas.Sanitized{}
	for _, r := range records {
		users[r.UserID] = append(users[r.UserID], r)
	}
	return users
}

// TestProduceRunConsume takes a file through Kafka: produce, run, consume in
// every format. What comes out is what sanitize makes of the same file with the
// same key, model and options, record for record, whatever the settings.
func TestProduceRunConsume(t *testing.T) {
	for _, c := range []throughKafka{
		{
			name: "avro", encoding: "avro",
			release: "mechanism: lattice, delta: 0.02, budget: none",
			keeps:   func(s sanitize.Summary) bool { return s.Repeats > 0 },
		},
		{
			name: "json", encoding: "json", release: "mechanism: codebook, budget: none",
			keeps: func(s sanitize.Summary) bool { return s.Mechanism == "codebook" },
		},
		{
			name: "interval", encoding: "auto", sanitized: "avro_registry",
			release: "mechanism: lattice, delta: 0.02, interval: 3m, budget: none",
			keeps:   func(s sanitize.Summary) bool { return s.Predictions > 0 },
		},
		{
			name: "rules", encoding: "avro", sanitized: "json_schema",
			release: "mechanism: codebook, interval: 2m, " +
				"between: skip, budget: {epsilon: 8, window: 20m, lifetime: 20}",
			keeps: func(s sanitize.Summary) bool {
				return s.Skipped > 0 && s.Suppressed > 0 && s.Repeats > 0 && s.EpsilonMax <= 20
			},
		},
		{
			name: "anonymous", encoding: "avro",
			release: "mechanism: lattice, delta: 0.02, interval: 2m, budget: none",
			publish: "{timestamp: step, user: pseudonym}",
			keeps: func(s sanitize.Summary) bool {
				return s.Predictions > 0 && s.Metric.Farthest.Largest > 1
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t) })
	}
}

// throughKafka is one set of settings, as the config of a service and of sanitize.
type throughKafka struct {
	name, encoding, release, publish string
	sanitized                        string // the encoding of what is published; default encoding
	// that the settings have had their effect
	keeps func(s sanitize.Summary) bool
}

func (c throughKafka) test(t *testing.T) {
	t.Helper()
	encoding, sanitized := c.encoding, cmp.Or(c.sanitized, c.encoding)
	registry := srfake.New()
	defer registry.Close()
	dir, broker, fixes := t.TempDir(), startBroker(t), servicetest.TownFixes()
	townFiles(t, dir)
	late := fixes[0]
	late.Latitude += .001 // another fix of the first step, after the last one
	traces := write(t, dir, "traces.csv", servicetest.TownCSV(append(fixes, late))+"0,junk,10,20\n")
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)

	as := withConfig(t, fmt.Sprintf("{brokers: [%q], encoding: {raw: %s}}", broker, encoding))
	fed := succeed(t, append([]string{"produce", "--topic", "raw", "--create", "3", "--in", traces},
		as...)...)
	if want := fmt.Sprintf("produced %d records to raw (3 partitions)", len(fixes)+
		1); !strings.Contains(fed.err, want) || !strings.Contains(fed.err, "1 line skipped") {
		t.Errorf("produce says %q, want %q and a skipped line", fed.err, want)
	}
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true}
encoding: {raw: %s, sanitized: %s}
registry: {url: %q}
model: model.avro
key_file: noise.key
state_dir: state
release: {epsilon: 2, %s}
publish: %s
log: {level: debug}
`, broker, encoding, sanitized, registry.URL(), c.release, c.publish))
	report := filepath.Join(dir, "report.json")
	_, lines := sanitizeTo(t, "json",
		"sanitize", "-c", config, "--in", traces, "--key-file", key, "--report", report)
	want := decoded(t, lines)
	var summary sanitize.Summary
	if err := json.Unmarshal([]byte(read(t, report)), &summary); err != nil || !c.keeps(summary) {
		t.Errorf("%v, sanitize's report: %+v", err, summary)
	}
	service := start(t, nil, "run", "-c", config)
	consume := func(more ...string) result {
		return call(t, append([]string{"consume", "-c", config, "--topic", "out"}, more...)...)
	}
	eventually(t, "every record", func() bool {
		return strings.Count(consume().out, "\n") >= len(want)
	})
	eventually(t, "the late fix", func() bool {
		return strings.Contains(call(t, "consume", "-c", config, "--topic", "g-dead-letters").err,
			"(--dead-letters)")
	})
	if code := service.stop(t); code != cli.ExitDone ||
		strings.Contains(service.log.String(), "level=ERROR") {
		t.Errorf("the service ended with %d\n%s", code, service.log)
	}
	if secret := strings.TrimSpace(read(t, key)); strings.Contains(
		service.log.String()+service.out.String(), secret) {
		t.Error("the service logged its key")
	}

	got := decoded(t, consume("--format", "json").out)
	users := byUser(got)
	if len(got) != len(want) || len(users) != 6 {
		t.Errorf("%d records of %d users, want %d", len(got), len(users), len(want))
	}
	for user, records := range byUser(want) {
		if !slices.Equal(users[user], records) {
			t.Errorf("user %s: the service publishes other records than sanitize", user)
		}
	}
	requireUsers(t, consume("--format", "csv").out, users)
	if geo := consume("--format", "geojson"); geo.code != cli.ExitDone ||
		strings.Count(geo.out, `"Feature"`) != len(got) {
		t.Errorf("exit %d, %d features", geo.code, strings.Count(geo.out, `"Feature"`))
	}
	packed := consume("--format", "parquet").out
	rows, err := parquet.Read[struct {
		UserID    string  `parquet:"user_id"`
		Timestamp int64   `parquet:"timestamp,timestamp(millisecond:utc)"`
		Latitude  float64 `parquet:"latitude"`
	}](strings.NewReader(packed), int64(len(packed)))
	if err != nil || len(rows) != len(got) {
		t.Fatalf("%d rows in Parquet, want %d: %v", len(rows), len(got), err)
	}
	for _, row := range rows {
		if !slices.ContainsFunc(users[row.UserID], func(r schemas.Sanitized) bool {
			return r.Timestamp == row.Timestamp && r.Latitude == row.Latitude
		}) {
			t.Fatalf("there is no record for the row %+v in Parquet", row)
		}
	}
	for _, other := range []string{"avro", "json_schema"} { // the records tell theirs
		as := withConfig(t,
			fmt.Sprintf("{brokers: [%q], encoding: {sanitized: %s}}", broker, other))
		again := call(t, append([]string{"consume", "--topic", "out"}, as...)...)
		if again.code != cli.ExitDone || strings.Count(again.out, "\n") != len(got) {
			t.Errorf("under %s the topic has %d records, %s", other,
				strings.Count(again.out, "\n"), again.err)
		}
	}
	for _, format := range []string{"json", "csv", "geojson", "parquet"} {
		for topic, message := range map[string]string{
			"raw": "is this a sanitized topic", "gone": "gone",
		} {
			r := call(t, "consume", "-c", config, "--topic", topic, "--format", format)
			requireMessage(t, r, cli.ExitFailed, message)
			if r.out != "" {
				t.Errorf("%s of %s: before its error it printed %q", format, topic, r.out)
			}
		}
	}
}

// TestConsumeEmpty: the CSV of an empty topic is a header, also for dead letters.
func TestConsumeEmpty(t *testing.T) {
	embedded, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{{Name: "out"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { embedded.Close() })
	broker := embedded.Addr()
	r := succeed(t, "consume", "--brokers", broker, "--topic", "out", "--format", "csv")
	if !strings.HasPrefix(r.out, "user_id,") || strings.Count(r.out, "\n") != 1 {
		t.Errorf("it printed %q, want the header alone", r.out)
	}
	r = succeed(t, "consume", "--brokers", broker, "--topic", "out", "--format", "csv",
		"--dead-letters")
	if r.out != "topic,partition,offset,reason,timestamp\n" {
		t.Errorf("it printed %q, want the header alone", r.out)
	}
}

// requireUsers holds CSV in whatever order of users against records.
func requireUsers(t *testing.T, text string, users map[string][]schemas.Sanitized) {
	t.Helper()
	var want []schemas.Sanitized
	next := map[string]int{}
	for line := range strings.Lines(text) {
		user, _, _ := strings.Cut(line, ",")
		if i := next[user]; i < len(users[user]) {
			want = append(want, users[user][i])
			next[user]++
		}
	}
	requireCSV(t, text, want)
}

// sanitizedTopic fills a topic with the town's sanitized records by running the
// service for a moment, and returns how many there are.
func sanitizedTopic(t *testing.T, dir, broker string) (service *background, n int) {
	t.Helper()
	traces, _ := townFiles(t, dir)
	write(t, dir, "noise.key", noise.KeyFromSeed(1<<40).Reveal())
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true, partitions: 2}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: codebook, epsilon: 2, budget: none}
`, broker))
	service = start(t, nil, "run", "-c", config)
	eventually(t, "the topics", func() bool {
		return call(t, "consume", "--brokers", broker, "--topic", "out").code == cli.ExitDone
	})
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", traces)
	return service, len(servicetest.TownFixes())
}

// TestConsumeSaysWhatItWaitsFor: an empty topic, and records of a transaction that is still open.
func TestConsumeSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 0)
	broker := w.Addr
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "waited", Partitions: 1}))
	args := []string{"consume", "--brokers", broker, "--topic", "waited"}
	if r := succeed(t, args...); !strings.Contains(r.err, "waited is empty") {
		t.Errorf("an empty topic: %s", r.err)
	}
	p, err := producer.NewTransactional(w.Client, "open", producer.Options{})
	servicetest.OK(t, err)
	servicetest.OK(t, p.Init(t.Context()))
	_, err = p.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: "waited", Partition: 0},
		Records:        []producer.Record{{Value: []byte("{}")}},
	})
	servicetest.OK(t, err)
	const open = "waited has 1 offsets behind a transaction that is neither committed nor aborted"
	if r := succeed(t, args...); !strings.Contains(r.err, open) {
		t.Errorf("an open transaction: %s", r.err)
	}
	following := start(t, nil, append(args, "--follow")...)
	eventually(t, "the reason", func() bool {
		return strings.Contains(following.log.String(), "waiting for records until Ctrl-C: "+open)
	})
	following.stop(t)
}

// TestConsumeFollow: with --follow records are shown as they come, in each
// format, and Ctrl-C ends it well, with complete output.
func TestConsumeFollow(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	_, n := sanitizedTopic(t, dir, broker)
	follow := func(more ...string) *background {
		return start(t, nil, append(
			[]string{"consume", "--brokers", broker, "--topic", "out", "--follow"}, more...)...)
	}
	lines, table, features, behind := follow(), follow("--format", "csv"),
		follow("--format", "geojson"), follow("--from-end")
	packed := follow("--format", "parquet")
	for _, b := range []*background{lines, table, features} {
		eventually(t, "every record", func() bool {
			return strings.Count(b.out.String(), "codebook") >= n
		})
		if code := b.stop(t); code != cli.ExitDone || b.log.String() != "" {
			t.Errorf("exit %d: %s", code, b.log)
		}
	}
	all := decoded(t, lines.out.String())
	requireUsers(t, table.out.String(), byUser(all))
	if len(all) != n || !json.Valid([]byte(features.out.String())) {
		t.Errorf("%d records, want %d; GeoJSON is whole: %v",
			len(all), n, json.Valid([]byte(features.out.String())))
	}
	// The rows of Parquet are in memory when it is interrupted.
	if code := packed.stop(t); code != cli.ExitDone {
		t.Errorf("exit %d: %s", code, packed.log)
	}
	file, err := parquet.OpenFile(strings.NewReader(packed.out.String()),
		int64(len(packed.out.String())))
	if err != nil || file.NumRows() > int64(n) {
		t.Errorf("after Ctrl-C the Parquet file is not whole: %v", err)
	}
	if code := behind.stop(t); code != cli.ExitDone ||
		strings.Count(behind.out.String(), "\n") > n {
		t.Errorf("from the end: exit %d, %d records", code,
			strings.Count(behind.out.String(), "\n"))
	}
	requireMessage(t, call(t, "consume", "--topic", "out", "--from-end"), cli.ExitUsage,
		"add --follow")
}

// waitsForKafka is what a service logs while there is no broker that it can use.
const waitsForKafka = "waiting for Kafka and its topics"

// TestMissingTopic: the message names the topic and what to do.
func TestMissingTopic(t *testing.T) {
	broker := startBroker(t)
	_, model := townFiles(t, t.TempDir())
	dead := "127.0.0.1:1"
	for _, brokers := range []string{broker, dead + "," + broker, broker + "," + dead} {
		requireMessage(t, call(t, "consume", "--brokers", brokers, "--topic", "gone"),
			cli.ExitFailed, "gone", "create it")
		requireMessage(t, call(t, "produce", "--brokers", brokers, "--topic", "gone",
			"--simulate", "1", "--steps", "1", "--model", model), cli.ExitFailed, "gone")
	}
	made := write(t, t.TempDir(), "made.yml", fmt.Sprintf(
		"brokers: [%q]\ngroup: g\ntopics: {raw: r, sanitized: out, create: true}\n", broker))
	requireMessage(t, call(t, "consume", "-c", made), cli.ExitFailed, "there is no topic out yet",
		"(topics-missing)")
	requireMessage(t, call(t, "consume", "-c", made, "--topic", "gone"), cli.ExitFailed,
		"no such topic: gone")
	succeed(t, "produce", "--brokers", broker, "--topic", "fleet.raw", "--create", "1",
		"--simulate", "1", "--steps", "1", "--model", model)
	requireMessage(t, call(t, "consume", "--brokers", broker, "--topic", "fleet.rwa"),
		cli.ExitFailed, "no such topic: fleet.rwa", "there is fleet.raw: a misspelling?")
}

// TestBroker: the embedded broker says where it listens, keeps its topics in a
// folder, and ends well with Ctrl-C.
func TestBroker(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	for round := 1; round <= 2; round++ {
		b := start(t, nil, "broker", "--port", "0", "--dir", filepath.Join(dir, "data"))
		eventually(t, "its address", func() bool { return strings.Contains(b.out.String(), "\n") })
		addr := strings.TrimSpace(strings.TrimPrefix(b.out.String(), "listening on "))
		if _, port, err := net.SplitHostPort(addr); err != nil || port == strconv.Itoa(0) {
			t.Fatalf("it says %q", b.out)
		}
		succeed(t, "produce", "--brokers", addr, "--topic", "t", "--create", "1", "--simulate", "5",
			"--steps", "2", "--model", model)
		if n := end(t, addr, "t"); n != 10*round {
			t.Errorf("round %d: %d records, want %d", round, n, 10*round)
		}
		if code := b.stop(t); code != cli.ExitDone {
			t.Errorf("exit %d: %s", code, b.log)
		}
	}
}
