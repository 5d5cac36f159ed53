package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer"
)

// NewClient connects to brokers given as host:port. TLS and SASL are set on its
// transport, here alone.
func NewClient(brokers []string) *kafka.Client {
	return &kafka.Client{
		Addr: kafka.TCP(brokers...),
		Transport: &kafka.Transport{
			ClientID:    "geodither",
			DialTimeout: 5 * time.Second,
			MetadataTTL: time.Second, // how long a new topic or a moved leader goes unnoticed
		},
	}
}

// compacted is the changelog's policy: any other loses states.
var compacted = map[string]string{"cleanup.policy": "compact"}

// prepareTopics checks the four topics, creates what is missing if it may, and
// returns their number of partitions.
func (s *Service) prepareTopics(ctx context.Context) (int, error) {
	o := consumer.Options{RetryTimeout: s.patience}
	if err := consumer.Ping(ctx, s.client, o); err != nil {
		if !errors.Is(err, consumer.ErrTemporary) {
			return 0, err
		}
		s.log.Warn("waiting for Kafka", "cause", err, "at_most", s.patience)
	}
	t := s.options.Topics
	if t.Create {
		if err := createTopics(ctx, s.client, o, t); err != nil {
			return 0, err
		}
	}
	n, err := consumer.CoPartitioned(ctx, s.client, o, t.Raw, t.Sanitized, t.Changelog, t.DeadLetters)
	var missing *consumer.MissingTopicsError
	if errors.As(err, &missing) {
		return 0, fmt.Errorf("%w; create them with as many partitions as %s, or set topics.create: true", err, t.Raw)
	}
	if err != nil {
		return 0, err
	}
	if err := consumer.CheckConfigs(ctx, s.client, o, t.Changelog, compacted); err != nil {
		return 0, fmt.Errorf("the changelog keeps every user's state: %w", err)
	}
	return n, nil
}

// CreateTopics makes those of the four topics that are missing: with the raw
// topic's number of partitions, or t.Partitions where that is missing too. The
// changelog is compacted. A topic that exists otherwise than needed is an error.
func CreateTopics(ctx context.Context, client *kafka.Client, t Topics) error {
	return createTopics(ctx, client, consumer.Options{}, t)
}

func createTopics(ctx context.Context, client *kafka.Client, o consumer.Options, t Topics) error {
	partitions := t.Partitions
	counts, err := consumer.Partitions(ctx, client, o, t.Raw)
	var missing *consumer.MissingTopicsError
	switch {
	case err == nil:
		partitions = counts[t.Raw]
	case !errors.As(err, &missing):
		return err
	}
	topic := func(name string, configs map[string]string) consumer.Topic {
		return consumer.Topic{Name: name, Partitions: partitions, Replication: t.Replication, Configs: configs}
	}
	return consumer.CreateTopics(ctx, client, o,
		topic(t.Raw, nil),
		topic(t.Sanitized, nil),
		topic(t.Changelog, map[string]string{
			"cleanup.policy": compacted["cleanup.policy"],
			// A store older than this is restored in full (task.Options.MaxStoreAge).
			"delete.retention.ms": strconv.FormatInt((24 * time.Hour).Milliseconds(), 10),
		}),
		topic(t.DeadLetters, nil),
	)
}
