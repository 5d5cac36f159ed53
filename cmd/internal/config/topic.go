package config

import (
	"cmp"
	"context"

	kafka "github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/schemas"
)

// TopicFlags name a topic: by themselves, or as a config does.
type TopicFlags struct {
	path    string
	brokers []string
	topic   string
}

// Register registers --brokers and --topic.
func (f *TopicFlags) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.brokers, "brokers", nil,
		"Kafka brokers, `HOST:PORT,...`; default localhost:9092")
	flags.StringVar(&f.topic, "topic", "", "`TOPIC`, in place of the config's")
}

// Topic is a topic that a command reads or writes.
type Topic struct {
	Brokers    []string
	Connection *kafkaconn.Connection // nil: in plain text, without a login
	Name       string
	Encoding   schemas.Encoding
	Made       bool // "geodither run" makes it where it is missing: topics.create
}

// Connect returns a client of the topic's brokers, which have answered.
func (t Topic) Connect(ctx context.Context) (*kafka.Client, error) {
	return t.Connection.Connect(ctx, t.Brokers)
}

// RawTopic returns the raw topic as a config names it; its name is empty where no config does.
func (c File) RawTopic() Topic { return c.topic(c.Topics.Raw, c.Encoding.Raw) }

// SanitizedTopic returns the sanitized topic in the same way.
func (c File) SanitizedTopic() Topic { return c.topic(c.Topics.Sanitized, c.Encoding.Sanitized) }

// deadLetters returns the topic of dead letters in the same way.
func (c File) deadLetters() Topic {
	name := c.Topics.DeadLetters
	if c.Group != "" {
		cluster := topics.Cluster{Group: c.Group, Topics: topics.Set{DeadLetters: name}}
		name = cluster.WithDefaults().Topics.DeadLetters
	}
	return c.topic(name, c.Encoding.Sanitized)
}

func (c File) topic(name string, encoding schemas.Encoding) Topic {
	t := Topic{
		Brokers: []string{"localhost:9092"}, Name: name, Encoding: cmp.Or(encoding, schemas.Avro),
	}
	if len(c.Brokers) > 0 {
		t.Brokers = c.Brokers
	}
	return t
}

// Raw returns the raw topic of the config, with the flags in the place of its settings. It refuses
// the topic of a config whose records have another form than raw.avsc: geodither writes that alone.
func (f *TopicFlags) Raw(cmd *cobra.Command) (Topic, error) {
	mapped := ""
	t, err := f.read(cmd, func(c File) Topic {
		options := c.Input.mapping()
		options.Format = ""
		if !options.IsZero() {
			mapped = c.Topics.Raw
		}
		return c.RawTopic()
	})
	if err == nil && mapped != "" && t.Name == mapped {
		err = cli.Usagef("config %s: the records of %s have the form of input, which geodither "+
			"does not write", f.path, mapped)
	}
	return t, err
}

// Sanitized returns the sanitized topic in the same way.
func (f *TopicFlags) Sanitized(cmd *cobra.Command) (Topic, error) {
	return f.read(cmd, File.SanitizedTopic)
}

// DeadLetters returns the topic of dead letters in the same way.
func (f *TopicFlags) DeadLetters(cmd *cobra.Command) (Topic, error) {
	return f.read(cmd, File.deadLetters)
}

func (f *TopicFlags) read(cmd *cobra.Command, pick func(File) Topic) (Topic, error) {
	var c File
	// The logins of a config that was not named are not for brokers that were.
	f.path = cli.Config(cmd, f.topic == "" && !cmd.Flags().Changed("brokers"))
	if f.path != "" {
		var err error
		if c, err = Read(f.path); err != nil {
			return Topic{}, err
		}
	}
	t := pick(c)
	if f.path != "" {
		var err error
		if t.Connection, err = c.Connection(); err != nil {
			return Topic{}, Error(f.path, err)
		}
	}
	if cmd.Flags().Changed("brokers") {
		t.Brokers = f.brokers
	}
	t.Made = c.Topics.Create && cmp.Or(f.topic, t.Name) == t.Name
	t.Name = cmp.Or(f.topic, t.Name)
	if t.Name == "" {
		return t, cli.Usagef("name the topic with --topic, or -c")
	}
	if err := t.Encoding.Validate(); err != nil {
		return t, cli.Usage(err)
	}
	return t, nil
}
