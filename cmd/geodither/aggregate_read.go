package main

import (
	"context"
	"fmt"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// topicSources are a topic's partitions, up to their ends of now. It notes in split
// where each user's records lie.
func topicSources(ctx context.Context, client *kafka.Client, topic string, encoding schemas.Encoding, split *splitUsers) ([]records.Source, error) {
	counts, err := admin.Partitions(ctx, client, wire.Options{}, topic)
	if err != nil {
		return nil, err
	}
	var sources []records.Source
	for p := range int32(counts[topic]) {
		codec, err := schemas.NewCodec(encoding)
		if err != nil {
			return nil, cli.Usage(err)
		}
		sources = append(sources, func(ctx context.Context, each func(schemas.Sanitized, string) error) error {
			return topics.Tail{Client: client, Topic: topic}.Partition(ctx, p, func(r consumer.Record) error {
				where := fmt.Sprintf("%s/%d at offset %d", topic, p, r.Offset)
				record, err := codec.DecodeSanitized(r.Value)
				if err != nil {
					return fmt.Errorf("%s: %w; is this a sanitized topic, and --encoding right?", where, err)
				}
				split.lies(record.UserID, p)
				return each(record, where)
			})
		})
	}
	return sources, nil
}
