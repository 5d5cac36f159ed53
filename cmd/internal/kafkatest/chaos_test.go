//go:build kafka

package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
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

// campaign is one run.
type campaign struct {
	settings
	dir, binary string // the dir is the run's own
	log         io.Writer
	began       time.Time

	cluster   kafkaDir
	brokers   []string
	instances []*supervised
	fed       fed
}

// TestChaos breaks a running service in every way that a machine can fail, and then checks that no
// reader of its topics could have noticed ("make chaos"). It has three Kafka nodes (deploy/kafka),
// three instances of "geodither run", and a simulated fleet that reports at a steady rate. A seeded
// schedule kills, freezes, stops and restarts instances and brokers, and deletes state folders. All
// the time a read_committed reader of another client library watches. At the end the topics are
// compared with each other, and "geodither state verify" recomputes everything from the raw topic.
//
// A run that fails keeps its folder, and says where it is and how to repeat the run.
func TestChaos(t *testing.T) { asked.run(t, breakAndFeed) }

// TestSoak breaks nothing ("make soak"): instances restart in turn under a steady load, and the
// verdict is on what grows (memory, files, goroutines, topics).
func TestSoak(t *testing.T) {
	s := *asked
	s.Soak = true
	s.run(t, soak)
}

// run makes a run and reports what it finds.
func (s settings) run(t *testing.T, between meanwhile) {
	t.Helper()
	if err := s.complete(flag.CommandLine); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "geodither-chaos-") //nolint:usetesting // a failed run keeps it
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := os.Create(filepath.Join(dir, "chaos.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer timeline.Close()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h := &campaign{settings: s, began: time.Now(), dir: dir}
	h.log = io.MultiWriter(os.Stderr, timeline)
	r := report{Settings: s}
	if err := h.breakAndCheck(ctx, &r, between); err != nil {
		r.Violations = append(r.Violations, err.Error())
	}
	r.Took = time.Since(h.began).Round(time.Second)
	fmt.Fprint(h.log, r.text())
	if len(r.Violations) > 0 || s.keep {
		t.Logf("%s keeps all logs and topics; repeat the run with: make %s", dir, s.again())
	} else if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if len(r.Violations) > 0 {
		t.Error("broken promises")
	}
}

// meanwhile is what happens between the start of the service and the checks: that is what runs with
// faults and soaks differ in.
type meanwhile func(context.Context, *campaign, *report, *witness) error

func (h *campaign) breakAndCheck(
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
func (h *campaign) prepare(ctx context.Context) (err error) {
	h.note("building")
	if h.binary, err = built(); err != nil {
		return err
	}
	fixes, err := fleet.Sample()
	if err != nil {
		return err
	}
	model, err := fleet.SampleModel(fixes)
	if err != nil {
		return err
	}
	key := []byte(testKey.Reveal() + "\n")
	if err := errors.Join(model.WriteFile(h.model()),
		os.WriteFile(filepath.Join(h.dir, "noise.key"), key, 0o600)); err != nil {
		return err
	}
	h.note("starting Kafka, %d nodes", h.Nodes)
	h.cluster = kafkaDir{dir: filepath.Join(h.dir, "kafka")}
	h.brokers, err = h.cluster.up(ctx, h.Nodes)
	return err
}

func (h *campaign) model() string { return filepath.Join(h.dir, "model.avro") }

// start creates the topics and starts the instances.
func (h *campaign) start(ctx context.Context) (err error) {
	client := kafkaconn.NewClient(h.brokers)
	if err := admin.CreateTopics(ctx, client, wire.Options{}, h.topics()...); err != nil {
		return err
	}
	for n := range h.Instances {
		name := fmt.Sprintf("instance-%d", n+1)
		id := ""
		if n < h.Static {
			id = name
		}
		i := &supervised{name: name, binary: h.binary}
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

// topics are those of a run, with the cluster's replication. In the raw topic the broker sets the
// timestamps. The service copies them to what it publishes, so a reader knows how long a record
// took. The changelog has small segments, so that Kafka compacts it during the run. Compaction
// keeps the marker of a transaction, some 80 bytes, for delete.retention.ms, a day by default: a
// soak would see nothing else grow.
func (h *campaign) topics() (all []admin.Topic) {
	const anyTime, ever = "message.timestamp.after.max.ms", "9223372036854775807"
	for name, configs := range map[string]map[string]string{
		rawTopic:       {"message.timestamp.type": "LogAppendTime"},
		sanitizedTopic: {anyTime: ever},
		deadTopic:      {anyTime: ever},
		changelogTopic: {
			anyTime: ever, "cleanup.policy": "compact", "segment.bytes": "1048576",
			"min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "60000",
		},
	} {
		all = append(all, admin.Topic{Name: name, Partitions: h.Partitions, Configs: configs})
	}
	return all
}

// config writes the configuration of an instance. It returns the file and the state folder. An
// instance without an id is no static member, and one without an address shows no metrics.
func (h *campaign) config(name, id, listen string) (path, state string, err error) {
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
  budget: {epsilon: %v, window: %v}
transaction: {max_records: 200, max_interval: 50ms, timeout: %v}
session_timeout: %v
`, strings.Join(h.brokers, ", "), rawTopic, sanitizedTopic, changelogTopic, deadTopic, state,
		budgetEpsilon, budgetWindow, transactionTimeout, sessionTimeout)
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
func breakAndFeed(ctx context.Context, h *campaign, r *report, _ *witness) error {
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
func (h *campaign) drain(ctx context.Context, w *witness) error {
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
func (h *campaign) end(r *report) error {
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
func (h *campaign) note(format string, args ...any) {
	fmt.Fprintf(h.log, "%6.1fs "+format+"\n",
		append([]any{time.Since(h.began).Seconds()}, args...)...)
}

// check reads all topics, after the instances have stopped, and fills the report.
func (h *campaign) check(ctx context.Context, r *report, w *witness) error {
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
func (h *campaign) settle(ctx context.Context) (open int, err error) {
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
func (h *campaign) verify(ctx context.Context, r *report) error {
	config, _, err := h.config("verify", "", "")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, h.binary, "state", "verify", "-c", config)
	said, err := cmd.CombinedOutput()
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
