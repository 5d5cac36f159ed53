// Package atwork runs whole services in a servicetest.World, and what looks after them. It is for
// the tests of the service, and of the commands that work on what a service has left: these have it
// in a test package of their own (package x_test), since it imports what they test.
package atwork

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Options are those of a service with small transactions, under the codebook mechanism. Tests of
// the engine alone are under lattice.
func Options(w *servicetest.World, group string) service.Options {
	release := servicetest.Release
	release.Mechanism = law.Codebook
	return service.Options{
		Cluster: topics.Cluster{
			Brokers: []string{w.Addr}, Group: group, Topics: servicetest.Topics(group),
		},
		Settings: engine.Settings{
			Model: w.Model, Key: servicetest.Key, Release: release,
		},
		StateDir:   filepath.Join(w.Dir, group),
		MaxRecords: 20, MaxInterval: 20 * time.Millisecond, SessionTimeout: 6 * time.Second,
		Counters: new(engine.Counters), Logger: slog.New(slog.DiscardHandler),
	}
}

// Running is a service at work.
type Running struct {
	*service.Service
	*servicetest.Running
	Counters *engine.Counters
}

// Start runs a service with its log captured. It is stopped at the test's end
// if not before.
func Start(tb testing.TB, o service.Options, change ...func(*service.Service)) *Running {
	tb.Helper()
	log := new(servicetest.Log)
	o.Logger = log.Logger()
	s, err := service.New(o)
	servicetest.OK(tb, err)
	for _, c := range change {
		c(s)
	}
	return &Running{s, servicetest.Run(tb, log, s.Run), o.Counters}
}

// Serve feeds some steps, and runs a service until it has answered everything.
func Serve(tb testing.TB, w *servicetest.World, o service.Options, steps int) {
	tb.Helper()
	for range steps {
		w.Feed(tb)
	}
	a := w.Answers(tb, o.Group)
	service := Start(tb, o)
	servicetest.Await(tb, "everything is answered",
		func() bool { return a.Read(tb) >= w.Fed }, service)
	service.Stop(tb)
}

// Process runs a service over steps of the feed of which some have no answer.
func Process(tb testing.TB, w *servicetest.World, o service.Options, steps int) {
	tb.Helper()
	for range steps {
		w.Feed(tb)
	}
	r := Start(tb, o)
	servicetest.Await(tb, "everything is processed", func() bool {
		return o.Counters.Snapshot().RecordsIn >= w.Fed
	}, r)
	r.Stop(tb)
}

// Calm returns what one undisturbed service makes of all that was fed.
func Calm(tb testing.TB, w *servicetest.World) servicetest.Answers {
	tb.Helper()
	o := Options(w, "calm")
	o.MaxRecords = 1000
	a := w.Answers(tb, o.Group)
	service := Start(tb, o)
	servicetest.Await(tb, "the undisturbed service has answered everything",
		func() bool { return a.Read(tb) >= w.Fed }, service)
	service.Stop(tb)
	if got := o.Counters.Snapshot(); got.RecordsIn != w.Fed ||
		got.RecordsOut+got.DeadLetters != w.Fed || got.Aborts != 0 {
		tb.Errorf("the counters of %d records are %+v", w.Fed, got)
	}
	return a
}

// RequireUndisturbed holds what a group has published against what an
// undisturbed service makes of the same records: the same in each partition, in
// the same order, and the uncommitted view nothing but repetitions.
func RequireUndisturbed(tb testing.TB, w *servicetest.World, group string) {
	tb.Helper()
	want, got := Calm(tb, w), w.Answers(tb, group)
	got.Read(tb)
	servicetest.RequireSame(tb, want.Out, got.Out)
	servicetest.RequireSame(tb, want.Dead, got.Dead)
	w.RequireRepeats(tb, want.Out, group+".out")
}

// Served returns a world whose service "first" has answered everything and stopped.
func Served(tb testing.TB, vehicles, steps int) *servicetest.World {
	tb.Helper()
	w := servicetest.NewWorld(tb, vehicles)
	Serve(tb, w, Options(w, "first"), steps)
	return w
}

// Verify runs a verification whose temporary folders are looked after.
func Verify(tb testing.TB, o service.Options) verify.Report {
	tb.Helper()
	dir := tb.TempDir()
	var done, total int64
	options := VerifyOptions(o, dir)
	options.Progress = func(d, t int64) { done, total = d, t }
	report, err := verify.Run(tb.Context(), options)
	servicetest.OK(tb, err)
	left, err := os.ReadDir(dir)
	servicetest.OK(tb, err)
	if len(left) > 0 {
		tb.Errorf("verification leaves %d folders behind", len(left))
	}
	if done != total {
		tb.Errorf("verification ends at %d of %d", done, total)
	}
	for _, p := range report.Partitions {
		for _, v := range p.Violations {
			if strings.Contains(v.Detail, "vehicle") {
				tb.Errorf("a violation names a user: %s", v.Detail)
			}
		}
	}
	return report
}

// AccountOptions look at what a service has left.
func AccountOptions(o service.Options) account.Options {
	return account.Options{
		Settings: o.Settings, Cluster: o.Cluster, StateDir: o.StateDir,
		Logger: o.Logger,
	}
}

// RepairOptions reset or write back what a service has left.
func RepairOptions(o service.Options, dryRun, discard bool) account.Options {
	repair := AccountOptions(o)
	repair.DryRun, repair.Discard = dryRun, discard
	return repair
}

// VerifyOptions verify what a service has committed, in a folder for temporary ones.
func VerifyOptions(o service.Options, tempDir string) verify.Options {
	return verify.Options{
		Settings: o.Settings, Cluster: o.Cluster, Later: o.Later, TempDir: tempDir,
		Logger: o.Logger,
	}
}

// Replay runs one instance of a replay to its end.
func Replay(tb testing.TB, o service.Options, r replay.Options) replay.Plan {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), servicetest.Patience)
	defer cancel()
	plan, err := replay.Run(ctx, o, r)
	servicetest.OK(tb, err)
	if !plan.Done {
		tb.Fatalf("the replay has not ended: %+v", plan)
	}
	return plan
}

// Replayed reads what a replay has published.
func Replayed(tb testing.TB, w *servicetest.World, plan replay.Plan) servicetest.Answers {
	tb.Helper()
	a := servicetest.Answers{
		Out: w.View(tb, plan.Output, false), Dead: w.View(tb, plan.DeadLetters, false),
	}
	a.Read(tb)
	return a
}

// Details joins what the findings of one level say.
func Details(found []checks.Finding, level string) string {
	var b strings.Builder
	for _, f := range found {
		if f.Level == level {
			b.WriteString(f.Check + ": " + f.Detail + "\n")
		}
	}
	return b.String()
}

// Version starts a model at the nth step.
func Version(tb testing.TB, n int64, m *mobility.Model) *engine.Version {
	tb.Helper()
	v, _, err := engine.NewVersion(servicetest.StepTime(n), fmt.Sprintf("step-%d.avro", n),
		func() (*mobility.Model, error) { return m, nil })
	servicetest.OK(tb, err)
	return v
}
