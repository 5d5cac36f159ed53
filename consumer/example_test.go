package consumer_test

import (
	"context"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/producer"
)

// The committed records of a partition, from its start to its stable end.
func ExampleFetcher() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "sanitized"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	addr := kafka.TCP(cluster.ListenAddrs()...)
	client := &kafka.Client{Addr: addr, Transport: &kafka.Transport{}}
	ctx := context.Background()

	read := func() error {
		feeder, err := producer.NewIdempotent(client, producer.Options{})
		if err != nil {
			return err
		}
		records := []producer.Record{
			{Key: []byte("bus-7"), Value: []byte("here")},
			{Key: []byte("bus-7"), Value: []byte("there")},
		}
		if _, err := feeder.Send(ctx, "sanitized", 1, records); err != nil {
			return err
		}
		fetcher, err := consumer.NewFetcher(client, "sanitized", 0, consumer.FetcherOptions{})
		if err != nil {
			return err
		}
		next, end, err := fetcher.Bounds(ctx)
		if err != nil {
			return err
		}
		for next < end {
			got, err := fetcher.Fetch(ctx, next)
			if err != nil {
				return err
			}
			for _, r := range got.Records {
				fmt.Printf("%d %s %s\n", r.Offset, r.Key, r.Value)
			}
			next = got.Next
		}
		return nil
	}
	if err := read(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 0 bus-7 here
	// 1 bus-7 there
}
