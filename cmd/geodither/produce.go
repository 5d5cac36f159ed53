package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

type produceFlags struct {
	brokers    []string
	topic      string
	encoding   string
	partitions int
	rate       float64
	input      cli.InputFlags
	simulation simulationFlags
}

func newProduce(std cli.Streams) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce [PATH...]",
		Short: "Feed a raw topic from trace files or a simulated fleet",
		Long: `Feed a raw topic from trace files, or from a simulated fleet that moves by a model.

Records are keyed by user id and partitioned as Kafka's Java client does. A retry inside
one run doubles nothing. A Kafka record's timestamp is the time of producing.`,
		Example: `  geodither produce --brokers localhost:9092 --topic fleet.raw --in traces.csv
  geodither produce --topic fleet.raw --simulate 500 --model model.avro --steps 60
  geodither produce --topic fleet.raw --simulate 500 --model model.avro     # live, until Ctrl-C`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, std)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.brokers, "brokers", []string{"localhost:9092"}, "Kafka brokers, `HOST:PORT,...`")
	flags.StringVar(&f.topic, "topic", "", "raw topic to feed")
	flags.StringVar(&f.encoding, "encoding", string(schemas.Avro), "encoding of the topic: avro or json")
	flags.IntVar(&f.partitions, "create", 0, "create the topic with this many `PARTITIONS` if it is missing")
	flags.Float64Var(&f.rate, "rate", 0, "records per second at most; 0: as fast as it goes")
	f.input.Register(flags)
	f.simulation.register(flags)
	cli.Required(cmd, "topic")
	return cmd
}

func (f *produceFlags) run(ctx context.Context, args []string, std cli.Streams) error {
	if !(f.rate >= 0) || f.partitions < 0 { // so written, no NaN passes either
		return cli.Usagef("--rate and --create must not be negative")
	}
	codec, err := schemas.NewCodec(schemas.Encoding(f.encoding))
	if err != nil {
		return cli.Usage(err)
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	source, err := newFixSource(reading, f.input, args, f.simulation, std)
	if err != nil {
		return err
	}
	client, err := connect(ctx, f.brokers)
	if err != nil {
		return err
	}
	feed, err := newFeeder(ctx, client, f.topic, f.partitions, codec)
	if err != nil {
		return err
	}
	feed.rate = f.rate
	fixes, ended := source.read(reading)
	err = feed.all(ctx, fixes, cli.NewProgress(std.Err, source.progress()))
	stop() // where feeding failed the source has not ended
	<-ended
	if source.reader != nil && source.reader.Skips().Total > 0 {
		fmt.Fprintln(std.Err, source.reader.Skips())
	}
	fmt.Fprintf(std.Err, "produced %d records to %s (%d partitions)\n", feed.sent, f.topic, feed.partitions)
	if source.live && ctx.Err() != nil {
		return nil // a live simulation ends in no other way
	}
	return err
}

// feeder writes fixes to a raw topic.
type feeder struct {
	producer   *producer.Idempotent
	codec      *schemas.Codec
	topic      string
	partitions int
	rate       float64 // records per second; 0: no limit

	sent    int64
	pending []producer.Record
	started time.Time
}

// feedBatch is how many records go out together.
const feedBatch = 2000

func newFeeder(ctx context.Context, client *kafka.Client, topic string, create int, codec *schemas.Codec) (*feeder, error) {
	if create > 0 {
		err := admin.CreateTopics(ctx, client, wire.Options{}, admin.Topic{Name: topic, Partitions: create})
		var other *admin.PartitionsError
		if err != nil && !errors.As(err, &other) { // what exists is kept as it is
			return nil, err
		}
	}
	counts, err := admin.Partitions(ctx, client, wire.Options{}, topic)
	var missing *admin.MissingTopicsError
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("%w; --create 4 makes it, with 4 partitions", err)
	case err != nil:
		return nil, err
	}
	p, err := producer.NewIdempotent(client, producer.Options{})
	if err != nil {
		return nil, err
	}
	return &feeder{producer: p, codec: codec, topic: topic, partitions: counts[topic]}, nil
}

// feedDelay is how long a fix may wait for others to go out with it.
const feedDelay = 50 * time.Millisecond

// all feeds what comes, to its end or to the first error. What came before a
// silence does not wait for what comes after it.
func (f *feeder) all(ctx context.Context, fixes <-chan fixOrError, progress *cli.Progress) error {
	defer progress.Done()
	late := time.NewTicker(feedDelay)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			if err := f.flush(ctx); err != nil {
				return err
			}
			progress.Show(f.sent)
		case next, more := <-fixes:
			if err := ctx.Err(); err != nil {
				return err
			}
			if !more {
				return f.flush(ctx)
			}
			if err := f.fix(ctx, next); err != nil {
				return err
			}
		}
	}
}

func (f *feeder) fix(ctx context.Context, next fixOrError) error {
	if next.err != nil {
		return next.err
	}
	value, err := f.codec.AppendRaw(nil, next.fix)
	if err != nil {
		return fmt.Errorf("a fix of the input: %w", err)
	}
	return f.add(ctx, []byte(next.fix.UserID), value, time.Now().UnixMilli())
}

// add queues one record, sends a full batch, and keeps the pace.
func (f *feeder) add(ctx context.Context, key, value []byte, timestampMS int64) error {
	if f.started.IsZero() {
		f.started = time.Now()
	}
	f.pending = append(f.pending, producer.Record{Key: key, Value: value, Timestamp: timestampMS})
	if f.rate <= 0 {
		if len(f.pending) < feedBatch {
			return nil
		}
		return f.flush(ctx)
	}
	due := f.started.Add(time.Duration(float64(f.sent+int64(len(f.pending))) / f.rate * float64(time.Second)))
	wait := time.Until(due)
	if wait < 10*time.Millisecond && len(f.pending) < feedBatch {
		return nil
	}
	if err := f.flush(ctx); err != nil {
		return err
	}
	return sleep(ctx, wait)
}

func (f *feeder) flush(ctx context.Context) error {
	if len(f.pending) == 0 {
		return nil
	}
	if _, err := f.producer.Send(ctx, f.topic, f.partitions, f.pending); err != nil {
		return err
	}
	f.sent += int64(len(f.pending))
	f.pending = f.pending[:0]
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
