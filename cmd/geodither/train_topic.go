package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/pipeline"
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

// open connects to the brokers.
func (f *topicFlags) open(ctx context.Context, strict bool) (*gather.Topic, error) {
	s := &gather.Topic{Name: f.topic, Encoding: schemas.Encoding(f.encoding), Strict: strict, MaxAhead: f.maxAhead}
	if err := s.Encoding.Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	if f.maxAhead < 0 {
		return nil, cli.Usagef("--max-ahead must not be negative")
	}
	var err error
	if s.From, err = parseBound("from", f.from); err != nil {
		return nil, err
	}
	if s.To, err = parseBound("to", f.to); err != nil {
		return nil, err
	}
	if s.From.IsOffset && s.To.IsOffset && s.To.Offset <= s.From.Offset || !s.From.Time.IsZero() && !s.To.Time.IsZero() && !s.To.Time.After(s.From.Time) {
		return nil, cli.Usagef("--to must be behind --from: the record at --to is left out")
	}
	s.Client, err = kafkaconn.Connect(ctx, f.brokers)
	return s, err
}
