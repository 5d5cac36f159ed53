package servicetest

import (
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/producer/partition"
	"github.com/geodither/geodither/schemas"
)

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

// Murmur2Place is where Kafka's Java client writes a key.
func Murmur2Place(key []byte) int32 { return partition.Murmur2(key, Partitions) }
