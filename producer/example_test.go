package producer_test

import (
	"context"
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/producer"
)

// A transaction over two topics, with the offset of the input that it was made
// from.
func ExampleTransactional() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "raw", "sanitized", "changelog"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client := &kafka.Client{Addr: kafka.TCP(cluster.ListenAddrs()...), Transport: &kafka.Transport{}}

	ctx := context.Background()
	p, err := producer.NewTransactional(client, "group-raw-0", producer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := func() (producer.Offsets, error) {
		if err := p.Init(ctx); err != nil {
			return nil, err
		}
		record := producer.Record{Key: []byte("bus-7"), Value: []byte("somewhere"), Timestamp: 1_700_000_000_000}
		if _, err := p.Produce(ctx,
			producer.Batch{TopicPartition: producer.TopicPartition{Topic: "sanitized"}, Records: []producer.Record{record}},
			producer.Batch{TopicPartition: producer.TopicPartition{Topic: "changelog"}, Records: []producer.Record{record, record}},
		); err != nil {
			return nil, err
		}
		next := map[producer.TopicPartition]int64{{Topic: "raw"}: 1}
		if err := p.CommitOffsets(ctx, producer.Member{Group: "group", Generation: -1}, next); err != nil {
			return nil, err
		}
		return p.Commit(ctx)
	}
	switch last, err := run(); {
	case err == nil:
		fmt.Println("committed; the changelog ends behind offset", last[producer.TopicPartition{Topic: "changelog"}])
	case errors.Is(err, producer.ErrFenced):
		fmt.Println("stop: another worker has the partition")
	default:
		fmt.Println("Init, read the committed offset, and do it again:", err)
	}
	// Output: committed; the changelog ends behind offset 1
}
