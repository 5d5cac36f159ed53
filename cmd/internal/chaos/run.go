package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

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

// fed is what went into the raw topic.
type fed struct{ fleet, odd, second int }

func (f fed) all() int { return f.fleet + f.odd + f.second }

// chaos runs everything. The report is worth reading even with an error; dir is
// the folder with all logs and topics.
func chaos(ctx context.Context, s settings, log io.Writer) (report, string, error) {
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
	err = h.run(ctx, &r)
	r.Took = time.Since(h.began).Round(time.Second)
	return r, h.dir, err
}

func (h *harness) run(ctx context.Context, r *report) (err error) {
	if err := h.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		// Also after an interrupt, and before the topics are gone.
		err = errors.Join(err, h.end(r), h.cluster.call(context.WithoutCancel(ctx), "down"))
	}()
	if err := h.launch(ctx); err != nil {
		return err
	}
	w, err := newWitness(h.brokers, h.Partitions)
	if err != nil {
		return err
	}
	defer w.client.Close()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watch sync.WaitGroup
	watch.Go(func() { w.run(watching) })

	if err := h.breakAndFeed(ctx, r); err != nil {
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
	watch.Wait()
	return h.check(ctx, r, w)
}

// prepare makes the cluster, the binary, the model, the key and the topics.
func (h *harness) prepare(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	h.root = filepath.Dir(strings.TrimSpace(string(mod)))
	h.cluster = cluster{script: filepath.Join(h.root, "deploy", "kafka", "kafka.sh"), dir: filepath.Join(h.dir, "kafka")}
	h.binary = filepath.Join(h.dir, "geodither")
	h.note("building")
	for _, args := range [][]string{
		{"go", "build", "-o", h.binary, "./cmd/geodither"},
		{
			h.binary, "train", "--format", "csv", "--in", "cmd/internal/fleet/sample/liverpool.csv",
			"--box", "53.40,-2.99,53.47,-2.89", "--cell", "250m", "--step", fleetStep.String(), "--out", h.model(),
		},
		{h.binary, "key", "new", filepath.Join(h.dir, "noise.key")},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = h.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	h.note("starting Kafka, %d nodes", nodes)
	h.brokers, err = h.cluster.up(ctx)
	return err
}

func (h *harness) model() string { return filepath.Join(h.dir, "model.avro") }

// launch makes the topics and starts the instances.
func (h *harness) launch(ctx context.Context) error {
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
		config, state, err := h.config(name, id)
		if err != nil {
			return err
		}
		i, err := newInstance(h.binary, config, state, name)
		if err != nil {
			return err
		}
		h.instances = append(h.instances, i)
		if err := i.start(); err != nil {
			return err
		}
	}
	return nil
}

// config writes the configuration of an instance and names its state folder.
func (h *harness) config(name, id string) (path, state string, err error) {
	state = filepath.Join(h.dir, name+"-state")
	text := fmt.Sprintf(`brokers: [%s]
group: chaos
topics: {raw: %s, sanitized: %s, changelog: %s, dead_letters: %s}
model: model.avro
key_file: noise.key
state_dir: %q
release: {epsilon: 1, delta: 0.01, budget: {epsilon: %v, window: %v, spent: predict}}
transaction: {max_records: 200, max_interval: 50ms, timeout: %v}
session_timeout: %v
`, strings.Join(h.brokers, ", "), rawTopic, sanitizedTopic, changelogTopic, deadTopic, state, budgetEpsilon, budgetWindow, transactionTimeout, sessionTimeout)
	if id != "" {
		text += "instance_id: " + id + "\n"
	}
	path = filepath.Join(h.dir, name+".yml")
	return path, state, os.WriteFile(path, []byte(text), 0o600)
}

// breakAndFeed feeds the raw topic and carries the schedule out meanwhile.
func (h *harness) breakAndFeed(ctx context.Context, r *report) error {
	feedLog, err := os.Create(filepath.Join(h.dir, "produce.log"))
	if err != nil {
		return err
	}
	defer feedLog.Close()
	fleet, ended := context.WithCancel(ctx)
	defer ended()
	b := &breaker{
		cluster: h.cluster, instances: h.instances, note: h.note,
		feeding: func() bool { return fleet.Err() == nil },
	}
	h.note("%d records in %v, %d hard faults, seed %d", h.steps()*h.Vehicles, h.Duration.Round(time.Second), h.Faults, h.Seed)
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer ended()
		h.fed.fleet = h.steps() * h.Vehicles
		err := feedFleet(running, h.settings, h.binary, h.model(), h.brokers, feedLog)
		h.note("the fleet has ended")
		return err
	})
	group.Go(func() (err error) {
		h.fed.odd, err = feedOdd(running, fleet, h.settings, h.brokers)
		return err
	})
	group.Go(func() (err error) {
		h.fed.second, err = feedSecond(running, fleet, h.settings, h.brokers)
		return err
	})
	group.Go(func() error { return b.run(running, schedule(h.settings)) })
	err = group.Wait()
	r.Faults = b.counts
	r.IdleFaults = b.idle
	return err
}

// stuckAfter is how long nothing may be published, all faults being mended,
// before the service counts as stuck.
const stuckAfter = 90 * time.Second

// drain waits until every raw record has its answer.
func (h *harness) drain(ctx context.Context, w *witness) error {
	want := h.fed.all()
	h.note("waiting for the rest of %d records", want)
	last, at := -1, time.Now()
	for w.count() < want {
		if n := w.count(); n != last {
			last, at = n, time.Now()
		}
		if time.Since(at) > stuckAfter {
			return fmt.Errorf("stuck: %d of %d records are answered, and none came for %v", last, want, stuckAfter)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	h.note("all are answered")
	return nil
}

// end kills what still runs and says what the instances did by themselves.
func (h *harness) end(r *report) error {
	var failed error
	for _, i := range h.instances {
		failed = errors.Join(failed, i.close())
		for _, death := range i.died() {
			r.Violations = append(r.Violations, "an instance exited by itself: "+death)
		}
		n, err := i.logged("level=ERROR")
		failed = errors.Join(failed, err)
		r.LoggedErrors += n
	}
	return failed
}

// note writes a line of the timeline.
func (h *harness) note(format string, args ...any) {
	fmt.Fprintf(h.log, "%6.1fs "+format+"\n", append([]any{time.Since(h.began).Seconds()}, args...)...)
}
