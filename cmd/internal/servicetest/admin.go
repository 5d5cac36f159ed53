package servicetest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"sync"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
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

// NewCompacted returns a world with a compacted topic of one partition, "log". It has a record,
// because the broker lets a compacted log begin at its first record that is left.
func NewCompacted(tb testing.TB) *World {
	tb.Helper()
	w := NewWorld(tb, 1)
	OK(tb, admin.CreateTopics(tb.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "log", Partitions: 1, Configs: topics.Compacted}))
	w.Put(tb, "log", "first", []byte("-"))
	return w
}

// Cleaned returns a client before whose first fetch a value of a topic's first partition is
// replaced and the cleaner removes the old one: a reader has taken the partition's bounds by then.
func (w *World) Cleaned(tb testing.TB, topic, key string, value []byte) *kafka.Client {
	tb.Helper()
	own := *w.Client
	own.Transport = &beforeFetch{RoundTripper: w.Client.Transport, do: func() {
		w.Put(tb, topic, key, value)
		w.Put(tb, topic, "the newest batch, which the cleaner leaves alone", []byte("-"))
		OK(tb, w.Broker.Compact())
	}}
	return &own
}

// WriteState commits a user's state to a changelog, and the partition's last mark once more.
func (w *World) WriteState(tb testing.TB, changelog string, partition int32, user, state string) {
	tb.Helper()
	w.WriteMarked(tb, changelog, partition, w.LastMarks(tb, changelog)[partition],
		Line{Key: user, Value: state})
}

// LastMarks are the last marks of a service's changelog, by partition.
func (w *World) LastMarks(tb testing.TB, topic string) (marks []task.Mark) {
	tb.Helper()
	for p := range int32(Partitions) {
		mark, found, err := topics.LastMark(tb.Context(), w.Client, topic, p)
		OK(tb, err)
		if !found {
			tb.Fatalf("partition %d has no mark", p)
		}
		marks = append(marks, mark)
	}
	return marks
}

// WriteMarked commits records to a changelog, and a mark behind them.
func (w *World) WriteMarked(tb testing.TB, changelog string, partition int32, mark task.Mark,
	lines ...Line,
) {
	tb.Helper()
	w.Write(tb, true, changelog, partition, append(lines,
		Line{Key: task.MarkKey, Value: string(task.AppendMark(nil, mark))})...)
}

// Put writes a record into a topic's first partition, in a batch of its own.
func (w *World) Put(tb testing.TB, topic, key string, value []byte) {
	tb.Helper()
	_, err := w.Feeder.Produce(tb.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: topic},
		Records:        []producer.Record{{Key: []byte(key), Value: value, Timestamp: StartMS}},
	})
	OK(tb, err)
}

// beforeFetch is a connection that does something before its first fetch.
type beforeFetch struct {
	kafka.RoundTripper
	once sync.Once
	do   func()
}

// RoundTrip implements kafka.RoundTripper.
func (b *beforeFetch) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	if req.ApiKey() == protocol.Fetch {
		b.once.Do(b.do)
	}
	return b.RoundTripper.RoundTrip(ctx, addr, req)
}

// FeedBy writes some users' fixes of one step with a partitioner of the test's.
func (w *World) FeedBy(
	tb testing.TB, place func(key []byte) int32, shiftMS int64, users ...[]byte,
) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Addr),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	OK(tb, err)
	defer client.Close()
	var records []*kgo.Record
	for i, user := range users {
		lat, lon := w.Model.Grid.ToDegrees(w.Model.Grid.Centre(w.Cells[i]))
		fix := schemas.Raw{
			UserID: string(user), Timestamp: StartMS + w.Step*60_000 + shiftMS, Latitude: lat,
			Longitude: lon,
		}
		value, err := w.Codec.AppendRaw(nil, fix)
		OK(tb, err)
		records = append(records,
			&kgo.Record{Topic: "raw", Partition: place(user), Key: user, Value: value})
	}
	OK(tb, client.ProduceSync(tb.Context(), records...).FirstErr())
	w.Fed += int64(len(records))
}

// CopyTopic writes a partition of a topic, changed, into a new one, and the other
// partitions as they are.
func (w *World) CopyTopic(
	tb testing.TB, from, to string, partition int, change func([]Line) []Line,
) {
	tb.Helper()
	v := w.View(tb, from, false)
	v.Read(tb)
	OK(tb, admin.CreateTopics(tb.Context(), w.Client, wire.Options{},
		admin.Topic{Name: to, Partitions: Partitions}))
	for p, lines := range v.Lines {
		if p == partition {
			lines = change(slices.Clone(lines))
		}
		w.Write(tb, true, to, int32(p), lines...)
	}
}

// Write puts records into a partition in a transaction of their own.
func (w *World) Write(tb testing.TB, commit bool, topic string, partition int32, lines ...Line) {
	tb.Helper()
	tx, err := producer.NewTransactional(w.Client, fmt.Sprintf("test/%s/%d", topic, partition),
		producer.Options{})
	OK(tb, err)
	OK(tb, tx.Init(tb.Context()))
	var batch producer.Batch
	batch.TopicPartition = producer.TopicPartition{Topic: topic, Partition: partition}
	for _, l := range lines {
		r := producer.Record{Value: []byte(l.Value), Timestamp: l.Timestamp}
		if l.Key != "" {
			r.Key = []byte(l.Key)
		}
		batch.Records = append(batch.Records, r)
	}
	_, err = tx.Produce(tb.Context(), batch)
	OK(tb, err)
	if commit {
		_, err = tx.Commit(tb.Context())
	} else {
		err = tx.Abort(tb.Context())
	}
	OK(tb, err)
}

// Users are the keys that a simulated producer writes.
func Users(n int) [][]byte {
	var keys [][]byte
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "vehicle-%03d", i))
	}
	return keys
}

// CRC32Place is where librdkafka's default writes a key, computed apart from the code
// under test.
func CRC32Place(key []byte) int32 { return int32(crc32.ChecksumIEEE(key) % Partitions) }

// Murmur2Place is where Kafka's Java client writes a key, computed apart as well.
func Murmur2Place(key []byte) int32 {
	var all [Partitions]int
	for i := range all {
		all[i] = i
	}
	return int32(kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, all[:]...))
}
