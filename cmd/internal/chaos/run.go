package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// report is the result of a run.
type report struct {
	Settings   settings
	Faults     map[kind]int
	IdleFaults int
	Gap        time.Duration // longest time between two records of a partition, for the witness
	// longest time from a raw record to its sanitized one, for the witness
	Delay        time.Duration
	Late         string // the record with the longest delay
	LoggedErrors int
	Verified     bool // "geodither state verify" has come to a verdict
	StateEqual   bool // and found nothing
	Took         time.Duration
	Violations   []string

	ledger *ledger
	soaked []finding // of a soak
}

// harness is one run.
type harness struct {
	settings
	root, dir string // the repository; the run's own folder
	binary    string
	log       io.Writer
	began     time.Time

	cluster   cluster
	brokers   []string
	instances []*instance
	fed       fed
}

// chaos makes a run. It returns a report, which is worth reading even beside an error, and the
// folder with all logs and topics.
func chaos(
	ctx context.Context, s settings, log io.Writer, meanwhile meanwhile,
) (report, string, error) {
	h := &harness{settings: s, began: time.Now()}
	r := report{Settings: s}
	var err error
	if h.dir, err = os.MkdirTemp("", "geodither-chaos-"); err != nil {
		return r, h.dir, err
	}
	timeline, err := os.Create(filepath.Join(h.dir, "chaos.log"))
	if err != nil {
		return r, h.dir, err
	}
	defer timeline.Close()
	h.log = io.MultiWriter(log, timeline)
	err = h.breakAndCheck(ctx, &r, meanwhile)
	r.Took = time.Since(h.began).Round(time.Second)
	return r, h.dir, err
}

// meanwhile is what happens between the start of the service and the checks: that is what runs with
// faults and soaks differ in.
type meanwhile func(context.Context, *harness, *report, *witness) error

func (h *harness) breakAndCheck(
	ctx context.Context, r *report, meanwhile meanwhile,
) (err error) {
	if err := h.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		// The instances end after an interrupt too, and before the topics are gone.
		err = errors.Join(err, h.end(r), h.cluster.call(context.WithoutCancel(ctx), "down"))
	}()
	if err := h.start(ctx); err != nil {
		return err
	}
	w, stop, err := watch(ctx, h.brokers, h.Partitions)
	if err != nil {
		return err
	}
	defer stop()

	if err := meanwhile(ctx, h, r, w); err != nil {
		return err
	}
	if err := h.drain(ctx, w); err != nil {
		return err
	}
	for _, i := range h.instances {
		if err := i.terminate(); err != nil {
			r.Violations = append(r.Violations, err.Error())
		}
	}
	stop()
	return h.check(ctx, r, w)
}

// prepare makes the binary, the model and the key, and starts the cluster.
func (h *harness) prepare(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	h.root = filepath.Dir(strings.TrimSpace(string(mod)))
	h.cluster = cluster{
		script: filepath.Join(h.root, "deploy", "kafka", "kafka.sh"),
		dir:    filepath.Join(h.dir, "kafka"), nodes: h.Nodes,
	}
	h.binary = filepath.Join(h.dir, "geodither")
	h.note("building")
	for _, args := range [][]string{
		{"go", "build", "-o", h.binary, "./cmd/geodither"},
		{
			h.binary, "train", "--in", "cmd/internal/fleet/sample/liverpool.csv",
			"--box", "53.40,-2.99,53.47,-2.89", "--cell", "250m", "--step", fleetStep.String(),
			"--out", h.model(),
		},
		{h.binary, "key", "new", filepath.Join(h.dir, "noise.key")},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = h.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	h.note("starting Kafka, %d nodes", h.Nodes)
	h.brokers, err = h.cluster.up(ctx)
	return err
}

func (h *harness) model() string { return filepath.Join(h.dir, "model.avro") }

// start creates the topics and starts the instances.
func (h *harness) start(ctx context.Context) error {
	client, err := newClient(h.brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := createTopics(ctx, client, h.Partitions); err != nil {
		return err
	}
	for n := range h.Instances {
		name := fmt.Sprintf("instance-%d", n+1)
		id := ""
		if n < h.Static {
			id = name
		}
		i := &instance{name: name, binary: h.binary}
		if h.Soak {
			if i.listen, err = freeAddress(); err != nil {
				return err
			}
		}
		if i.config, i.stateDir, err = h.config(name, id, i.listen); err != nil {
			return err
		}
		i, err := launch(i)
		if err != nil {
			return err
		}
		h.instances = append(h.instances, i)
	}
	return nil
}

// freeAddress returns an address that nobody listens at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// createTopics creates the topics, with the cluster's replication. In the raw topic the broker sets
// the timestamps. The service copies them to what it publishes, so a reader knows how long a record
// took. The changelog has small segments, so that Kafka compacts it during the run. Compaction
// keeps the marker of a transaction, some 80 bytes, for delete.retention.ms, a day by default: a
// soak would see nothing else grow.
func createTopics(ctx context.Context, client *kgo.Client, partitions int) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 20_000
	add := func(name string, configs ...string) {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), -1
		for n := 0; n < len(configs); n += 2 {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = configs[n], &configs[n+1]
			topic.Configs = append(topic.Configs, config)
		}
		request.Topics = append(request.Topics, topic)
	}
	add(rawTopic, "message.timestamp.type", "LogAppendTime")
	const anyTime, ever = "message.timestamp.after.max.ms", "9223372036854775807"
	add(sanitizedTopic, anyTime, ever)
	add(deadTopic, anyTime, ever)
	add(changelogTopic, anyTime, ever, "cleanup.policy", "compact", "segment.bytes", "1048576",
		"min.cleanable.dirty.ratio", "0.1", "delete.retention.ms", "60000")
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, topic := range response.Topics {
		if topic.ErrorCode != 0 {
			return fmt.Errorf("create topic %s: error %d", topic.Topic, topic.ErrorCode)
		}
	}
	return nil
}

// config writes the configuration of an instance. It returns the file and the state folder. An
// instance without an id is no static member, and one without an address shows no metrics.
func (h *harness) config(name, id, listen string) (path, state string, err error) {
	state = filepath.Join(h.dir, name+"-state")
	text := fmt.Sprintf(`brokers: [%s]
group: chaos
topics: {raw: %s, sanitized: %s, changelog: %s, dead_letters: %s}
model: model.avro
key_file: noise.key
state_dir: %q
release:
  mechanism: codebook
  epsilon: 1
  budget: {epsilon: %v, window: %v, spent: predict}
transaction: {max_records: 200, max_interval: 50ms, timeout: %v}
session_timeout: %v
standby_replicas: %d
`, strings.Join(h.brokers, ", "), rawTopic, sanitizedTopic, changelogTopic, deadTopic, state,
		budgetEpsilon, budgetWindow, transactionTimeout, sessionTimeout, h.Standbys)
	if id != "" {
		text += "instance_id: " + id + "\n"
	}
	if listen != "" {
		text += "http: {listen: \"" + listen + "\"}\n"
	}
	path = filepath.Join(h.dir, name+".yml")
	return path, state, os.WriteFile(path, []byte(text), 0o600)
}

// breakAndFeed feeds the raw topic while the schedule's faults happen.
func breakAndFeed(ctx context.Context, h *harness, r *report, _ *witness) error {
	feedLog, err := os.Create(filepath.Join(h.dir, "produce.log"))
	if err != nil {
		return err
	}
	defer feedLog.Close()
	var ended atomic.Bool
	f := &feeder{
		settings: h.settings, binary: h.binary, model: h.model(), brokers: h.brokers, log: feedLog,
		ended: func() {
			ended.Store(true)
			h.note("the fleet has ended")
		},
	}
	b := &breaker{
		cluster: h.cluster, instances: h.instances, note: h.note,
		feeding: func() bool { return !ended.Load() },
	}
	h.note("%d records in %v, %d hard faults, seed %d",
		h.steps()*h.Vehicles, h.Duration.Round(time.Second), h.Faults, h.Seed)
	group, running := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		h.fed, err = f.feed(running)
		return err
	})
	group.Go(func() error { return b.run(running, h.settings) })
	err = group.Wait()
	r.Faults, r.IdleFaults = b.counts, b.idle
	return err
}

// stuckAfter is how long the service may publish nothing, once no fault is left, before it
// counts as stuck.
const stuckAfter = 90 * time.Second

// drain waits until every raw record is answered.
func (h *harness) drain(ctx context.Context, w *witness) error {
	want := h.fed.all()
	h.note("waiting until all %d records are answered", want)
	last, at := -1, time.Now()
	for w.count() < want {
		if n := w.count(); n != last {
			last, at = n, time.Now()
		}
		if time.Since(at) > stuckAfter {
			return fmt.Errorf(
				"the service is stuck: it answered %d of %d records, and none in the last %v",
				last, want, stuckAfter)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	h.note("all are answered")
	return nil
}

// end kills the instances that still run and reports how all of them behaved.
func (h *harness) end(r *report) error {
	var failed error
	for _, i := range h.instances {
		deaths, errorLines, err := i.close()
		failed = errors.Join(failed, err)
		for _, death := range deaths {
			r.Violations = append(r.Violations, "an instance exited by itself: "+death)
		}
		r.LoggedErrors += errorLines
	}
	return failed
}

// note writes a line of the timeline.
func (h *harness) note(format string, args ...any) {
	fmt.Fprintf(h.log, "%6.1fs "+format+"\n",
		append([]any{time.Since(h.began).Seconds()}, args...)...)
}

// check reads all topics, after the instances have stopped, and fills the report.
func (h *harness) check(ctx context.Context, r *report, w *witness) error {
	l, err := newLedger(h.Partitions)
	if err != nil {
		return err
	}
	if l.OpenTransactions, err = h.settle(ctx); err != nil {
		return err
	}
	h.note("reading all topics")
	broken, err := l.read(ctx, h.brokers, w)
	r.Violations = append(r.Violations, broken...)
	if err != nil {
		return err
	}
	r.ledger = l
	r.Gap, r.Delay, r.Late = w.gap.Round(time.Millisecond), w.delay.Round(time.Millisecond), w.late
	if fed := h.fed.all(); fed != l.Raw {
		r.Violations = append(r.Violations,
			fmt.Sprintf("%d records were fed, the raw topic holds %d", fed, l.Raw))
	}
	if h.fed.second > 0 && l.Misplaced == 0 && h.Partitions > 1 {
		r.Violations = append(r.Violations,
			"the second producer misplaced no record, so this run did not test "+
				"the budgets: give more --vehicles or another number of --partitions")
	}
	if r.IdleFaults > 0 {
		r.Violations = append(r.Violations, fmt.Sprintf(
			"%d hard faults came after the feed had ended and show nothing: give a longer "+
				"--duration", r.IdleFaults))
	}
	h.note("recomputing everything from the raw topic")
	return h.verify(ctx, r)
}

// settle waits until no transaction is open, and returns the number of partitions where one
// still is. The transaction of a dead instance without a successor ends by its timeout.
func (h *harness) settle(ctx context.Context) (open int, err error) {
	client, err := newClient(h.brokers)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	deadline := time.Now().Add(2*transactionTimeout + 10*time.Second)
	for {
		if open, err = openTransactions(ctx, client, h.Partitions); err != nil {
			return 0, err
		}
		if open == 0 || time.Now().After(deadline) {
			return open, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return open, err
		}
	}
}

// openTransactions counts the partitions that end with an open transaction.
func openTransactions(ctx context.Context, client *kgo.Client,
	partitions int,
) (open int, err error) {
	for _, topic := range []string{sanitizedTopic, deadTopic, changelogTopic} {
		stable, err := ends(ctx, client, topic, partitions, false)
		if err != nil {
			return 0, err
		}
		high, err := ends(ctx, client, topic, partitions, true)
		if err != nil {
			return 0, err
		}
		for p := range stable {
			if stable[p] != high[p] {
				open++
			}
		}
	}
	return open, nil
}

// verify lets "geodither state verify" recompute everything and compare.
func (h *harness) verify(ctx context.Context, r *report) error {
	config, _, err := h.config("verify", "", "")
	if err != nil {
		return err
	}
	said, err := exec.CommandContext(ctx, h.binary, "state", "verify", "-c", config).CombinedOutput()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		r.Verified, r.StateEqual = true, true
	case ended && exit.ExitCode() == 1:
		r.Verified = true
		r.Violations = append(r.Violations,
			fmt.Sprintf("geodither state verify: %s", bytes.TrimSpace(said)))
	default:
		return fmt.Errorf("geodither state verify: %w\n%s", err, bytes.TrimSpace(said))
	}
	return nil
}
