package pipeline

import (
	"cmp"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/mechanism/mobility"
)

// options are those of a service with small transactions.
func optionsFor(w *servicetest.World, group string) Options {
	return Options{
		Cluster:    topics.Cluster{Brokers: []string{w.Addr}, Group: group, Topics: servicetest.Topics(group)},
		Settings:   engine.Settings{Model: w.Model, Key: servicetest.Key, Release: servicetest.Release},
		StateDir:   filepath.Join(w.Dir, group),
		MaxRecords: 20, MaxInterval: 20 * time.Millisecond, SessionTimeout: 6 * time.Second,
		Counters: new(engine.Counters), Logger: slog.New(slog.DiscardHandler),
	}
}

// serving is a service at work.
type serving struct {
	*Service
	*servicetest.Running
}

// start runs a service with its log captured. It is stopped at the test's end
// if not before.
func start(tb testing.TB, o Options, change ...func(*Service)) *serving {
	tb.Helper()
	log := new(servicetest.Log)
	o.Logger = log.Logger()
	s, err := NewService(o)
	servicetest.OK(tb, err)
	for _, c := range change {
		c(s)
	}
	return &serving{s, servicetest.Run(tb, log, s.Run)}
}

// serve feeds some steps, and runs a service until it has answered everything.
func serve(tb testing.TB, w *servicetest.World, o Options, steps int) {
	tb.Helper()
	for range steps {
		w.Feed(tb)
	}
	a := w.Answers(tb, o.Group)
	service := start(tb, o)
	servicetest.Await(tb, "everything is answered", func() bool { return a.Read(tb) >= w.Fed }, service)
	service.Stop(tb)
}

// process runs a service over steps of the feed of which some have no answer.
func processAll(tb testing.TB, w *servicetest.World, o Options, steps int) {
	tb.Helper()
	for range steps {
		w.Feed(tb)
	}
	r := start(tb, o)
	servicetest.Await(tb, "everything is processed", func() bool { return int(o.Counters.Snapshot().RecordsIn) >= int(w.Fed) }, r)
	r.Stop(tb)
}

// calm is what one undisturbed service makes of all that was fed.
func calm(tb testing.TB, w *servicetest.World) servicetest.Answers {
	tb.Helper()
	o := optionsFor(w, "calm")
	o.MaxRecords = 1000
	a := w.Answers(tb, o.Group)
	service := start(tb, o)
	servicetest.Await(tb, "the undisturbed service has answered everything", func() bool { return a.Read(tb) >= w.Fed }, service)
	service.Stop(tb)
	if got := o.Counters.Snapshot(); got.RecordsIn != w.Fed || got.RecordsOut+got.DeadLetters != w.Fed || got.Aborts != 0 {
		tb.Errorf("the counters of %d records are %+v", w.Fed, got)
	}
	return a
}

// requireUndisturbed holds what a group has published against what an
// undisturbed service makes of the same records: the same in each partition, in
// the same order, and the uncommitted view nothing but repetitions.
func requireUndisturbed(tb testing.TB, w *servicetest.World, group string) {
	tb.Helper()
	want, got := calm(tb, w), w.Answers(tb, group)
	got.Read(tb)
	servicetest.RequireSame(tb, want.Out, got.Out)
	servicetest.RequireSame(tb, want.Dead, got.Dead)
	all := w.View(tb, group+".out", true)
	all.Read(tb)
	repeated := 0
	for p, lines := range all.Lines {
		known := map[servicetest.Line]bool{}
		for _, l := range want.Out.Lines[p] {
			known[l] = true
		}
		for i, l := range lines {
			if !known[l] {
				tb.Fatalf("partition %d: a read_uncommitted reader sees another release in record %d", p, i)
			}
		}
		repeated += len(lines) - len(want.Out.Lines[p])
	}
	tb.Logf("%d records; a read_uncommitted reader sees %d repeated ones", w.Fed, repeated)
}

// testOptions are complete, with a store in a folder of the test's.
func testOptions(tb testing.TB, model *mobility.Model) Options {
	tb.Helper()
	return Options{
		Cluster:  topics.Cluster{Brokers: []string{"127.0.0.1:1"}, Group: "g", Topics: topics.Set{Raw: "raw", Sanitized: "sanitized"}},
		Settings: engine.Settings{Model: model, Key: servicetest.Key, Release: servicetest.Release},
		StateDir: tb.TempDir(),
		Logger:   slog.New(slog.DiscardHandler),
	}
}

// anywhere makes options accept a record in any partition.
func anywhere(o Options) Options {
	o.Partitioner = engine.AnyPartitioner
	return o
}

// newTestProcessor is of a topic that may hold any key in any partition, unless the
// options name a partitioner: most tests of a processor have users of their own choice.
func newTestProcessor(tb testing.TB, o Options, partition int32) *engine.Processor {
	tb.Helper()
	o.Partitioner = cmp.Or(o.Partitioner, engine.AnyPartitioner)
	p, err := engine.NewProcessor(o.Settings, engine.Partition{Topic: o.Topics.Raw, Number: partition, Of: max(servicetest.Partitions, int(partition)+1)})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
