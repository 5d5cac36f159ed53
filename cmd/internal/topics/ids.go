package topics

import (
	"context"
	"errors"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Exists reports whether a topic exists.
func Exists(ctx context.Context, client *kafka.Client, topic string) (bool, error) {
	_, err := admin.Partitions(ctx, client, wire.Options{}, topic)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

// ID is the id that a topic got when it was made; nil in a cluster without them.
func ID(ctx context.Context, client *kafka.Client, topic string) ([]byte, error) {
	ids, err := admin.TopicIDs(ctx, client, wire.Options{}, topic)
	if err != nil {
		return nil, err
	}
	if id := ids[topic]; id != [16]byte{} {
		return id[:], nil
	}
	return nil, nil
}

// Undated lists the topics whose timestamps are the brokers' own, so that they say nothing.
func Undated(ctx context.Context, client *kafka.Client, topics ...string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, topic := range topics {
		have, err := admin.Configs(ctx, client, wire.Options{}, topic, TimestampType)
		if err != nil {
			return nil, err
		}
		found[topic] = have[TimestampType] == LogAppendTime
	}
	return found, nil
}
