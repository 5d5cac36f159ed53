package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

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
	if err := out.close(summary); err != nil {
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
