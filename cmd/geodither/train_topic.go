package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/schemas"
)

// topicFlags name a range of a raw topic to be trained on.
type topicFlags struct {
	brokers  []string
	topic    string
	encoding string
	from, to string
	maxAhead time.Duration
}

func (f *topicFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.topic, "topic", "", "train on this raw topic of Kafka in place of files")
	flags.StringSliceVar(&f.brokers, "brokers", []string{"localhost:9092"}, "Kafka brokers, `HOST:PORT,...`")
	flags.StringVar(&f.encoding, "encoding", string(schemas.Avro), "encoding of the topic: avro or json")
	flags.StringVar(&f.from, "from", "", "first record of the topic to train on: `OFFSET` or time; default: its beginning")
	flags.StringVar(&f.to, "to", "", "first record of the topic to leave out again: `OFFSET` or time; default: its end")
	flags.DurationVar(&f.maxAhead, "max-ahead", pipeline.DefaultMaxAhead, "leave out a fix whose time is this much ahead of its Kafka record's")
}

// topicSource is a range of a topic.
type topicSource struct {
	client   *kafka.Client
	topic    string
	encoding schemas.Encoding
	strict   bool
	from, to pipeline.Bound
	maxAhead time.Duration
}

// open connects to the brokers.
func (f *topicFlags) open(ctx context.Context, strict bool) (*topicSource, error) {
	s := &topicSource{topic: f.topic, encoding: schemas.Encoding(f.encoding), strict: strict, maxAhead: f.maxAhead}
	if err := s.encoding.Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	if f.maxAhead < 0 {
		return nil, cli.Usagef("--max-ahead must not be negative")
	}
	var err error
	if s.from, err = parseBound("from", f.from); err != nil {
		return nil, err
	}
	if s.to, err = parseBound("to", f.to); err != nil {
		return nil, err
	}
	if s.from.IsOffset && s.to.IsOffset && s.to.Offset <= s.from.Offset || !s.from.Time.IsZero() && !s.to.Time.IsZero() && !s.to.Time.After(s.from.Time) {
		return nil, cli.Usagef("--to must be behind --from: the record at --to is left out")
	}
	s.client, err = kafkaconn.Connect(ctx, f.brokers)
	return s, err
}

// window is the part of a partition that is read.
type window struct{ first, from, to int64 }

// read implements source. What is read is fixed at the start: the records that
// were committed by then.
func (s *topicSource) read(ctx context.Context, gather func(workers int) *gathering, bar *cli.Progress) (gathered, error) {
	in, err := s.all(ctx, gather, bar)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return in, err
}

func (s *topicSource) all(ctx context.Context, gather func(workers int) *gathering, bar *cli.Progress) (gathered, error) {
	windows, total, err := s.windows(ctx)
	if err != nil {
		return gathered{}, err
	}
	bar.Phase("reading", nil)
	workers := min(len(windows), 2*runtime.GOMAXPROCS(0)) // some wait for the broker
	in := gathered{gathering: gather(workers), from: fmt.Sprintf("%d records in %d partitions of %s", total, len(windows), s.topic)}
	skips := make([]*traces.Skips, workers)
	for i := range skips {
		skips[i] = &traces.Skips{Unit: "record"}
	}
	var done atomic.Int64
	err = parallel.Pool{Workers: workers}.Do(len(windows), func(worker int) func(*parallel.Task) error {
		return func(t *parallel.Task) error {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			t.OnStop(stop)
			codec, err := schemas.NewCodec(s.encoding)
			if err != nil {
				return err
			}
			p := t.Number
			return s.partition(ctx, int32(p), windows[p], func(r consumer.Record) error {
				bar.Count(done.Add(1), total, "records")
				fix, err := pipeline.Accept(codec, s.maxAhead, r.Key, r.Value, r.Timestamp)
				if err != nil {
					return s.refuse(skips[worker], p, r.Offset, err)
				}
				in.take(worker, fix)
				return nil
			})
		}
	})
	in.skips = traces.Merge(skips...)
	return in, err
}

// windows resolves the bounds in every partition.
func (s *topicSource) windows(ctx context.Context) (windows []window, total int64, err error) {
	counts, err := admin.Partitions(ctx, s.client, wire.Options{}, s.topic)
	if err != nil {
		return nil, 0, err
	}
	held := int64(0)
	for p := range int32(counts[s.topic]) {
		fetcher, err := consumer.NewFetcher(s.client, s.topic, p, consumer.FetcherOptions{})
		if err != nil {
			return nil, 0, err
		}
		first, end, err := fetcher.Bounds(ctx)
		if err != nil {
			return nil, 0, err
		}
		from, err := s.from.Resolve(ctx, fetcher, first)
		if err != nil {
			return nil, 0, err
		}
		to, err := s.to.Resolve(ctx, fetcher, end)
		if err != nil {
			return nil, 0, err
		}
		w := window{first: first, from: max(from, first), to: min(to, end)}
		windows = append(windows, w)
		total += max(0, w.to-w.from)
		held += end - first
	}
	switch {
	case held == 0:
		return nil, 0, fmt.Errorf("topic %s holds no committed records: feed it first, or name another", s.topic)
	case total == 0:
		return nil, 0, fmt.Errorf("topic %s holds %d offsets, none of them from --from to --to: choose other bounds; times are those of the Kafka records", s.topic, held)
	}
	return windows, total, nil
}

// partition gives each record of a partition's window to each.
func (s *topicSource) partition(ctx context.Context, p int32, w window, each func(consumer.Record) error) error {
	fetcher, err := consumer.NewFetcher(s.client, s.topic, p, consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	for offset := w.from; offset < w.to; {
		got, err := fetcher.Fetch(ctx, offset)
		if errors.Is(err, consumer.ErrOffsetOutOfRange) {
			return fmt.Errorf("%w: choose a later --from", err)
		}
		if err != nil {
			return err
		}
		for _, r := range got.Records {
			if r.Offset >= w.to {
				return nil
			}
			if err := each(r); err != nil {
				return err
			}
		}
		offset = got.Next
	}
	return nil
}

// refuse counts a record that the service would refuse, or is the error of
// strict reading. Neither says anything of what is in it.
func (s *topicSource) refuse(skips *traces.Skips, p int, offset int64, cause error) error {
	rejection, ok := errors.AsType[*schemas.Rejection](cause)
	if !ok {
		return cause
	}
	if s.strict {
		return fmt.Errorf("%s/%d at offset %d: %s: train without --strict to leave such records out", s.topic, p, offset, rejection.Reason)
	}
	skips.Add(p, traces.Skip{File: fmt.Sprintf("%s/%d", s.topic, p), Line: int(offset), Reason: string(rejection.Reason)})
	return nil
}
