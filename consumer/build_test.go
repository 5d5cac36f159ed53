package consumer

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
)

// made is a record batch as a broker may hold it, also after compaction.
type made struct {
	base, last int64 // last 0: base + the last record's delta
	producer   int64
	open       bool // part of a transaction
	control    string
	records    []string // value of the record at base + index; "" if it is gone
	attributes int16
}

// bytes encodes the batch with franz-go's messages.
func (m made) bytes() []byte {
	b := kmsg.NewRecordBatch()
	b.FirstOffset, b.Magic, b.ProducerID, b.PartitionLeaderEpoch = m.base, 2, m.producer, 3
	b.FirstTimestamp, b.MaxTimestamp, b.Attributes = 1000, 2000, m.attributes
	if m.open {
		b.Attributes |= attributeTransactional
	}
	switch m.control {
	case "commit":
		b.Attributes |= attributeControl | attributeTransactional
		m.records = []string{"\x00\x00\x00\x01"}
	case "abort":
		b.Attributes |= attributeControl | attributeTransactional
		m.records = []string{"\x00\x00\x00\x00"}
	}
	for i, value := range m.records {
		if value == "" {
			continue
		}
		b.LastOffsetDelta = int32(i)
		b.NumRecords++
		r := kmsg.Record{
			OffsetDelta: int32(i), TimestampDelta64: int64(i), Key: []byte(value),
			Value: []byte(value),
		}
		body := r.AppendTo(nil)
		_, prefix := binary.Varint(body)
		r.Length = int32(len(body) - prefix)
		b.Records = r.AppendTo(b.Records)
	}
	if m.last > 0 {
		b.LastOffsetDelta = int32(m.last - m.base)
	}
	raw := b.AppendTo(nil)
	return reseal(raw)
}

// reseal makes the length and the checksum right.
func reseal(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[atLength:], uint32(len(raw)-afterLength))
	binary.BigEndian.PutUint32(raw[atCRC:], crc32.Checksum(raw[atAttributes:], castagnoli))
	return raw
}

func encodeAll(batches ...made) []byte {
	var all []byte
	for _, m := range batches {
		all = append(all, m.bytes()...)
	}
	return all
}

// answer encodes a fetch answer of version 11 with franz-go's messages.
func answerOf(records []byte, list ...aborted) *wire.Frame {
	res := kmsg.NewFetchResponse()
	res.Version = 11
	part := kmsg.NewFetchResponseTopicPartition()
	part.Partition, part.HighWatermark, part.LastStableOffset, part.LogStartOffset,
		part.RecordBatches = 3, 99, 88, 1, records
	for _, a := range list {
		entry := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		entry.ProducerID, entry.FirstOffset = a.producerID, a.first
		part.AbortedTransactions = append(part.AbortedTransactions, entry)
	}
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.Partitions = "in", append(topic.Partitions, part)
	res.Topics = append(res.Topics, topic)
	return &wire.Frame{Key: protocol.Fetch, Version: 11, Body: res.AppendTo(nil)}
}

func newFetcher(tb testing.TB, o FetcherOptions) *Fetcher {
	tb.Helper()
	f, err := NewFetcher(nil, "in", 3, o)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// decoded runs an answer through a fetcher.
func decoded(tb testing.TB, f *Fetcher, a *wire.Frame, offset int64) (Fetched, error) {
	tb.Helper()
	part, err := f.parse(a)
	if err != nil {
		tb.Fatal(err)
	}
	return f.decode(part, offset)
}

func valuesOf(records []Record) []string {
	values := []string{}
	for _, r := range records {
		values = append(values, string(r.Value))
	}
	return values
}
