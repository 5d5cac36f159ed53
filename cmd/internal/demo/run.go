package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/explore"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

const (
	partitions = 4
	group      = "demo"
)

var topicNames = topics.Set{
	Raw: "demo.raw", Sanitized: "demo.sanitized", Changelog: "demo.changelog",
	DeadLetters: "demo.dead-letters",
}

// Options say what the demo shows.
type Options struct {
	// Once ends the demo with an error if a record is missing or double, also by an interrupt.
	Once bool
	// JSON prints the report as one JSON object, and everything else on the error stream.
	JSON bool
	// Vehicles are simulated beside the sample's.
	Vehicles int
	// Seed is that of the noise and of the simulated vehicles.
	Seed uint64
	// Speed is the number of times that the feed is faster than the fleet was; 0: as fast as it
	// goes.
	Speed float64
	// Release says how to release under the demo's model.
	Release func(*mobility.Model) (mechanism.Options, error)
	// Logger gets what the broker and the service log.
	Logger *slog.Logger
}

// demo is one run of it.
type demo struct {
	options  Options
	out      io.Writer // for the view and the report
	model    *mobility.Model
	release  mechanism.Options
	fixes    []schemas.Raw
	client   *kafka.Client
	counters *engine.Counters
	live     *scoreboard
	began    time.Time

	interrupted bool // before the sample's end: nothing is verified
}

// Run runs the demo until the sample ends or the context does, and prints what comes out.
func Run(ctx context.Context, o Options, std cli.Streams) error {
	d := &demo{options: o, out: std.Out, counters: new(engine.Counters)}
	if o.JSON {
		d.out = std.Err
	}
	var err error
	if d.model, d.fixes, err = fleetOf(o); err != nil {
		return err
	}
	if d.release, err = o.Release(d.model); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "geodither-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broker, err := devbroker.Start(devbroker.Options{Logger: o.Logger})
	if err != nil {
		return err
	}
	defer broker.Close() //nolint:errcheck // in memory only: nothing is lost
	d.client = kafkaconn.NewClient([]string{broker.Addr()})
	made := topicNames
	made.Partitions = partitions
	if err := topics.Create(ctx, d.client, wire.Options{}, made); err != nil {
		return err
	}
	options := service.Options{
		Cluster: topics.Cluster{
			Brokers: []string{broker.Addr()}, Group: group, Topics: topicNames,
		},
		Settings: engine.Settings{
			Model: d.model, Key: noise.KeyFromSeed(o.Seed), Release: d.release,
		},
		StateDir: filepath.Join(dir, "state"),
		Logger:   o.Logger, Counters: d.counters, Board: monitor.NewBoard(),
	}
	service, err := service.New(options)
	if err != nil {
		return err
	}
	address := ""
	if !o.Once {
		page, err := d.serve(ctx)
		if err != nil {
			return err
		}
		defer page.Close()
		address = page.URL
	}
	d.introduce(broker.Addr(), address)
	report, err := d.run(ctx, service)
	if err != nil {
		return err
	}
	if err := d.print(report, std.Out); err != nil {
		return err
	}
	// A reader of the page has not seen all of it when the sample ends.
	// A program that reads the report waits for the demo's end and no page.
	if address != "" && !d.interrupted && !o.JSON && newView(std.Out).live {
		fmt.Fprintf(std.Out, "\nThe page stays at %s until Ctrl-C.\n", address)
		<-ctx.Done()
	}
	return nil
}

// page is a web page that follows the demo's topic, until it is closed.
type page struct {
	*explore.Server
	stop func()
}

// Close ends the page.
func (p page) Close() {
	p.stop()
	p.Server.Close()
}

// pageWindow is the length of a window in which the page shows where the fleet was.
const pageWindow = 15 * time.Minute

// serve serves the page. The sample is open data, and further vehicles are simulated: so the page
// has its secret side too, and every account of this machine may look.
func (d *demo) serve(ctx context.Context) (page, error) {
	truth, err := explore.SampleTruth()
	if err != nil {
		return page{}, err
	}
	records := gather.Records{
		Client: d.client, Topic: topicNames.Sanitized, Encoding: schemas.Avro,
	}
	public, err := explore.NewPublic(explore.PublicOptions{
		Topic: topicNames.Sanitized, Source: records.Follow, Window: pageWindow,
		Known: follow.Public{Models: follow.Models{d.model}, Release: d.release},
	})
	if err != nil {
		return page{}, err
	}
	server, err := explore.Open(explore.Options{
		Truth: truth, Public: public, Release: d.release, NoToken: true,
		Logger: d.options.Logger,
	})
	if err != nil {
		return page{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		public.Run(ctx)
	}()
	return page{server, func() {
		cancel()
		<-ended
	}}, nil
}

// run feeds the topic and shows what comes out, until everything is answered or the context ends.
func (d *demo) run(ctx context.Context, service *service.Service) (Report, error) {
	blind, err := engine.NewBlind(d.model, nil, d.release)
	if err != nil {
		return Report{}, err
	}
	if d.live, err = newScoreboard(d.model, blind, d.fixes); err != nil {
		return Report{}, err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	fed := make(chan feedResult, 1)
	served := make(chan error, 1)
	watched := make(chan error, 2)
	feed, err := d.newFeed(working)
	if err != nil {
		return Report{}, err
	}
	d.began = time.Now()
	go func() {
		served <- service.Run(working)
		close(served) // so that who asks again need not wait
	}()
	go func() { watched <- d.tail(topicNames.Sanitized, true).Run(working, d.live.sanitized) }()
	go func() { watched <- d.tail(topicNames.DeadLetters, true).Run(working, d.live.deadLetter) }()
	go func() { fed <- feed.run(working) }()

	took, err := d.watch(ctx, feed, fed, served, watched)
	stop()
	// Also after an error: the service still writes to the folder that goes next.
	if late := <-served; err == nil {
		err = late
	}
	if err != nil {
		return Report{}, err
	}
	if ctx.Err() != nil {
		if d.options.Once {
			return Report{}, fmt.Errorf("%w before the sample's end: nothing was verified",
				ctx.Err())
		}
		d.interrupted = true
		return d.report(d.live, feed.sent.Load(), took), nil
	}
	return d.verified(feed.sent.Load(), took)
}

func (d *demo) newFeed(ctx context.Context) (*sampleFeed, error) {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return nil, err
	}
	feeder, err := fleet.NewFeeder(ctx, d.client, topicNames.Raw, 0, codec)
	if err != nil {
		return nil, err
	}
	feed := &sampleFeed{feeder: feeder, speed: d.options.Speed}
	for i, fix := range d.fixes {
		value, err := codec.AppendRaw(nil, fix)
		if err != nil {
			return nil, err
		}
		item := feedItem{key: []byte(fix.UserID), value: value, timeMS: fix.Timestamp}
		feed.items = append(feed.items, item)
		if i == len(d.fixes)/4 || i == len(d.fixes)/2 || i == 3*len(d.fixes)/4 {
			feed.items = append(feed.items, spoil(item, i))
		}
	}
	return feed, nil
}

// watch shows how far the demo is until everything is answered, and returns the time that took. It
// gives up when nothing has moved for a minute.
func (d *demo) watch(
	ctx context.Context, feed *sampleFeed, fed <-chan feedResult, served, watched <-chan error,
) (time.Duration, error) {
	view := newView(d.out)
	ticker := time.NewTicker(view.interval())
	defer ticker.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	p := progress{total: -1, moved: time.Now()}
	var shown int64
	for {
		select {
		case <-ctx.Done():
			return time.Since(d.began), nil
		case err := <-served:
			return d.ended(ctx, err)
		case err := <-watched:
			if err != nil {
				return 0, err
			}
		case r := <-fed:
			if r.err != nil && ctx.Err() == nil {
				return 0, r.err
			}
			p.total = r.sent
		case <-poll.C:
			// Fixes that the settings leave without a record are answered when they are counted.
			p.set(d.live.answers() + d.counters.Snapshot().Silent())
			if p.answered == p.total {
				took := p.moved.Sub(d.began)
				view.show(d.status(feed, float64(p.answered)/took.Seconds()))
				return took, nil
			}
			if err := p.stuck(); err != nil {
				return 0, err
			}
		case <-ticker.C:
			if !d.options.JSON {
				view.show(d.status(feed, float64(p.answered-shown)/view.interval().Seconds()))
			}
			shown = p.answered
		}
	}
}

// ended says how long the demo took if the service was told to end.
func (d *demo) ended(ctx context.Context, err error) (time.Duration, error) {
	if ctx.Err() != nil {
		return time.Since(d.began), err
	}
	return 0, errors.Join(errors.New("the service ended early"), err)
}

// progress is how many of the records are answered.
type progress struct {
	answered int64
	total    int64 // -1 until all records are fed
	moved    time.Time
}

func (p *progress) set(answered int64) {
	if answered != p.answered {
		p.answered, p.moved = answered, time.Now()
	}
}

// stuck gives up when all is fed and nothing has moved for long.
func (p *progress) stuck() error {
	const patience = time.Minute
	if p.total < 0 || time.Since(p.moved) <= patience {
		return nil
	}
	return fmt.Errorf("%d of %d records were answered and nothing has moved for %v", p.answered,
		p.total, patience)
}

// verified reads all topics once more, now that the service is stopped, and holds the answers
// against what was fed.
func (d *demo) verified(fed int64, took time.Duration) (Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	board, err := newScoreboard(d.model, nil, d.fixes)
	if err != nil {
		return Report{}, err
	}
	ledger, err := fleet.NewLedger(topicNames.Raw, partitions)
	if err != nil {
		return Report{}, err
	}
	for _, of := range []struct {
		topic string
		take  func(int32, consumer.Record) error
	}{
		{topicNames.Raw, func(p int32, r consumer.Record) error {
			ledger.Fed(entry(p, r))
			return nil
		}},
		{topicNames.Sanitized, func(p int32, r consumer.Record) error {
			ledger.Released(entry(p, r))
			return board.sanitized(p, r)
		}},
		{topicNames.DeadLetters, func(p int32, r consumer.Record) error {
			ledger.Refused(entry(p, r))
			return board.deadLetter(p, r)
		}},
	} {
		if err := d.tail(of.topic, false).Run(ctx, of.take); err != nil {
			return Report{}, err
		}
	}
	ledger.Count()
	broken := ledger.Violations(int(d.counters.Snapshot().Silent()))
	if int64(ledger.Raw) != fed {
		broken = append(broken, fmt.Sprintf("%d records were fed, the raw topic holds %d", fed,
			ledger.Raw))
	}
	if len(broken) > 0 {
		return Report{}, fmt.Errorf("not each fix was answered exactly once: %s",
			strings.Join(broken, "; "))
	}
	return d.report(board, fed, took), nil
}

func entry(partition int32, r consumer.Record) fleet.Entry {
	return fleet.Entry{Partition: partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
}

func (d *demo) tail(topic string, follow bool) topics.Tail {
	return topics.Tail{Client: d.client, Topic: topic, Follow: follow}
}

func (d *demo) report(board *scoreboard, fed int64, took time.Duration) Report {
	totals := d.counters.Snapshot()
	r := Report{
		RecordsIn: fed, Silent: totals.Silent(),
		LocationSetMean: trial.Share(totals.SetCells, totals.Releases),
		DriftRatio:      trial.Share(totals.Drifts, totals.Releases),
		Epsilon:         d.release.Epsilon, Delta: d.release.Delta, Mechanism: d.release.Mechanism,
		ModelID: d.model.ID(), Seed: d.options.Seed, limits: d.limits(),
	}
	board.count(&r)
	r.EpsilonSpent = float64(r.Releases) * r.Epsilon
	r.Speed = d.options.Speed
	if totals.RecordsIn > 0 {
		r.BusyMicros = float64(d.counters.Busy.Load()) / 1000 / float64(totals.RecordsIn)
	}
	d.live.distances(&r)
	if took > 0 {
		r.EventsPerSecond = float64(r.RecordsOut+r.DeadLetters) / took.Seconds()
	}
	return r
}

func (d *demo) status(feed *sampleFeed, perSecond float64) status {
	s := status{
		elapsed: time.Since(d.began), perSecond: perSecond,
		report: d.report(d.live, feed.sent.Load(), time.Since(d.began)),
	}
	answered := s.report.RecordsOut + s.report.DeadLetters + s.report.Silent
	s.answered = float64(answered) / float64(len(feed.items))
	s.fleetTime = time.UnixMilli(feed.at.Load()).UTC()
	d.live.mu.Lock()
	s.latest, s.drawn = d.live.latest, d.live.drawn
	d.live.mu.Unlock()
	return s
}

func (d *demo) introduce(addr, page string) {
	g := d.model.Grid
	if page != "" {
		page = "\n  page      " + page + " in a browser: what is released, and what it hides"
	}
	fmt.Fprintf(d.out,
		`geodither demo (its noise comes from a seed and is not private: records are marked so)
  model     %s: %d × %d cells of %d m, step %v, trained on the sample itself
  release   %s
  budget    %s
  broker    %s (embedded); in another terminal:
            geodither consume --brokers %s --topic %s --follow%s

`, d.model.ID(), g.Width(), g.Height(), fleet.SampleCellM, d.model.Step, d.law(),
		d.budget(), addr, addr, topicNames.Sanitized, page)
}

// law says by what releases are made.
func (d *demo) law() string {
	o := &d.release
	text := fmt.Sprintf("%s, ε = %g for each release", o.Mechanism, o.Epsilon)
	if o.Mechanism != law.Codebook {
		text += fmt.Sprintf(", δ = %g", o.Delta)
	}
	if o.ReleaseInterval > 1 {
		text += ", at most one every " +
			cli.Duration(time.Duration(o.ReleaseInterval)*d.model.Step) +
			".\n            Between them the model predicts, which costs nothing"
	}
	if o.Mechanism == law.Codebook {
		text += fmt.Sprintf("\n            A release changes the odds of two places by a factor "+
			"of e^ε = %.0f at most", math.Exp(o.Epsilon))
	}
	return text
}

// budget says what limits the Σε of a vehicle.
func (d *demo) budget() string {
	limits := d.limits()
	if limits == "" {
		return `none: these traces are public. "geodither run" asks for one`
	}
	return limits + ", for each vehicle"
}

// limits are those of a Σε; empty: there is none.
func (d *demo) limits() string {
	b := d.release.Budget
	var limits []string
	if b.WindowSteps > 0 {
		limits = append(limits, fmt.Sprintf("Σε ≤ %g in any %s", b.Epsilon,
			cli.Duration(time.Duration(b.WindowSteps)*d.model.Step)))
	}
	if b.Lifetime > 0 {
		limits = append(limits, fmt.Sprintf("Σε ≤ %g for all time", b.Lifetime))
	}
	return strings.Join(limits, ", ")
}

// print writes the report for a person or for a program.
func (d *demo) print(r Report, out io.Writer) error {
	if d.options.JSON {
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
	text := fmt.Sprintf("%d records in, %d out, %d dead letters%s: %s. Three of "+
		"the records are broken on purpose.\n"+
		"%d users, %d releases, %d repeats, %d predictions, %d late; %s.\n"+
		"Σε per user: %.0f on average. "+
		"Distance to the truth (median): release %s, estimate %s; by the model alone %s.\n"+
		"%s",
		r.RecordsIn, r.RecordsOut, r.DeadLetters, silent, verdict,
		r.Users, r.Releases, r.Repeats, r.Predictions, r.Late,
		expect.SetLine(r.Mechanism, r.LocationSetMean, r.DriftRatio),
		r.spent(),
		cli.Metres(r.MedianReleaseM), cli.Metres(r.MedianEstimateM), cli.Metres(r.MedianBlindM),
		r.pace())
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, cli.Wrap(line, cli.Columns)...)
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

// pace says how fast it went, and what set the pace: a feed at a multiple of the fleet's pace says
// nothing about what the pipeline can do.
func (r Report) pace() string {
	went := fmt.Sprintf("As fast as it goes: %.0f records/s through the broker and back, all in "+
		"this one process", r.EventsPerSecond)
	if r.Speed > 0 {
		went = fmt.Sprintf("Fed at %g times the fleet's pace, %.0f records/s: that is the feed's "+
			"pace, not a limit", r.Speed, r.EventsPerSecond)
	}
	return fmt.Sprintf("%s.\nThe pipeline itself was busy for %.0f µs a record: decoding, "+
		"mechanism and encoding, without Kafka.", went, r.BusyMicros)
}

// fleetOf reads the sample, trains the model on it, and adds the simulated vehicles over the same
// time.
func fleetOf(o Options) (*mobility.Model, []schemas.Raw, error) {
	fixes, err := fleet.Sample()
	if err != nil {
		return nil, nil, err
	}
	model, err := fleet.SampleModel(fixes)
	if err != nil {
		return nil, nil, err
	}
	if o.Vehicles > 0 {
		stepMS := model.Step.Milliseconds()
		first, last := fixes[0].Timestamp/stepMS, fixes[len(fixes)-1].Timestamp/stepMS
		simulated := fleet.New(model, o.Vehicles, o.Seed)
		for s := first; s <= last; s++ {
			simulated.Step(s*stepMS, func(fix schemas.Raw) bool {
				fixes = append(fixes, fix)
				return true
			})
		}
		slices.SortStableFunc(fixes, func(a, b schemas.Raw) int {
			return int(a.Timestamp - b.Timestamp)
		})
	}
	return model, fixes, nil
}

// spoil makes a record that must become a dead letter: one that is cut short, or one under another
// user's key.
func spoil(item feedItem, i int) feedItem {
	if i%2 == 0 {
		item.value = item.value[:len(item.value)/2]
	} else {
		item.key = []byte("somebody-else")
	}
	return item
}

// run feeds all items. The Kafka timestamp is the event time, so that two runs write the same
// records.
func (f *sampleFeed) run(ctx context.Context) feedResult {
	began, first := time.Now(), f.items[0].timeMS
	for _, item := range f.items {
		if f.speed > 0 {
			due := began.Add(
				time.Duration(float64(item.timeMS-first) / f.speed * float64(time.Millisecond)))
			if wait := time.Until(due); wait > 0 {
				if err := f.flush(ctx); err != nil {
					return feedResult{f.sent.Load(), err}
				}
				if err := cli.Sleep(ctx, wait); err != nil {
					return feedResult{f.sent.Load(), err}
				}
			}
		}
		if err := f.feeder.Add(ctx, item.key, item.value, item.timeMS); err != nil {
			return feedResult{f.sent.Load(), err}
		}
		f.at.Store(item.timeMS)
		f.sent.Store(f.feeder.Sent())
	}
	err := f.flush(ctx)
	return feedResult{f.sent.Load(), err}
}

// answers counts the records and dead letters that came back.
func (s *scoreboard) answers() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out + s.dead
}

// count writes the scoreboard's counts into a report.
func (s *scoreboard) count(r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.RecordsOut, r.DeadLetters = s.out, s.dead
	r.Users, r.Releases, r.Repeats, r.Predictions, r.Late = len(s.users), s.releases,
		s.repeats, s.predicted, s.late
	all := sha256.New()
	for _, p := range s.partitions() {
		all.Write(s.scores[p].digest.hash.Sum(nil))
	}
	r.SanitizedSHA256 = hex.EncodeToString(all.Sum(nil))
}

// distances writes the distances to the truth into a report.
func (s *scoreboard) distances(r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all trial.Score
	for _, p := range s.partitions() {
		all.Merge(&s.scores[p].metrics)
	}
	r.MedianReleaseM, r.MedianEstimateM, r.MedianBlindM = all.Release.Median(),
		all.Estimate.Median(), all.Blind.Median()
}
