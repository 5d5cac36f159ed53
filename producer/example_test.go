package producer_test

import (
	"context"
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/producer"
)

// A transaction that writes to two topics, and commits the offset of its input.
func ExampleTransactional() {
	topics := kfake.SeedTopics(1, "raw", "sanitized", "changelog")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), topics)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	addr := kafka.TCP(cluster.ListenAddrs()...)
	client := &kafka.Client{Addr: addr, Transport: &kafka.Transport{}}

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
		record := producer.Record{
			Key: []byte("bus-7"), Value: []byte("somewhere"), Timestamp: 1_700_000_000_000,
		}
		sanitized := producer.Batch{
			TopicPartition: producer.TopicPartition{Topic: "sanitized"},
			Records:        []producer.Record{record},
		}
		changelog := producer.Batch{
			TopicPartition: producer.TopicPartition{Topic: "changelog"},
			Records:        []producer.Record{record, record},
		}
		if _, err := p.Produce(ctx, sanitized, changelog); err != nil {
			return nil, err
		}
		member := producer.Member{Group: "group", Generation: -1}
		next := map[producer.TopicPartition]int64{{Topic: "raw"}: 1}
		if err := p.CommitOffsets(ctx, member, next); err != nil {
			return nil, err
		}
		return p.Commit(ctx)
	}
	switch last, err := run(); {
	case err == nil:
		end := last[producer.TopicPartition{Topic: "changelog"}]
		fmt.Println("committed; the changelog ends after offset", end)
	case errors.Is(err, producer.ErrFenced):
		fmt.Println("stop: another worker has the partition")
	default:
		fmt.Println("Init, read the committed offset, and do it again:", err)
	}
	// Output: committed; the changelog ends after offset 1
}
