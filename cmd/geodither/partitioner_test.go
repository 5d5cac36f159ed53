package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/schemas"
)

// copyMisplaced reads a raw topic of some partitions and writes every fix once more, half
// a minute later, where librdkafka's default puts it. It returns how many of these lie in
// another partition than murmur2 puts them.
func copyMisplaced(t *testing.T, broker, topic string, partitions, records int) (misplaced int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	var copies []*kgo.Record
	for len(copies) < records {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			fix, err := codec.DecodeRaw(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			fix.Timestamp += 30_000
			value, err := codec.AppendRaw(nil, fix)
			if err != nil {
				t.Fatal(err)
			}
			at, _ := engine.CRC32.Partition(r.Key, partitions)
			if at != r.Partition { // which "geodither produce" chose
				misplaced++
			}
			copies = append(copies, &kgo.Record{
				Topic: topic, Partition: at, Key: r.Key, Value: value, Timestamp: r.Timestamp,
			})
		})
	}
	if err := client.ProduceSync(t.Context(), copies...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return misplaced
}

// TestUsersInTwoPartitions: with the check turned off there is no budget, state inspect sums what a
// user has spent in two partitions, doctor warns, and aggregate names the cause of records that do
// not follow, from the topic and from a file. A name that is no partitioner is refused.
func TestUsersInTwoPartitions(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	traces, _ := townFiles(t, dir)
	succeed(t, "key", "new", filepath.Join(dir, "noise.key"))
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "3", "--in", traces)
	fixes := strings.Count(read(t, traces), "\n") - 1
	misplaced := copyMisplaced(t, broker, "raw", 3, fixes)
	if misplaced == 0 {
		t.Fatal("no user of the test is misplaced")
	}
	settings := fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true, partitioner: any}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: codebook, epsilon: 2, budget: {epsilon: 6, window: 10m}}
`, broker)
	budgeted := write(t, dir, "budgeted.yml", settings)
	for _, command := range []string{"run", "doctor", "replay"} {
		args := []string{command, "-c", budgeted}
		if command == "replay" {
			args = append(args, "--dry-run", "--output-topic", "again")
		}
		if r := call(t, args...); r.code != cli.ExitFailed || !strings.Contains(r.out+r.err,
			"topics.partitioner: any: a user in two partitions would have two accounts") {
			t.Errorf("%s exits with %d and says\n%s%s", command, r.code, r.out, r.err)
		}
	}
	settings = strings.Replace(settings, "budget: {epsilon: 6, window: 10m}",
		"interval: 5m, budget: none", 1)
	config := write(t, dir, "geodither.yml", settings)
	service := start(t, nil, "run", "-c", config)
	consumed := func(format string) string {
		return call(t, "consume", "--brokers", broker, "--topic", "out", "--format", format).out
	}
	// The other copies come after all fixes of their users, and are late.
	eventually(t, "every record", func() bool {
		return strings.Count(consumed("json"), "\n") >= fixes+misplaced
	})
	if code := service.stop(t); code != cli.ExitDone {
		t.Fatalf("the service ended with %d\n%s", code, service.log)
	}
	user := ""
	for line := range strings.Lines(consumed("json")) {
		id := record(t, line).UserID
		crc32, _ := engine.CRC32.Partition([]byte(id), 3)
		murmur2, _ := engine.Murmur2.Partition([]byte(id), 3)
		if crc32 != murmur2 {
			user = id
		}
	}
	said := succeed(t, "state", "inspect", "-c", budgeted, "--user", user).out
	if strings.Count(said, "found in     partition ") != 2 {
		t.Errorf("a user in two partitions is shown as\n%s", said)
	}
	requireWords(t, said, "warning      the user has accounts in 2 partitions",
		"are spent in all", "in the window")
	requireWords(t, succeed(t, "doctor", "-c", config).out, "found in more than one partition")

	file := write(t, dir, "out.ndjson", consumed("json"))
	for _, input := range [][]string{nil, {"--in", file}} {
		r := call(t, append([]string{"aggregate", "-c", config, "--window", "10m"}, input...)...)
		if !strings.Contains(r.err, "releases whose numbers go back") ||
			!strings.Contains(r.err, "may not agree on a partitioner") {
			t.Errorf("aggregate exits with %d and says\n%s", r.code, r.err)
		}
	}
	wrong := write(t, dir, "wrong.yml",
		strings.Replace(settings, "partitioner: any", "partitioner: md5", 1))
	requireMessage(t, call(t, "run", "-c", wrong), cli.ExitUsage, "topics.partitioner",
		"choose murmur2, crc32 or any")
}

// TestProducePlaces: what "produce" writes lies where murmur2 puts it.
func TestProducePlaces(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	traces, _ := townFiles(t, dir)
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "3", "--in", traces)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics("raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	franz := kgo.StickyKeyPartitioner(nil).ForTopic("raw") // murmur2, as Java's
	for left := strings.Count(read(t, traces), "\n") - 1; left > 0; {
		client.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			left--
			if want := franz.Partition(r, 3); int(r.Partition) != want {
				t.Fatalf("a record is in partition %d, another client would put it into %d",
					r.Partition, want)
			}
		})
	}
}
