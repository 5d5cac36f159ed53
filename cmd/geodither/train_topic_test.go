package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

// trainOn trains on the town's map.
func trainOn(t *testing.T, model string, more ...string) result {
	t.Helper()
	return call(t, slices.Concat([]string{"train", "--out", model}, townMap, more)...)
}

// topicConfig writes a service's config, whose model, key and state are not there yet.
func topicConfig(t *testing.T, broker, topic, encoding, more string) string {
	t.Helper()
	return write(t, t.TempDir(), "geodither.yml", fmt.Sprintf("brokers: [%s]\ntopics: {raw: %s}\n"+
		"encoding: {raw: %s}\nmodel: none.avro\nkey_file: none.key\nstate_dir: none\n"+
		"release: {budget: none}\n%s", broker, topic, encoding, more))
}

// put writes records to partition 0 of a topic, each with a Kafka timestamp a
// second after the one before.
func put(t *testing.T, broker, topic string, records ...kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, r := range records {
		r.Topic = topic
		if err := client.ProduceSync(t.Context(), &r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// putTown writes the town's fixes in JSON to partition 0 of 2, with Kafka timestamps a second
// apart.
func putTown(t *testing.T, broker, topic string) (fixes []schemas.Raw) {
	t.Helper()
	fixes = servicetest.TownFixes()
	var records []kgo.Record
	for i, line := range strings.Split(strings.TrimSpace(asNDJSON(fixes)), "\n") {
		records = append(records,
			kgo.Record{Key: []byte(fixes[i].UserID), Value: []byte(line), Timestamp: kafkaTime(i)})
	}
	succeed(t, "produce", "--brokers", broker, "--topic", topic, "--create", "2",
		"--in", write(t, t.TempDir(), "none.csv", servicetest.TownCSV(nil)))
	put(t, broker, topic, records...)
	return fixes
}

func kafkaTime(i int) time.Time {
	return time.UnixMilli(1_700_100_000_000).UTC().Add(time.Duration(i) * time.Second)
}

// TestTrainTopic: a topic gives the model of the files that it was fed from, in
// either encoding.
func TestTrainTopic(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	traces, model := townFiles(t, dir)
	want := inspectModel(t, model).ID
	for _, encoding := range []string{"avro", "json"} {
		topic := "raw." + encoding
		config := topicConfig(t, broker, topic, encoding, "")
		succeed(t, "produce", "-c", config, "--create", "3", "--in", traces)
		again := filepath.Join(dir, encoding+".avro")
		r := trainOn(t, again, "-c", config)
		if r.code != cli.ExitDone || r.err != "" ||
			!strings.Contains(r.out, "in 3 partitions of "+topic) {
			t.Fatalf("exit %d: %s%s", r.code, r.err, r.out)
		}
		if got := inspectModel(t, again); got.ID != want ||
			got.Provenance.Source != "topic "+topic {
			t.Errorf("%s: the topic gives model %s of %q, the file %s",
				encoding, got.ID, got.Provenance.Source, want)
		}
		r = trainOn(t, again, "-c", topicConfig(t, broker, topic,
			map[string]string{"avro": "json", "json": "avro"}[encoding], ""))
		requireMessage(t, r, cli.ExitFailed, "records skipped", "there is no fix")
	}
}

// TestTrainTopicRange: the range has the record at --from and not that at --to,
// by offsets or by Kafka's timestamps.
func TestTrainTopicRange(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	fixes := putTown(t, broker, "raw")
	part := filepath.Join(dir, "part.avro")
	if r := trainOn(t, part,
		"--in", write(t, dir, "part.csv",
			servicetest.TownCSV(fixes[30:200]))); r.code != cli.ExitDone {
		t.Fatal(r.err)
	}
	want := inspectModel(t, part).ID
	model := filepath.Join(dir, "model.avro")
	topic := []string{"-c", topicConfig(t, broker, "raw", "json", "")}
	for _, bounds := range [][]string{
		{"--from", "30", "--to", "200"},
		{"--from", kafkaTime(30).Format(time.RFC3339), "--to", kafkaTime(200).Format(time.RFC3339)},
		{"--from", kafkaTime(29).Add(time.Millisecond).Format(time.RFC3339Nano), "--to", "200"},
	} {
		if r := trainOn(t, model, append(topic, bounds...)...); r.code != cli.ExitDone {
			t.Fatal(r.err)
		}
		if got := inspectModel(t, model).ID; got != want {
			t.Errorf("%v gives another model than those fixes", bounds)
		}
	}
	requireMessage(t, trainOn(t, model, append(topic, "--from", "100000")...), cli.ExitFailed,
		"from --from to --to")
	requireMessage(t, trainOn(t, model, append(topic, "--from", "5", "--to", "5")...),
		cli.ExitUsage, "is an empty range")
	requireMessage(t, trainOn(t, model, append(topic, "--from", "yesterday")...), cli.ExitUsage,
		"write a time such as")
}

// TestTrainTopicRefuses: what the service would refuse is left out and counted
// by its reason, and nothing of it is said.
func TestTrainTopicRefuses(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	fixes := putTown(t, broker, "raw")
	const secret = "48.8584"
	object := func(ms int64) []byte {
		return fmt.Appendf(nil, `{"user_id":"0","timestamp":%d,"latitude":%s,"longitude":2}`,
			ms, secret)
	}
	at := kafkaTime(1000)
	put(t, broker, "raw",
		kgo.Record{Key: []byte("1"), Value: object(fixes[0].Timestamp), Timestamp: at},
		kgo.Record{Key: []byte("1"), Value: object(fixes[0].Timestamp), Timestamp: at},
		kgo.Record{Key: []byte("0"), Value: []byte(`{"latitude":` + secret), Timestamp: at},
		kgo.Record{Key: []byte("0"), Value: nil, Timestamp: at},
		kgo.Record{
			Key: []byte("0"), Value: object(at.Add(2 * time.Hour).UnixMilli()), Timestamp: at,
		},
		kgo.Record{Key: []byte("0"), Value: object(1_700_000_000), Timestamp: at},
	)
	model := filepath.Join(dir, "model.avro")
	topic := []string{"-c", topicConfig(t, broker, "raw", "json", "")}
	r := trainOn(t, model, topic...)
	want := fmt.Sprintf("6 records skipped: 2 key_mismatch, 1 before_gps, 1 empty, 1 malformed, "+
		"1 timestamp_ahead; first at raw/0:%d\n", len(fixes))
	if r.code != cli.ExitDone || r.err != want {
		t.Errorf("exit %d, it says\n%swant\n%s", r.code, r.err, want)
	}
	if got := inspectModel(t, model).Provenance.Report; got.Fixes != int64(len(fixes)) ||
		got.OutsideBox != 0 {
		t.Errorf("trained on %+v", got)
	}
	r = trainOn(t, model, "-c", topicConfig(t, broker, "raw", "json", "max_ahead: 3h\n"))
	if got := inspectModel(t, model).Provenance.Report; r.code != cli.ExitDone ||
		got.OutsideBox != 1 {
		t.Errorf("exit %d; with a longer max_ahead %d fixes outside the box, want 1",
			r.code, got.OutsideBox)
	}
}

// TestTrainTopicWrongMapping: where no record gives a fix, the error names the command that shows
// why.
func TestTrainTopicWrongMapping(t *testing.T) {
	broker := startBroker(t)
	fixes := putTown(t, broker, "raw")
	model := filepath.Join(t.TempDir(), "model.avro")
	for more, reason := range map[string]string{
		"input: {format: json, latitude: gps.lat}\n":                        "missing_field",
		"input: {format: json, where: [{path: user_id, equals: nobody}]}\n": "input: ",
	} {
		config := topicConfig(t, broker, "raw", "auto", "")
		mapped := strings.Replace(read(t, config), "encoding: {raw: auto}\n", more, 1)
		requireMessage(t, trainOn(t, model, "-c", write(t, t.TempDir(), "geodither.yml", mapped)),
			cli.ExitFailed, "there is no fix in", "(box-empty)",
			fmt.Sprintf("%d records skipped: %d %s", len(fixes), len(fixes), reason))
	}
}

// TestTrainTopicUsage: flags that do not go together, and topics that are not there.
func TestTrainTopicUsage(t *testing.T) {
	broker, model := startBroker(t), filepath.Join(t.TempDir(), "model.avro")
	config := topicConfig(t, broker, "nowhere", "avro", "")
	requireMessage(t, trainOn(t, model), cli.ExitUsage, "--in", "-c")
	requireMessage(t, trainOn(t, model, "--from", "3", "--in", "x.csv"), cli.ExitUsage,
		"--from and --to are for a topic")
	requireMessage(t, trainOn(t, model, "-c", config, "--in", "x.csv", "--from", "3"),
		cli.ExitUsage, "--from and --to are for a topic")
	requireMessage(t, trainOn(t, model, "-c", config, "--columns", "user_id=v"),
		cli.ExitUsage, "is for files")
	requireMessage(t, trainOn(t, model, "-c", topicConfig(t, broker, "raw", "xml", "")),
		cli.ExitUsage, "xml")
	requireMessage(t, trainOn(t, model, "-c", topicConfig(t, broker, `""`, "avro", "")),
		cli.ExitUsage, "topics.raw: name the topic")
	requireMessage(t, trainOn(t, model,
		"-c", topicConfig(t, broker, "raw", "avro", "max_ahead: -3h\n")),
		cli.ExitUsage, "max_ahead must not be negative")
	requireMessage(t, trainOn(t, model, "-c", config), cli.ExitFailed, "nowhere")
	succeed(t, "produce", "--brokers", broker, "--topic", "quiet", "--create", "2",
		"--in", write(t, t.TempDir(), "none.csv", servicetest.TownCSV(nil)))
	requireMessage(t, trainOn(t, model, "-c", topicConfig(t, broker, "quiet", "avro", "")),
		cli.ExitFailed, "quiet holds no committed records")
}
