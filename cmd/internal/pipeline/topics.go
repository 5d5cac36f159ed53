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

// prepareTopics checks the four topics, creates what is missing if it may, and
// returns their number of partitions.
func (s *Service) prepareTopics(ctx context.Context) (int, error) {
	t := s.options.Topics
	names := []string{t.Raw, t.Sanitized, t.Changelog, t.DeadLetters}
	if t.Create {
		if err := CreateTopics(ctx, s.client, t); err != nil {
			return 0, err
		}
	}
	n, err := consumer.CoPartitioned(ctx, s.client, consumer.Options{}, names...)
	var missing *consumer.MissingTopicsError
	if errors.As(err, &missing) {
		return 0, fmt.Errorf("%w; create them with as many partitions as %s, or set topics.create: true", err, t.Raw)
	}
	return n, err
}

// CreateTopics makes those of the four topics that are missing: with the raw
// topic's number of partitions, or t.Partitions where that is missing too. The
// changelog is compacted. A topic that exists otherwise than needed is an error.
func CreateTopics(ctx context.Context, client *kafka.Client, t Topics) error {
	partitions := t.Partitions
	counts, err := consumer.Partitions(ctx, client, consumer.Options{}, t.Raw)
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
	return consumer.CreateTopics(ctx, client, consumer.Options{},
		topic(t.Raw, nil),
		topic(t.Sanitized, nil),
		topic(t.Changelog, map[string]string{
			"cleanup.policy": "compact",
			// A store older than this is restored in full (task.Options.MaxStoreAge).
			"delete.retention.ms": strconv.FormatInt((24 * time.Hour).Milliseconds(), 10),
		}),
		topic(t.DeadLetters, nil),
	)
}
