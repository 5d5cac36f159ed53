package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// TestMain lets the test binary be the command itself, so that tests can start real processes and
// kill them. The environment is the same for all tests: no noise key, one secret.
func TestMain(m *testing.M) {
	if os.Getenv("GEODITHER_TEST_COMMAND") != "" {
		os.Exit(run(cli.UntilSignal(context.Background()), os.Args[1:], cli.Streams{
			In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Tracks: fewTracks,
		}))
	}
	if os.Getenv(signalsEnv) != "" {
		endSlowly()
		return
	}
	if err := errors.Join(os.Unsetenv(files.KeyVariable), os.Setenv(secretVariable, secretWord),
		flag.Set("test.parallel", "8")); err != nil { // parallel tests wait more than they work
		panic(err)
	}
	os.Exit(m.Run())
}

// TestKilledServiceRepeatsNothing runs the service in its own process on a
// long-lived broker, kills it with SIGKILL in the middle again and again, once
// with its state folder deleted, and holds the committed output against that of
// an undisturbed run: the same records, byte for byte and in the same order in
// each partition. What a read_uncommitted reader sees may repeat a record but
// never differ.
func TestKilledServiceRepeatsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	w := newCrashWorld(t)
	fed := w.feed(t, 60, 50)

	w.serve(t, "calm", fed, nil)
	w.serve(t, "rough", fed, func(round int, stateDir string) {
		if round == 2 {
			if err := os.RemoveAll(stateDir); err != nil {
				t.Fatal(err)
			}
		}
	})

	calm, rough := w.read(t, "calm.sanitized", false), w.read(t, "rough.sanitized", false)
	requireSame(t, calm, rough)
	requireSame(t, w.read(t, "calm.dead", false), w.read(t, "rough.dead", false))
	requireNoOther(t, calm, w.read(t, "rough.sanitized", true))
}

// crashWorld is a broker, a model and a key that outlive the service. The broker
// is the embedded one, or the real one that GEODITHER_BROKERS names (host:port,...);
// topics and groups have names of their own in it.
type crashWorld struct {
	dir     string
	addr    string
	prefix  string
	client  *kafka.Client
	model   *mobility.Model
	release string // the section of every service's config
}

func newCrashWorld(t *testing.T) *crashWorld {
	t.Helper()
	addr, prefix := os.Getenv("GEODITHER_BROKERS"), fmt.Sprintf("crash-%d-", time.Now().UnixNano())
	if addr == "" {
		broker, err := devbroker.Start(devbroker.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := broker.Close(); err != nil {
				t.Error(err)
			}
		})
		addr = broker.Addr()
	}
	_, model := sampleFleet(t)
	w := &crashWorld{
		dir: t.TempDir(), addr: addr, prefix: prefix, model: model,
		client:  kafkaconn.NewClient(strings.Split(addr, ",")),
		release: "{mechanism: codebook, epsilon: 1, budget: none}",
	}
	if err := w.model.WriteFile(filepath.Join(w.dir, "model.avro")); err != nil {
		t.Fatal(err)
	}
	if err := files.WriteKey(filepath.Join(w.dir, "noise.key"), noise.NewKey()); err != nil {
		t.Fatal(err)
	}
	return w
}

// feed writes a simulated fleet to the raw topic, with a bad record after every
// hundredth, and returns how many records there are.
func (w *crashWorld) feed(t *testing.T, vehicles, steps int) int64 {
	t.Helper()
	return w.feedFrom(t, vehicles, steps, time.UnixMilli(1_700_000_000_000))
}

func (w *crashWorld) feedFrom(t *testing.T, vehicles, steps int, begin time.Time) int64 {
	t.Helper()
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.NewFeeder(t.Context(), w.client, w.prefix+"raw", 3, codec)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for fix, err := range fleet.New(w.model, vehicles, 7).Fixes(t.Context(), steps, begin) {
		if err != nil {
			t.Fatal(err)
		}
		value, err := codec.AppendRaw(nil, fix)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add(t.Context(), []byte(fix.UserID), value, fix.Timestamp); err != nil {
			t.Fatal(err)
		}
		if n++; n%100 == 0 {
			if err := f.Add(t.Context(), []byte(fix.UserID), value[:len(value)-3],
				fix.Timestamp); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f.Sent()
}

// configure writes the config of the service under a name.
func (w *crashWorld) configure(t *testing.T, name string) string {
	t.Helper()
	config := filepath.Join(w.dir, name+".yml")
	text := fmt.Sprintf(`
brokers: [%[1]s]
group: %[2]s
topics: {raw: %[3]sraw, sanitized: %[2]s.sanitized, changelog: %[2]s.changelog, dead_letters: %[2]s.dead, create: true}
model: model.avro
key_file: noise.key
state_dir: %[4]q
release: %[5]s
transaction: {max_records: 40, max_interval: 20ms, timeout: 10s}
session_timeout: 2s
`, w.addr, w.prefix+name, w.prefix, filepath.Join(w.dir, name+"-state"), w.release)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// serve runs the service under a name until it has answered all that was fed.
// With between, it is killed after a part of the work, between is called, and it
// is started again, four times.
func (w *crashWorld) serve(
	t *testing.T, name string, fed int64, between func(round int, stateDir string),
) {
	t.Helper()
	stateDir, config := filepath.Join(w.dir, name+"-state"), w.configure(t, name)
	const rounds = 4
	for round := 1; between != nil && round <= rounds; round++ {
		service := w.start(t, config)
		w.await(t, service, name, fed*int64(round)/(rounds+1))
		service.kill(t)
		if w.answered(t, name) >= fed {
			t.Fatalf("round %d: all %d records were answered before the kill; the test "+
				"shows nothing", round, fed)
		}
		between(round, stateDir)
	}
	service := w.start(t, config)
	w.await(t, service, name, fed)
	service.terminate(t)
}

// process is a running service.
type process struct {
	cmd *exec.Cmd
	log *bytes.Buffer
}

func (w *crashWorld) start(t *testing.T, config string) *process {
	t.Helper()
	p := &process{
		cmd: exec.CommandContext(t.Context(), os.Args[0], "run", "-c", config),
		log: new(bytes.Buffer),
	}
	p.cmd.Env = append(os.Environ(), "GEODITHER_TEST_COMMAND=1")
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Wait() // says that it was killed
}

// terminate asks the service to stop and requires that it does so cleanly.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("the service did not stop cleanly: %v\n%s", err, p.log)
	}
	if strings.Contains(p.log.String(), "level=ERROR") {
		t.Errorf("the service logged errors:\n%s", p.log)
	}
}

// await waits until so many records have been answered.
func (w *crashWorld) await(t *testing.T, p *process, name string, n int64) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute) // a loaded machine under the race detector
	for w.answered(t, name) < n {
		if time.Now().After(deadline) {
			p.kill(t)
			t.Fatalf("%s has answered %d of %d records\n%s", name, w.answered(t, name), n, p.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// answered counts the committed answers, 0 while the topics do not exist.
func (w *crashWorld) answered(t *testing.T, name string) int64 {
	t.Helper()
	var n int64
	for _, topic := range []string{name + ".sanitized", name + ".dead"} {
		for _, records := range w.readIfThere(t, topic, false) {
			n += int64(len(records))
		}
	}
	return n
}

// line is a record as it is compared.
type line struct {
	key, value string
	timestamp  int64
}

func (w *crashWorld) read(t *testing.T, topic string, uncommitted bool) map[int32][]line {
	t.Helper()
	lines := w.readIfThere(t, topic, uncommitted)
	if len(lines) == 0 {
		t.Fatalf("%s is empty", topic)
	}
	return lines
}

func (w *crashWorld) readIfThere(t *testing.T, topic string, uncommitted bool) map[int32][]line {
	t.Helper()
	lines := map[int32][]line{}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := topics.Tail{
		Client: w.client, Topic: w.prefix + topic, Uncommitted: uncommitted,
	}.Run(ctx, func(p int32, r consumer.Record) error {
		lines[p] = append(lines[p], line{string(r.Key), string(r.Value), r.Timestamp})
		return nil
	})
	if err != nil && !isMissing(err) {
		t.Fatal(err)
	}
	return lines
}

func requireSame(t *testing.T, want, got map[int32][]line) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d partitions, want %d", len(got), len(want))
	}
	for p, lines := range want {
		if len(got[p]) != len(lines) {
			t.Errorf("partition %d holds %d records, want %d", p, len(got[p]), len(lines))
		}
		for i := range min(len(lines), len(got[p])) {
			if got[p][i] != lines[i] {
				t.Fatalf("partition %d: record %d differs from the undisturbed run's", p, i)
			}
		}
	}
}

// requireNoOther requires that an uncommitted view holds nothing but records of
// the committed one.
func requireNoOther(t *testing.T, committed, uncommitted map[int32][]line) {
	t.Helper()
	aborted := 0
	for p, lines := range uncommitted {
		known := map[line]bool{}
		for _, l := range committed[p] {
			known[l] = true
		}
		for i, l := range lines {
			if !known[l] {
				t.Fatalf("partition %d: a read_uncommitted reader sees another release "+
					"in record %d", p, i)
			}
		}
		aborted += len(lines) - len(committed[p])
	}
	t.Logf("a read_uncommitted reader sees %d repeated records", aborted)
}

// isMissing reports that a topic does not exist (yet).
func isMissing(err error) bool {
	var missing *admin.MissingTopicsError
	return errors.As(err, &missing)
}
