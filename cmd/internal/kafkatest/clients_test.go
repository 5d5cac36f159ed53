//go:build kafka

package kafkatest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
)

// others is what clients.sh has installed and started.
type others struct {
	*world
	dir, url string
	client   *registry.Client
}

func (w *world) others() *others {
	w.Helper()
	o := &others{world: w, dir: os.Getenv("GEODITHER_KAFKA_DIR")}
	url, err := os.ReadFile(filepath.Join(o.dir, "registry", "url"))
	if err != nil {
		w.Fatalf("no schema registry: run deploy/kafka/clients.sh up --dir DIR, or \"make "+
			"test-kafka\": %v", err)
	}
	o.url = strings.TrimSpace(string(url))
	o.client, err = registry.New(registry.Options{URL: o.url})
	w.ok(err)
	return o
}

// python runs a script of testdata with Confluent's client.
func (o *others) python(script, stdin string, args ...string) string {
	o.Helper()
	cmd := exec.CommandContext(o.Context(), filepath.Join(o.dir, "venv", "bin", "python"),
		append([]string{
			filepath.Join("testdata", script), strings.Join(o.brokers, ","), o.url,
		}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	if err := cmd.Run(); err != nil {
		o.Fatalf("%s: %v\n%s", script, err, trouble.String())
	}
	return out.String()
}

// produce writes some steps of the fleet with Confluent's serializer, and a value whose schema the
// registry does not have.
func (o *others) produce(steps int64, users ...string) {
	o.Helper()
	var lines strings.Builder
	for step := range steps {
		for i, user := range users {
			lat, lon := o.model.Grid.ToDegrees(o.model.Grid.Centre(o.cells[i]))
			fmt.Fprintf(&lines, `{"user_id":%q,"timestamp":%d,"latitude":%v,"longitude":%v}`+"\n",
				user, startMS+step*60_000, lat, lon)
			o.fed++
		}
	}
	o.python("produce.py", lines.String(), o.raw)
}

// published are the records of a sanitized topic by user, time and step.
func (o *others) published(topic string) (all []schemas.Sanitized) {
	o.Helper()
	for p := range int32(o.partitions) {
		o.settled(topic, p)
		for _, value := range o.read(topic, p, false) {
			record, err := o.codec.DecodeSanitized([]byte(value))
			o.ok(err)
			all = append(all, record)
		}
	}
	slices.SortFunc(all, byUserAndTime)
	return all
}

func byUserAndTime(a, b schemas.Sanitized) int {
	return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Timestamp, b.Timestamp))
}

// TestConfluentsClients: Confluent's serializer feeds a service through a real registry, by a
// schema of its own, and the deserializer reads what it publishes.
func TestConfluentsClients(t *testing.T) {
	w := newHarness(t).world(3, 12).others()
	w.createRaw()
	w.produce(5, fleetOf(12)...)
	o := w.options("registry")
	o.RawEncoding, o.Partitioner = schemas.Auto, engine.CRC32
	o.SanitizedEncoding, o.Registry = schemas.AvroRegistry, w.client
	for _, s := range checks.Schemas(o.Cluster) {
		made, err := w.client.Register(t.Context(), s.Subject, s.Text)
		w.ok(err)
		found, err := w.client.Find(t.Context(), s.Subject, s.Text)
		w.ok(err)
		ok, words, err := w.client.Compatible(t.Context(), s.Subject, s.Text)
		if err != nil || !ok || made != found {
			t.Errorf("%s: %+v, %+v, compatible %t %q, %v", s.Subject, made, found, ok, words, err)
		}
	}
	w.answer(o)
	if got := o.Counters.Snapshot(); got.RecordsOut != w.fed || got.DeadLetters != 0 {
		t.Errorf("%d records were fed, and counted as %+v", w.fed, got)
	}
	w.verified(o)

	want := w.published(o.Topics.Sanitized)
	var read []schemas.Sanitized
	lines := w.python("consume.py", "", o.Topics.Sanitized, fmt.Sprint(w.fed))
	for line := range strings.Lines(lines) {
		var record schemas.Sanitized
		w.ok(json.Unmarshal([]byte(line), &record))
		read = append(read, record)
	}
	slices.SortFunc(read, byUserAndTime)
	if !slices.Equal(read, want) {
		t.Errorf("the deserializer reads %d records, and other ones than the %d that there are",
			len(read), len(want))
	}
}

// abort writes a record to the sanitized topic that no reader may have: of another user, in a
// transaction that is aborted.
func (o *others) abort(options service.Options, like schemas.Sanitized) {
	o.Helper()
	codec, err := schemas.NewCodec(options.SanitizedEncoding)
	o.ok(err)
	like.UserID = "aborted"
	value, err := codec.AppendSanitized(nil, like)
	o.ok(err)
	p := o.transactional(o.world.client, "aborted", producer.Options{})
	batch := producer.Batch{TopicPartition: at(options.Topics.Sanitized, 0)}
	batch.Records = []producer.Record{{
		Key: []byte(like.UserID), Value: value, Timestamp: like.Timestamp,
	}}
	_, err = p.Produce(o.Context(), batch)
	o.ok(err)
	o.ok(p.Abort(o.Context()))
}

// sanitized feeds the fleet to a service, and returns its options and the records that it has
// published. Readers of uncommitted records find one more.
func (o *others) sanitized(name string, encoding schemas.Encoding) (service.Options,
	[]schemas.Sanitized,
) {
	o.Helper()
	o.createRaw()
	o.feed(5)
	options := o.options(name)
	options.SanitizedEncoding = encoding
	if encoding == schemas.AvroRegistry {
		options.Registry = o.client
		for _, s := range checks.Schemas(options.Cluster) {
			_, err := o.client.Register(o.Context(), s.Subject, s.Text)
			o.ok(err)
		}
	}
	o.answer(options)
	want := o.published(options.Topics.Sanitized)
	o.abort(options, want[0])
	return options, want
}

// connect runs a worker of Kafka Connect, with the settings of docker-compose.yml, and one sink
// until the test ends. Of two settings of one name the later counts.
func (o *others) connect(sink ...string) {
	o.Helper()
	dir := o.TempDir()
	properties := func(name string, settings ...string) string {
		path := filepath.Join(dir, name)
		o.ok(os.WriteFile(path, []byte(strings.Join(settings, "\n")+"\n"), 0o600))
		return path
	}
	composed, err := os.ReadFile(filepath.Join(composeDir, "connect", "worker.properties"))
	o.ok(err)
	worker := properties("worker.properties", string(composed),
		"bootstrap.servers="+strings.Join(o.brokers, ","),
		"offset.storage.file.filename="+filepath.Join(dir, "offsets"),
		"listeners=http://127.0.0.1:0", "plugin.path=", "plugin.discovery=service_load")
	classpath, err := os.ReadFile(filepath.Join(o.dir, "connect.classpath"))
	o.ok(err)
	log, err := os.Create(filepath.Join(dir, "connect.log"))
	o.ok(err)
	cmd := exec.CommandContext(o.Context(), "java", "-Xmx256m", "-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1", "-cp", strings.TrimSpace(string(classpath)),
		"org.apache.kafka.connect.cli.ConnectStandalone", worker,
		properties("sink.properties", sink...))
	cmd.Stdout, cmd.Stderr = log, log
	o.ok(cmd.Start())
	o.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && o.Failed() {
			o.Logf("the worker's log:\n%s", text[max(0, len(text)-8000):])
		}
	})
}

// TestKafkaConnect: a sink of Kafka Connect reads JSON with its schema, committed records alone.
func TestKafkaConnect(t *testing.T) {
	w := newHarness(t).world(3, 12).others()
	o, want := w.sanitized("connect", schemas.JSONSchema)
	file := filepath.Join(w.TempDir(), "sink.txt")
	w.connect("name=file", "connector.class=FileStreamSink", "tasks.max=1", "file="+file,
		"topics="+o.Topics.Sanitized, "consumer.override.isolation.level=read_committed",
		"consumer.override.auto.offset.reset=earliest")
	var got []string
	w.eventually("the sink has written all records", func() bool {
		got = linesOf(file)
		return len(got) >= len(want)
	})
	place := regexp.MustCompile(`^Struct\{user_id=([^,]+),timestamp=[A-Z][a-z]{2} [^,]+,` +
		`latitude=([^,]+),longitude=([^,]+),`)
	var read, due []string
	for _, line := range got {
		parts := place.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("the sink has written %q", line)
		}
		read = append(read, strings.Join(parts[1:], " "))
	}
	for _, r := range want {
		due = append(due, fmt.Sprintf("%s %v %v", r.UserID, r.Latitude, r.Longitude))
	}
	slices.Sort(read)
	slices.Sort(due)
	if !slices.Equal(read, due) {
		t.Errorf("the sink has %d records, and other ones than the %d that there are", len(read),
			len(due))
	}
}

// linesOf returns the lines of a file; none if there is no file yet.
func linesOf(path string) (lines []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}
