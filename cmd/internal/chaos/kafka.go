package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The topics of a run.
const (
	rawTopic       = "chaos.raw"
	sanitizedTopic = "chaos.sanitized"
	changelogTopic = "chaos.changelog"
	deadTopic      = "chaos.dead"
)

// newClient is a client of franz-go: what is checked here is not read by the
// product's own code.
func newClient(brokers []string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}, options...)...)
}

// createTopics makes the four topics, replicated as the cluster is. The raw topic
// gets the broker's time, which the service hands on to what it publishes: so a
// reader knows how long a record took. The changelog gets small segments, so that
// it is compacted while it is used.
func createTopics(ctx context.Context, client *kgo.Client, partitions int) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 20_000
	add := func(name string, configs ...string) {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), -1
		for n := 0; n < len(configs); n += 2 {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = configs[n], &configs[n+1]
			topic.Configs = append(topic.Configs, config)
		}
		request.Topics = append(request.Topics, topic)
	}
	add(rawTopic, "message.timestamp.type", "LogAppendTime")
	add(sanitizedTopic, "message.timestamp.after.max.ms", "9223372036854775807")
	add(deadTopic, "message.timestamp.after.max.ms", "9223372036854775807")
	add(changelogTopic, "message.timestamp.after.max.ms", "9223372036854775807",
		"cleanup.policy", "compact", "segment.bytes", "1048576", "min.cleanable.dirty.ratio", "0.1")
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, topic := range response.Topics {
		if topic.ErrorCode != 0 {
			return fmt.Errorf("create topic %s: error %d", topic.Topic, topic.ErrorCode)
		}
	}
	return nil
}

// ends returns where each partition of a topic ends: its last stable offset, or
// with uncommitted its high watermark.
func ends(ctx context.Context, client *kgo.Client, topic string, partitions int, uncommitted bool) ([]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	if !uncommitted {
		request.IsolationLevel = 1
	}
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic = topic
	for p := range partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = int32(p), -1
		of.Partitions = append(of.Partitions, partition)
	}
	request.Topics = append(request.Topics, of)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ends of %s: %w", topic, err)
	}
	found := make([]int64, partitions)
	n := 0
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("end of %s/%d: error %d", topic, p.Partition, p.ErrorCode)
			}
			found[p.Partition] = p.Offset
			n++
		}
	}
	if n != partitions {
		return nil, fmt.Errorf("ends of %s: %d of %d partitions answered", topic, n, partitions)
	}
	return found, nil
}

// from are the options that read whole topics, each partition from its start.
func from(topics []string, partitions int, uncommitted bool) []kgo.Opt {
	at := map[string]map[int32]kgo.Offset{}
	for _, topic := range topics {
		at[topic] = map[int32]kgo.Offset{}
		for p := range partitions {
			at[topic][int32(p)] = kgo.NewOffset().AtStart()
		}
	}
	level := kgo.ReadCommitted()
	if uncommitted {
		level = kgo.ReadUncommitted()
	}
	return []kgo.Opt{
		kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}
}

// scan calls each for every record of a topic, control records included, in order
// within a partition, up to where the partitions end now.
func scan(ctx context.Context, brokers []string, topic string, partitions int, uncommitted bool, each func(*kgo.Record)) error {
	client, err := newClient(brokers, from([]string{topic}, partitions, uncommitted)...)
	if err != nil {
		return err
	}
	defer client.Close()
	end, err := ends(ctx, client, topic, partitions, uncommitted)
	if err != nil {
		return err
	}
	left := 0
	for _, e := range end {
		if e > 0 {
			left++
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	finished := make([]bool, partitions)
	for left > 0 {
		fetches := client.PollFetches(ctx)
		var failed error
		fetches.EachError(func(topic string, p int32, err error) {
			failed = errors.Join(failed, fmt.Errorf("scan of %s/%d: %w", topic, p, err))
		})
		if failed != nil {
			return failed
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < end[r.Partition] {
				each(r)
			}
			// The last record is a marker where a transaction wrote last.
			if r.Offset >= end[r.Partition]-1 && !finished[r.Partition] {
				finished[r.Partition] = true
				left--
			}
		})
	}
	return nil
}
