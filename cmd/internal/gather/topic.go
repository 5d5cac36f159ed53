package gather

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/parallel"
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
	bar.Phase("reading", nil)
	workers := min(len(windows), 2*runtime.GOMAXPROCS(0)) // some wait for the broker
	in := newGathered(into, workers)
	in.From = fmt.Sprintf("%d records in %d partitions of %s", total, len(windows), s.Name)
	skips := make([]*traces.Skips, workers)
	for i := range skips {
		skips[i] = &traces.Skips{Unit: recordUnit}
	}
	var done atomic.Int64
	err = parallel.Pool{
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
					switch {
					case fix.Refused != nil:
						s.skip(skips[worker], p, r.Offset, string(fix.Refused.Reason))
					case fix.Skipped != mapping.NoRule:
						s.skip(skips[worker], p, r.Offset, "input: "+s.rules()[fix.Skipped])
					default:
						in.addFix(worker, fix.Raw)
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
	in.Skips = traces.Merge(skips...)
	return in, err
}

// windows resolves the bounds in every partition.
func (s *Topic) windows(ctx context.Context) (windows []window, total int64, err error) {
	counts, err := admin.Partitions(ctx, s.Client, wire.Options{}, s.Name)
	if err != nil {
		return nil, 0, err
	}
	held := int64(0)
	for p := range int32(counts[s.Name]) {
		r, err := topics.Open(ctx, s.Client, s.Name, p, consumer.FetcherOptions{})
		if err != nil {
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

// rules are the names of the rules that skip records.
func (s *Topic) rules() []string { return engine.Input{Mapping: s.Source.Mapping}.Rules() }

// skip counts a record that the service would refuse or skip. It does not say what is in the
// record.
func (s *Topic) skip(skips *traces.Skips, p int, offset int64, reason string) {
	skips.Add(p, traces.Skip{
		File: fmt.Sprintf("%s/%d", s.Name, p), Line: int(offset), Reason: reason,
	})
}
