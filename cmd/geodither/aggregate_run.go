package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/schemas"
)

// Options say what to estimate and where to write it.
type aggregateOptions struct {
	Read   aggregate.ReadOptions
	Output aggregateOutput
}

// run is one pass over records.
type aggregation struct {
	options aggregateOptions
	input   *aggregateInput
	reader  *aggregate.Reader
	out     *aggregateWriter
	bar     *cli.Progress
	records int64
	later   []numberedRelease // releases whose records may have an error still
	seeded  int64             // records that say that their noise came from a seed
	times   timeSpan          // of records
}

// numbered is a fresh release with the number of its record.
type numberedRelease struct {
	record int64
	user   string
	of     releaseNumber
}

// Run reads the input, writes the estimates and then a summary to std.Err. Files appear when they
// are complete, and only their owner may read them where a window has few vehicles.
func runAggregate(
	ctx context.Context, in *aggregateInput, o aggregateOptions, std cli.Streams,
) error {
	out, err := newAggregateWriter(o.Output, std.Out)
	if err != nil {
		return err
	}
	r := &aggregation{options: o, input: in, out: out, bar: cli.NewProgress(std.Err, in.progress)}
	summary, err := r.read(ctx)
	r.bar.Done()
	if err == nil && summary.Smallest < enoughVehicles {
		err = out.density.Restrict()
	}
	if err != nil {
		return errors.Join(err, out.density.Discard())
	}
	if err := out.close(); err != nil {
		return err
	}
	_, err = io.WriteString(std.Err, r.words(summary))
	return err
}

// read estimates and writes every window.
func (r *aggregation) read(ctx context.Context) (aggregate.Summary, error) {
	write := func(w *aggregate.Window, d aggregate.Density) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return r.out.window(r.reader.Zones(), w, d)
	}
	var err error
	if r.reader, err = aggregate.NewReader(r.options.Read, write); err != nil {
		return aggregate.Summary{}, cli.Usage(err)
	}
	defer r.reader.Close()
	if err := files.Merge(ctx, r.input.sources, r.add); err != nil {
		if ctx.Err() == nil { // else nobody waits for what an earlier record would have said
			if earlier := r.reader.Flush(); earlier != nil {
				return aggregate.Summary{}, r.located(earlier, "")
			}
		}
		return aggregate.Summary{}, err
	}
	summary, err := r.reader.Finish()
	if err != nil {
		return summary, r.located(err, "")
	}
	r.released(r.records)
	return summary, nil
}

// errSmoothed refuses records that later ones have changed already.
var errSmoothed = errors.New("the record is smoothed already: " +
	"name the sanitized records that it was made from")

// add takes one record.
func (r *aggregation) add(record schemas.Sanitized, where string) error {
	r.records++
	if schemas.IsSmoothed(record.Mechanism) {
		return fmt.Errorf("%s: %w", where, errSmoothed)
	}
	if schemas.HasNote(record.Mechanism, schemas.Seeded) {
		r.seeded++
	}
	r.times.add(timeSpan{record.Timestamp, record.Timestamp})
	const often = 256
	if r.records%often == 0 {
		r.bar.Show(r.records)
	}
	if !r.reader.After(record.Step) && record.Kind == schemas.KindReleased {
		r.later = append(r.later, numberedRelease{r.records, record.UserID, releaseNumber{
			record.Release, record.Step, record.ReleaseLatitude.Number,
			record.ReleaseLongitude.Number,
		}})
	}
	err := r.reader.Add(engine.Published(record, where))
	if err != nil {
		return r.located(err, where)
	}
	r.released(r.reader.Taken())
	return nil
}

// released notes the releases up to a record.
func (r *aggregation) released(record int64) {
	n := 0
	for n < len(r.later) && r.later[n].record <= record {
		r.input.split.released(r.later[n].user, r.later[n].of)
		n++
	}
	r.later = r.later[n:]
}

// located explains an error and names the place of its record: where, unless it is another one's.
// Releases behind that record have no part in the explanation.
func (r *aggregation) located(err error, where string) error {
	record := r.records
	if placed, ok := errors.AsType[*aggregate.PlaceError](err); ok {
		where, record = placed.Place.Where, placed.Place.Number
	}
	r.released(record)
	if err = r.explain(err); where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// explain adds to an error what to do with the command.
func (r *aggregation) explain(err error) error {
	if options, ok := errors.AsType[*aggregate.OptionsError](err); ok {
		return cli.Usage(options)
	}
	if setting, ok := errors.AsType[*aggregate.SettingError](err); ok {
		return fmt.Errorf("%w: leave release.%s out of the config, or aggregate the records "+
			"of one setting by themselves", err, setting.Name)
	}
	switch {
	case errors.Is(err, aggregate.ErrNoRelease):
		return fmt.Errorf("%w: set publish.release: true for records from now on; \"geodither "+
			"replay\" with that setting writes the earlier ones again, to another topic", err)
	case errors.Is(err, aggregate.ErrAfter):
		return errors.New("every record is of a window that ends after --to: nothing to aggregate")
	case errors.Is(err, aggregate.ErrModel):
		return fmt.Errorf("%w. Give all models of the time, with several --model or the service's "+
			"config with -c, or leave the time of the others out with --from or --to", err)
	case errors.Is(err, aggregate.ErrMaps):
		return fmt.Errorf("%w: aggregate the time of each map by itself, with --to that time for "+
			"the one and --from it, or a window later, for the other", err)
	case errors.Is(err, aggregate.ErrOrder), errors.Is(err, aggregate.ErrSettings):
		if cause := r.input.split.cause(); cause != "" {
			return fmt.Errorf("%w. A likely cause: %s", err, cause)
		}
	}
	return err
}

// Input is where sanitized records come from. It serves one Run.
type aggregateInput struct {
	sources []files.Source
	split   *split
	read    atomic.Int64 // bytes
	total   int64        // bytes; 0 if that is not known
}

// progress says how many bytes of how many are read.
func (in *aggregateInput) progress() (done, total int64) { return in.read.Load(), in.total }

// Files is an input of files of "sanitize" or "consume"; "-" is standard input.
func aggregateFiles(paths []string, stdin io.Reader) (*aggregateInput, error) {
	if i := slices.Index(paths, "-"); i >= 0 && slices.Contains(paths[i+1:], "-") {
		return nil, cli.Usagef("standard input is named twice: name - once")
	}
	total, err := files.Sizes(paths)
	if err != nil {
		return nil, err
	}
	in := &aggregateInput{split: newSplit(), total: total}
	for _, path := range paths {
		count := func(n int) { in.read.Add(int64(n)) }
		in.sources = append(in.sources, files.Records(path, stdin, count))
	}
	return in, nil
}

// Topic is an input of a sanitized topic, from its first offset to the end that it has now.
func aggregateTopic(
	ctx context.Context, client *kafka.Client, topic string, encoding schemas.Encoding,
) (*aggregateInput, error) {
	records := gather.Records{Client: client, Topic: topic, Encoding: encoding}
	held, err := records.Held(ctx)
	if err != nil {
		return nil, err
	}
	in := &aggregateInput{split: newSplit()}
	for p, source := range held {
		in.sources = append(in.sources, in.partition(int32(p), source))
	}
	return in, nil
}

// partition notes whose records lie in one partition.
func (in *aggregateInput) partition(p int32, source files.Source) files.Source {
	return func(ctx context.Context, each func(schemas.Sanitized, string) error) error {
		return source(ctx, func(r schemas.Sanitized, where string) error {
			in.split.lies(r.UserID, p)
			return each(r, where)
		})
	}
}

// split finds users whose records come from two states. The service keeps a state for each
// partition, so a user whose raw records lay in two partitions was released twice, from two
// budgets, and no one filter follows both. The partitions of a topic show it. In a file the numbers
// of releases do, because every state counts them by itself.
type split struct {
	mu         sync.Mutex // sources are read side by side
	partitions map[string]int32
	apart      map[string]bool // in more than one partition

	numbers map[string]releaseNumber
	again   map[string]bool // a number came again, for another release
}

// releaseNumber is a release and its number among its user's.
type releaseNumber struct {
	number, step        int64
	latitude, longitude float64
}

func newSplit() *split {
	return &split{
		partitions: map[string]int32{}, apart: map[string]bool{},
		numbers: map[string]releaseNumber{}, again: map[string]bool{},
	}
}

// lies notes in which partition a user's record is.
func (s *split) lies(user string, partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, known := s.partitions[user]; known && first != partition {
		s.apart[user] = true
		return
	}
	s.partitions[user] = partition
}

// released notes a user's fresh release.
func (s *split) released(user string, this releaseNumber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch last := s.numbers[user]; {
	case this.number > last.number:
		s.numbers[user] = this
	case this != last: // else the record is there twice, as when a file is named twice
		s.again[user] = true
	}
}

// cause says which users have records of two states, or nothing. It names none of them.
func (s *split) cause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	users := func(n int) string {
		if n == 1 {
			return "1 user has"
		}
		return fmt.Sprintf("%d users have", n)
	}
	switch {
	case len(s.apart) > 0:
		return users(len(s.apart)) + " records in more than one partition, so each of these " +
			"partitions had a state and a budget for the user: the raw topic's producers do not " +
			"agree on a partitioner. \"geodither doctor\" says which ones they use"
	case len(s.again) > 0:
		return users(len(s.again)) + " releases whose numbers go back, so these come from two " +
			"states of the user, each with a budget: the raw topic's producers may not agree on " +
			"a partitioner (\"geodither doctor\" says which ones they use), or the records " +
			"are of two services or groups"
	}
	return ""
}

// enough is how many vehicles make an estimate one of a fleet.
const enoughVehicles = 100

// lines is a text of lines with a word in front of each.
type summaryLines struct{ strings.Builder }

func (l *summaryLines) add(word, format string, args ...any) {
	fmt.Fprintf(l, "%-12s"+format+"\n", append([]any{word}, args...)...)
}

// words say what was found, and how far to trust it.
func (r *aggregation) words(s aggregate.Summary) string {
	c, zones, collect := s.Counts, r.reader.Zones(), &r.options.Read.Collect
	length := time.Duration(collect.WindowSteps) * r.options.Read.Models[0].Step
	l := new(summaryLines)
	fmt.Fprintf(l, "%s of %s; windows of %v",
		cli.Quantity(c.Records, "record"), cli.Quantity(int64(c.Users), "user"), length)
	if zones != nil {
		if zones.Named() {
			fmt.Fprintf(l, ", %d zones with names", zones.Count())
		} else {
			fmt.Fprintf(l, ", %d zones of %.2f km", zones.Count(), zones.SideKM())
		}
	}
	fmt.Fprintln(l)
	if r.seeded > 0 {
		l.add("seeded", "%s", files.SeededWords(r.seeded))
	}
	if n := r.options.Output.OffMap; n > 0 {
		l.add("WARNING", "%s of --zone off the map left out", cli.Quantity(int64(n), "polygon"))
	}
	l.followed(s)
	if cause := r.input.split.cause(); cause != "" {
		l.add("beware", "%s", cause)
	}
	if c.Models > 1 {
		l.add("models", "%d versions; users are followed from one to the next", c.Models)
	}
	l.outside(s)
	if c.Late > 0 {
		l.add("late", "%d records came when their window was closed, and have no part in it: "+
			"of a topic, %d windows are open at a time", c.Late, collect.Open)
	}
	if s.Windows == 0 {
		fmt.Fprintln(l, "no window has a vehicle that could be followed: nothing is estimated")
		return l.String()
	}
	l.windows(s)
	l.partial("records", r.times)
	l.fullest(zones, s)
	if s.Smallest < enoughVehicles {
		l.add("beware", "windows of fewer than %d vehicles are about few people, and what a zone "+
			"has there is mostly the model's: look at low and high, and at larger zones or windows",
			enoughVehicles)
	}
	return l.String()
}

// followed says whose records were followed, and why those of others were not. Only records of
// windows that are wanted count.
func (l *summaryLines) followed(s aggregate.Summary) {
	const why = "estimate follows from the model, the settings and the releases"
	c, w := s.Counts, s.Counts.Wanted
	switch {
	case w.Records == 0:
	case w.Followed == w.Records:
		l.add("followed", "all: every record's "+why)
	case c.Lost > 0:
		have, are := "have", "They are"
		if c.Lost == 1 {
			have, are = "has", "The user is"
		}
		l.add("followed", "%.1f %% of the records: %s %s records missing, or came under other "+
			"settings (a change of settings, a model that is not given, a topic whose beginning "+
			"retention has removed). %s left out until a gap of more than %s",
			100*float64(w.Followed)/float64(w.Records), cli.Quantity(int64(c.Lost), "user"), have,
			are, cli.Quantity(int64(s.MaxGap), "step"))
	case w.Followed == 0:
		l.add("followed", "none of the records")
	default:
		l.add("followed", "all others, %d of %d records: every one's "+why, w.Followed, w.Records)
	}
}

// outside says what became of records outside of --from and --to.
func (l *summaryLines) outside(s aggregate.Summary) {
	if c := s.Counts; c.Unwanted > 0 {
		l.add("outside", "%s of windows outside --from and --to count in no window; %d could be "+
			"followed", cli.Quantity(c.Unwanted, "record"), c.Followed-c.Wanted.Followed)
	}
	if s.After > 0 {
		l.add("outside", "%s of windows that end after --to, not looked at",
			cli.Quantity(s.After, "more record"))
	}
}

// windows says what the windows have on average.
func (l *summaryLines) windows(s aggregate.Summary) {
	n := float64(s.Windows)
	text := fmt.Sprintf("%d with %s vehicles on average, the smallest with %d",
		s.Windows, strconv.FormatFloat(math.Round(float64(s.Vehicles)/n*10)/10, 'f', -1, 64),
		s.Smallest)
	if s.Lost > 0 {
		text += fmt.Sprintf("; %.1f more that are left out", float64(s.Lost)/n)
	}
	if s.Empty > 0 {
		text += fmt.Sprintf("; %d more windows have nobody who could be followed", s.Empty)
	}
	l.add("windows", "%s", text)
	l.add("releases", "change the zone of %.0f %% of the vehicles on average, compared with the "+
		"model alone; in %d of %d windows they disagree with the model so much that the fleet's "+
		"own distribution replaces part of it",
		100*s.Moved, s.Taught, s.Windows)
}

// timeSpan is a time from first to last, Unix milliseconds; all 0: none yet.
type timeSpan struct{ firstMS, lastMS int64 }

// add widens the span by another one.
func (s *timeSpan) add(more timeSpan) {
	s.firstMS = min(cmp.Or(s.firstMS, more.firstMS), cmp.Or(more.firstMS, s.firstMS))
	s.lastMS = max(s.lastMS, more.lastMS)
}

// partial says which windows may hold a part of their time alone.
func (l *summaryLines) partial(what string, of timeSpan) {
	l.add("partial", "the %s are from %s to %s: a window that starts earlier or ends later may "+
		"have only a part of its reports", what, inUTC(of.firstMS), inUTC(of.lastMS))
}

// fullest names the zones with most vehicles in the window with most vehicles.
func (l *summaryLines) fullest(zones *aggregate.Zones, s aggregate.Summary) {
	d := s.Most
	order := make([]int, len(d.Fitted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(d.Fitted[j], d.Fitted[i])
	})
	const shown = 5
	l.add("fullest", "from %s, %s:", inUTC(s.MostMS), cli.Quantity(int64(d.Vehicles), "vehicle"))
	for _, z := range order[:min(shown, len(order))] {
		lat, lon := middleOfZone(zones, int32(z))
		name := zones.Name(int32(z))
		if name != "" {
			name += "   "
		}
		l.add("", "%s%.5f, %.5f   %5.1f vehicles (%g to %g), by the model alone %.1f",
			name, lat, lon, d.Fitted[z], d.Low[z], d.High[z], d.Blind[z])
	}
}
