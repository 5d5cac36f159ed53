package replay

import (
	"context"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism/noise"
)

// smoothing returns the service that smooths what a replay publishes. Its names follow from those
// of the replay, and it has no key.
func smoothing(replayed service.Options) service.Options {
	replayed.Cluster = replayed.WithDefaults().Smoothing("", "")
	replayed.StateDir += "-smooth"
	replayed.Key, replayed.Windows = noise.Key{}, nil
	return replayed
}

// lastRecords returns the offset of each user's last record in a partition, and the one behind the
// last of all.
func lastRecords(ctx context.Context, client *kafka.Client, topic string, n int32) (
	ends map[int64]bool, next int64, err error,
) {
	r, err := topics.Open(ctx, client, topic, n, consumer.FetcherOptions{})
	if err != nil {
		return nil, 0, err
	}
	last := map[string]int64{}
	err = r.Scan(ctx, r.First, r.End, func(record consumer.Record) error {
		last[string(record.Key)], next = record.Offset, record.Offset+1
		return nil
	})
	ends = make(map[int64]bool, len(last))
	for _, offset := range last {
		ends[offset] = true
	}
	return ends, next, err
}
