package servicetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// DeleteTopic deletes a topic, and makes it again, empty, if it is told to.
func (w *World) DeleteTopic(tb testing.TB, topic string, again bool) {
	tb.Helper()
	res, err := w.Client.DeleteTopics(tb.Context(),
		&kafka.DeleteTopicsRequest{Topics: []string{topic}})
	OK(tb, errors.Join(err, res.Errors[topic]))
	for there := true; there; {
		there, err = topics.Exists(tb.Context(), w.Client, topic)
		OK(tb, err)
	}
	if again {
		OK(tb, admin.CreateTopics(tb.Context(), w.Client, wire.Options{},
			admin.Topic{Name: topic, Partitions: Partitions, Configs: topics.Compacted}))
	}
}

// Exists reports whether a topic is there.
func (w *World) Exists(tb testing.TB, topic string) bool {
	tb.Helper()
	_, err := admin.Partitions(tb.Context(), w.Client, wire.Options{}, topic)
	var missing *admin.MissingTopicsError
	if err != nil && !errors.As(err, &missing) {
		tb.Fatal(err)
	}
	return err == nil
}

// Alter sets a topic's setting.
func (w *World) Alter(tb testing.TB, topic, name, value string) {
	tb.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(w.Addr))
	OK(tb, err)
	defer admin.Close()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = name, &value
	resource.Configs = append(resource.Configs, config)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	_, err = req.RequestWith(context.WithoutCancel(tb.Context()), admin)
	OK(tb, err)
}

// TopicNames lists the broker's topics.
func (w *World) TopicNames(tb testing.TB) []string {
	tb.Helper()
	// A client of its own: the world's remembers for some seconds what there was.
	res, err := kafkaconn.NewClient([]string{w.Addr}).Metadata(tb.Context(),
		&kafka.MetadataRequest{})
	OK(tb, err)
	var names []string
	for _, t := range res.Topics {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// MoveOffset commits an offset for the group, as an administrator does.
func (w *World) MoveOffset(tb testing.TB, group string, partition int, offset int64) {
	tb.Helper()
	res, err := w.Client.OffsetCommit(tb.Context(), &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{"raw": {{Partition: partition, Offset: offset}}},
	})
	OK(tb, err)
	OK(tb, res.Topics["raw"][0].Error)
}

// DeleteRecords moves the beginning of a partition, as retention does.
func (w *World) DeleteRecords(tb testing.TB, topic string, partition int32, before int64) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Addr))
	OK(tb, err)
	defer client.Close()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, before
	topics := kmsg.NewDeleteRecordsRequestTopic()
	topics.Topic, topics.Partitions = topic, append(topics.Partitions, p)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, topics)
	res, err := req.RequestWith(tb.Context(), client)
	OK(tb, err)
	OK(tb, kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode))
}

// DeleteGroup deletes a group with its offsets.
func (w *World) DeleteGroup(tb testing.TB, group string) {
	tb.Helper()
	res, err := w.Client.DeleteGroups(tb.Context(),
		&kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	OK(tb, errors.Join(err, res.Errors[group]))
}
