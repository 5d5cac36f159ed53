package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

const (
	demoPartitions = 4
	demoGroup      = "demo"
)

var demoTopics = pipeline.Topics{
	Raw: "demo.raw", Sanitized: "demo.sanitized", Changelog: "demo.changelog", DeadLetters: "demo.dead-letters",
}

type demoFlags struct {
	once, json bool
	vehicles   int
	seed       uint64
	speed      float64
	port       int
	verbose    bool
	release    releaseConfig
}

func newDemo(std cli.Streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the whole pipeline at work on a sample fleet, with nothing else installed",
		Long: `Start an embedded broker, train a model from the shipped sample (eight Liverpool buses),
feed the sample in faster than it happened, sanitize it, read the result back and show
what comes out, until the sample ends or Ctrl-C. The model is trained on the very
traces it is then used for, so that errors are smaller than on new ones.

Contains public sector information licensed under the Open Government Licence v3.0.`,
		Example: `  geodither demo
  geodither demo --once --json
  geodither demo --vehicles 1000 --epsilon 4`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.once && !cmd.Flags().Changed("speed") {
				f.speed = 0
			}
			return runDemo(cmd.Context(), f, std)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "feed the sample as fast as it goes, print a report, and fail if a record is missing or double")
	flags.BoolVar(&f.json, "json", false, "print the report as one JSON object")
	flags.IntVar(&f.vehicles, "vehicles", 0, "add this many simulated vehicles that move by the model")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the noise and of the simulated vehicles: the same seed gives the same records")
	flags.Float64Var(&f.speed, "speed", 120, "times the pace at which it happened; 0: as fast as it goes")
	flags.IntVar(&f.port, "port", 0, "port of the embedded broker on 127.0.0.1; 0: any free one")
	flags.BoolVar(&f.verbose, "verbose", false, "log what the service does")
	f.release.register(flags, 4, 0.01)
	return cmd
}

// demo is one run of it.
type demo struct {
	flags    demoFlags
	out      io.Writer // for the view and the report
	model    *mobility.Model
	release  mechanism.Options
	fixes    []schemas.Raw
	client   *kafka.Client
	counters *pipeline.Counters
	live     *scoreboard
	began    time.Time

	interrupted bool // before the sample's end: nothing is verified
}

func runDemo(ctx context.Context, f demoFlags, std cli.Streams) error {
	if f.vehicles < 0 || !(f.speed >= 0) { // so written, no NaN passes either
		return cli.Usagef("--vehicles and --speed must not be negative")
	}
	d := &demo{flags: f, out: std.Out, counters: new(pipeline.Counters)}
	if f.json {
		d.out = std.Err
	}
	var err error
	if d.model, d.fixes, err = demoFleet(f); err != nil {
		return err
	}
	if d.release, err = f.release.options(d.model); err == nil {
		err = d.release.Validate()
	}
	if err != nil {
		return cli.Usage(err)
	}
	dir, err := os.MkdirTemp("", "geodither-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broker, err := devbroker.Start(devbroker.Options{Port: f.port, Logger: demoLogger(f, std)})
	if err != nil {
		return err
	}
	defer broker.Close() //nolint:errcheck // in memory only: nothing is lost
	d.client = pipeline.NewClient([]string{broker.Addr()})
	topics := demoTopics
	topics.Partitions = demoPartitions
	if err := pipeline.CreateTopics(ctx, d.client, topics); err != nil {
		return err
	}
	service, err := pipeline.NewService(pipeline.Options{
		Cluster:  pipeline.Cluster{Brokers: []string{broker.Addr()}, Group: demoGroup, Topics: demoTopics},
		Settings: pipeline.Settings{Model: d.model, Key: noise.KeyFromSeed(f.seed), Release: d.release},
		StateDir: filepath.Join(dir, "state"),
		Logger:   demoLogger(f, std), Counters: d.counters,
	})
	if err != nil {
		return err
	}
	d.introduce(broker.Addr())
	report, err := d.run(ctx, service)
	if err != nil {
		return err
	}
	return d.print(report, std.Out)
}

// run feeds, watches and shows until everything is answered or the context ends.
func (d *demo) run(ctx context.Context, service *pipeline.Service) (demoReport, error) {
	blind, err := pipeline.NewBlind(d.model, d.release)
	if err != nil {
		return demoReport{}, err
	}
	if d.live, err = newScoreboard(d.model, blind, d.fixes); err != nil {
		return demoReport{}, err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	fed := make(chan feedResult, 1)
	served := make(chan error, 1)
	watched := make(chan error, 2)
	feed, err := d.newFeed(working)
	if err != nil {
		return demoReport{}, err
	}
	d.began = time.Now()
	go func() {
		served <- service.Run(working)
		close(served) // so that who asks again need not wait
	}()
	go func() { watched <- d.tail(demoTopics.Sanitized, true).Run(working, d.live.sanitized) }()
	go func() { watched <- d.tail(demoTopics.DeadLetters, true).Run(working, d.live.deadLetter) }()
	go func() { fed <- feed.run(working) }()

	took, err := d.watch(ctx, feed, fed, served, watched)
	stop()
	// Also after an error: the service still writes to the folder that goes next.
	if late := <-served; err == nil {
		err = late
	}
	if err != nil {
		return demoReport{}, err
	}
	if ctx.Err() != nil {
		if d.flags.once {
			return demoReport{}, fmt.Errorf("%w before the sample's end: nothing was verified", ctx.Err())
		}
		d.interrupted = true
		return d.report(d.live, feed.sent.Load(), took), nil
	}
	return d.verified(feed.sent.Load(), took)
}

// watch shows the state of things until all is answered, and returns the time
// that took. It gives up when nothing moves any more.
func (d *demo) watch(ctx context.Context, feed *demoFeed, fed <-chan feedResult, served, watched <-chan error) (time.Duration, error) {
	const patience = time.Minute
	view := newDemoView(d.out)
	ticker := time.NewTicker(view.interval())
	defer ticker.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	var answered, shown int64
	var total int64 = -1
	moved := time.Now()
	for {
		select {
		case <-ctx.Done():
			return time.Since(d.began), nil
		case err := <-served:
			if ctx.Err() != nil {
				return time.Since(d.began), err // it was told to end
			}
			return 0, errors.Join(errors.New("the service ended early"), err)
		case err := <-watched:
			if err != nil {
				return 0, err
			}
		case r := <-fed:
			if r.err != nil && ctx.Err() == nil {
				return 0, r.err
			}
			total = r.sent
		case <-poll.C:
			// Fixes that the settings leave without a record are answered when they are counted.
			if n := d.live.answers() + d.counters.Snapshot().Silent(); n != answered {
				answered, moved = n, time.Now()
			}
			if answered == total {
				took := moved.Sub(d.began)
				view.show(d.status(feed, float64(answered)/took.Seconds()))
				return took, nil
			}
			if time.Since(moved) > patience && total >= 0 {
				return 0, fmt.Errorf("%d of %d records were answered and nothing has moved for %v; run with --verbose to see why", answered, total, patience)
			}
		case <-ticker.C:
			if !d.flags.json {
				view.show(d.status(feed, float64(answered-shown)/view.interval().Seconds()))
			}
			shown = answered
		}
	}
}

// verified reads both topics again from the start, now that the service is
// stopped, and holds them against what was fed.
func (d *demo) verified(fed int64, took time.Duration) (demoReport, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	board, err := newScoreboard(d.model, nil, d.fixes)
	if err != nil {
		return demoReport{}, err
	}
	if err := d.tail(demoTopics.Sanitized, false).Run(ctx, board.sanitized); err != nil {
		return demoReport{}, err
	}
	if err := d.tail(demoTopics.DeadLetters, false).Run(ctx, board.deadLetter); err != nil {
		return demoReport{}, err
	}
	if err := board.verify(fed, d.counters.Snapshot().Silent()); err != nil {
		return demoReport{}, err
	}
	return d.report(board, fed, took), nil
}

func (d *demo) tail(topic string, follow bool) topics.Tail {
	return topics.Tail{Client: d.client, Topic: topic, Follow: follow}
}

func (d *demo) report(board *scoreboard, fed int64, took time.Duration) demoReport {
	totals := d.counters.Snapshot()
	r := demoReport{
		RecordsIn: fed, Silent: totals.Silent(),
		LocationSetMean: totals.LocationSetMean(), DriftRatio: totals.DriftRatio(),
		Epsilon: d.release.Epsilon, Delta: d.release.Delta, Mechanism: d.release.Mechanism,
		ModelID: d.model.ID(), Seed: d.flags.seed, cells: d.model.Grid.Cells(),
	}
	board.count(&r)
	r.EpsilonSpent = float64(r.Releases) * r.Epsilon
	r.Speed = d.flags.speed
	if totals.RecordsIn > 0 {
		r.BusyMicros = float64(d.counters.Busy.Load()) / 1000 / float64(totals.RecordsIn)
	}
	d.live.distances(&r)
	if took > 0 {
		r.EventsPerSecond = float64(r.RecordsOut+r.DeadLetters) / took.Seconds()
	}
	return r
}

func (d *demo) status(feed *demoFeed, perSecond float64) demoStatus {
	s := demoStatus{
		elapsed: time.Since(d.began), perSecond: perSecond,
		report: d.report(d.live, feed.sent.Load(), time.Since(d.began)),
	}
	s.fed = float64(s.report.RecordsIn) / float64(len(feed.items))
	s.fleetTime = time.UnixMilli(feed.at.Load()).UTC()
	d.live.mu.Lock()
	s.latest = d.live.latest
	d.live.mu.Unlock()
	return s
}

func (d *demo) introduce(addr string) {
	g := d.model.Grid
	fmt.Fprintf(d.out, `geodither demo (its noise comes from a seed and is not private: records are marked so)
  model     %s: %d × %d cells of %d m, step %v, trained on the sample itself
  release   %s, ε = %g for each release, δ = %g
  budget    %s
  broker    %s (embedded); in another terminal:
            geodither consume --brokers %s --topic %s --follow

`, d.model.ID(), g.Width(), g.Height(), fleet.SampleCellM, d.model.Step, d.release.Mechanism,
		d.release.Epsilon, d.release.Delta, d.budget(), addr, addr, demoTopics.Sanitized)
}

// budget says what limits a bus's sum of ε, in the demo and in a service.
func (d *demo) budget() string {
	b := d.release.Budget
	if b.WindowSteps == 0 && b.Lifetime == 0 {
		return `none: these traces are public. "geodither run" asks for one`
	}
	var limits []string
	if b.WindowSteps > 0 {
		limits = append(limits, fmt.Sprintf("Σε ≤ %g in any %v", b.Epsilon, time.Duration(b.WindowSteps)*d.model.Step))
	}
	if b.Lifetime > 0 {
		limits = append(limits, fmt.Sprintf("Σε ≤ %g for all time", b.Lifetime))
	}
	return strings.Join(limits, ", ") + ", for each vehicle"
}

// print writes the report for a person or for a program.
func (d *demo) print(r demoReport, out io.Writer) error {
	if d.flags.json {
		return json.NewEncoder(out).Encode(r)
	}
	verdict := "each fix answered exactly once"
	if d.interrupted {
		verdict = "interrupted, what was in flight is not answered"
	}
	silent := ""
	if r.Silent > 0 {
		silent = fmt.Sprintf(", %d left without a record by the settings", r.Silent)
	}
	_, err := fmt.Fprintf(out, `
%d records in, %d out, %d dead letters%s: %s.
%d users, %d releases, %d repeats, %d predictions, %d late; |ΔX| %.1f cells on average, true cell outside it in %.1f %%.
Σε per user: %.0f on average. Distance to the truth (rms): release %s, estimate %s; without any release (blind) %s.
%s
`, r.RecordsIn, r.RecordsOut, r.DeadLetters, silent, verdict, r.Users, r.Releases, r.Repeats, r.Predictions, r.Late, r.LocationSetMean, 100*r.DriftRatio,
		r.EpsilonSpent/float64(max(r.Users, 1)), cli.Metres(r.RMSEReleaseM), cli.Metres(r.RMSEEstimateM), cli.Metres(r.RMSEBlindM), r.pace())
	return err
}

// pace says how fast it went, and whose doing that was: a feed at a multiple of the fleet's pace
// says nothing about what the pipeline can do.
func (r demoReport) pace() string {
	went := fmt.Sprintf("As fast as it goes: %.0f records/s through the broker and back, all in this one process", r.EventsPerSecond)
	if r.Speed > 0 {
		went = fmt.Sprintf("Fed at %g times the fleet's pace, %.0f records/s: that is the feed's pace, not a limit", r.Speed, r.EventsPerSecond)
	}
	return fmt.Sprintf("%s.\nThe pipeline itself was busy for %.0f µs a record: decoding, mechanism and encoding, without Kafka.", went, r.BusyMicros)
}

// demoLogger keeps the view clean unless asked otherwise: warnings only.
func demoLogger(f demoFlags, std cli.Streams) *slog.Logger {
	level := slog.LevelError
	if f.verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{Level: level}))
}

// demoFleet reads the sample, trains the model on it, and adds the simulated
// vehicles over the same time.
func demoFleet(f demoFlags) (*mobility.Model, []schemas.Raw, error) {
	fixes, err := fleet.Sample()
	if err != nil {
		return nil, nil, err
	}
	model, err := fleet.SampleModel(fixes)
	if err != nil {
		return nil, nil, err
	}
	if f.vehicles > 0 {
		stepMS := model.Step.Milliseconds()
		first, last := fixes[0].Timestamp/stepMS, fixes[len(fixes)-1].Timestamp/stepMS
		simulated := fleet.New(model, f.vehicles, f.seed)
		for s := first; s <= last; s++ {
			simulated.Step(s*stepMS, func(fix schemas.Raw) bool {
				fixes = append(fixes, fix)
				return true
			})
		}
		slices.SortStableFunc(fixes, func(a, b schemas.Raw) int { return int(a.Timestamp - b.Timestamp) })
	}
	return model, fixes, nil
}
