package gather

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// recordUnit is what is skipped in a topic: in files it is lines.
const recordUnit = "record"

// Topic is a source of a range of a raw topic.
type Topic struct {
	Client   *kafka.Client
	Name     string
	Source   engine.Source // how its records are read
	From, To topics.Bound  // the record at To is left out
	// Since is a time from which on no record may have been deleted; zero: any may.
	Since time.Time
}

// window is the part of a partition that is read.
type window struct {
	reader   *topics.Reader
	from, to int64
}

// Read implements [Source]. It reads the records that are committed when it starts.
func (s *Topic) Read(ctx context.Context, into Into, bar *cli.Progress) (*Gathered, error) {
	in, err := s.all(ctx, into, bar)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return in, err
}

func (s *Topic) all(ctx context.Context, into Into, bar *cli.Progress) (*Gathered, error) {
	windows, total, err := s.windows(ctx)
	if err != nil {
		return nil, err
	}
	in := newGathered(into, min(len(windows), topicWorkers()))
	in.From = fmt.Sprintf("%d records in %d partitions of %s", total, len(windows), s.Name)
	in.Skips, err = s.scan(ctx, windows, bar, func(worker int, fix schemas.Raw) error {
		in.addFix(worker, fix)
		return nil
	})
	return in, err
}

// topicWorkers is how many partitions are read at a time at most: some wait for the broker.
func topicWorkers() int { return 2 * runtime.GOMAXPROCS(0) }

// Fixes gives the fixes of a topic, as Reader does of files.
type Fixes struct {
	Topic *Topic
	skips traces.Skips
}

// Workers is how many there are at most.
func (f *Fixes) Workers() int { return topicWorkers() }

// Skips returns what was left out, once Each has returned.
func (f *Fixes) Skips() *traces.Skips { return &f.skips }

// Each gives the fixes of all records that are committed when it starts to take, which several
// workers call at a time.
func (f *Fixes) Each(
	ctx context.Context, bar *cli.Progress, take func(worker int, fix schemas.Raw) error,
) error {
	windows, _, err := f.Topic.windows(ctx)
	if err == nil {
		f.skips, err = f.Topic.scan(ctx, windows, bar, take)
	}
	return err
}

// scan reads parts of partitions. Each worker reads one of them after the other.
func (s *Topic) scan(
	ctx context.Context, windows []window, bar *cli.Progress,
	take func(worker int, fix schemas.Raw) error,
) (traces.Skips, error) {
	bar.Phase("reading", nil)
	total := int64(0)
	for _, w := range windows {
		total += max(0, w.to-w.from)
	}
	workers := min(len(windows), topicWorkers())
	skips := make([]*traces.Skips, workers)
	for i := range skips {
		skips[i] = &traces.Skips{Unit: recordUnit}
	}
	var done atomic.Int64
	err := parallel.Pool{
		Workers: workers,
	}.Do(len(windows), func(worker int) func(*parallel.Task) error {
		return func(t *parallel.Task) error {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			t.OnStop(stop)
			reader, err := engine.NewReader(s.Source)
			if err != nil {
				return err
			}
			p := t.Number
			w := windows[p]
			err = w.reader.Scan(ctx, w.from, w.to, func(r consumer.Record) error {
				bar.Count(done.Add(1), total, "records")
				fixes, err := reader.Fixes(topics.Record(r))
				for _, fix := range fixes {
					if why := s.leftOut(fix); why != "" {
						s.skip(skips[worker], p, r.Offset, why)
					} else if err := take(worker, fix.Raw); err != nil {
						return err
					}
				}
				return err
			})
			if errors.Is(err, consumer.ErrOffsetOutOfRange) {
				err = fmt.Errorf("%w: choose a later --from", err)
			}
			return err
		}
	})
	return traces.Merge(skips...), err
}

// leftOut says why a fix is not to be used; "" if it is.
func (s *Topic) leftOut(fix engine.Fix) string {
	switch {
	case fix.Refused != nil:
		return string(fix.Refused.Reason)
	case fix.Skipped != mapping.NoRule:
		return "input: " + s.rules()[fix.Skipped]
	}
	return ""
}

// windows resolves the bounds in every partition.
func (s *Topic) windows(ctx context.Context) (windows []window, total int64, err error) {
	counts, err := admin.Partitions(ctx, s.Client, wire.Options{}, s.Name)
	if err != nil {
		return nil, 0, err
	}
	if err := s.whole(ctx); err != nil {
		return nil, 0, err
	}
	held := int64(0)
	for p := range int32(counts[s.Name]) {
		r, err := topics.Open(ctx, s.Client, s.Name, p, consumer.FetcherOptions{})
		if err != nil {
			return nil, 0, err
		}
		if err := s.complete(ctx, p, r); err != nil {
			return nil, 0, err
		}
		from, err := s.From.Resolve(ctx, r, r.First)
		if err != nil {
			return nil, 0, err
		}
		to, err := s.To.Resolve(ctx, r, r.End)
		if err != nil {
			return nil, 0, err
		}
		w := window{r, max(from, r.First), min(to, r.End)}
		windows = append(windows, w)
		total += max(0, w.to-w.from)
		held += r.End - r.First
	}
	switch {
	case held == 0:
		return nil, 0, fmt.Errorf("topic %s holds no committed records", s.Name)
	case total == 0:
		return nil, 0, fmt.Errorf("topic %s: none of its %d offsets lies from --from to --to",
			s.Name, held)
	}
	return windows, total, nil
}

// whole returns an error where Since is set and the topic is compacted: that deletes records of any
// time, and leaves the first one.
func (s *Topic) whole(ctx context.Context) error {
	if s.Since.IsZero() {
		return nil
	}
	const policy = "cleanup.policy"
	have, err := admin.Configs(ctx, s.Client, wire.Options{}, s.Name, policy)
	if err == nil && strings.Contains(have[policy], topics.Compacted[policy]) {
		err = fmt.Errorf("%s is compacted (counts-lost)", s.Name)
	}
	return err
}

// complete returns an error where a partition may have lost records that were appended after Since.
// Only the time at which the broker appended its first record tells: all that is lost was appended
// before. A producer's clock may have given any time.
func (s *Topic) complete(ctx context.Context, p int32, r *topics.Reader) error {
	if s.Since.IsZero() || r.First == 0 {
		return nil
	}
	record, ok, err := r.Cursor(r.First, r.End).Next(ctx)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("%s/%d has lost all records: count files (counts-lost)", s.Name, p)
	case !record.Appended:
		err = fmt.Errorf("%s/%d has lost records, nothing says since when (counts-lost)", s.Name, p)
	case record.Timestamp > s.Since.UnixMilli():
		err = fmt.Errorf("%s/%d has lost records since %s (counts-lost)", s.Name, p,
			s.Since.UTC().Format(time.RFC3339))
	}
	return err
}

// rules are the names of the rules that skip records.
func (s *Topic) rules() []string { return engine.Input{Mapping: s.Source.Mapping}.Rules() }

// skip counts a record that the service would refuse or skip. It does not say what is in the
// record.
func (s *Topic) skip(skips *traces.Skips, p int, offset int64, reason string) {
	skips.Add(p, traces.Skip{
		File: fmt.Sprintf("%s/%d", s.Name, p), Line: int(offset), Reason: reason,
	})
}
