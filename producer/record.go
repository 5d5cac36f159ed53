package producer

import (
	"fmt"
	"strconv"
)

// TopicPartition names one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns "topic/partition".
func (tp TopicPartition) String() string {
	return tp.Topic + "/" + strconv.Itoa(int(tp.Partition))
}

// Header is one header of a record. A nil value is Kafka's null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record to write. A nil key or value is Kafka's null, which is not the same as an
// empty one: in a compacted topic a null value deletes the key. Timestamp is in milliseconds since
// 1970, and is written unchanged.
type Record struct {
	Key, Value []byte
	Timestamp  int64
	Headers    []Header
}

// Batch is a run of records for one partition, in the order in which to write them. The producer
// splits it if it exceeds Options.MaxBatchBytes.
type Batch struct {
	TopicPartition
	Records []Record
}

// Offsets maps a partition to the offset of the last record written to it. A reader goes on at that
// offset plus one.
type Offsets map[TopicPartition]int64

func (b Batch) String() string {
	return fmt.Sprintf("%d records for %s", len(b.Records), b.TopicPartition)
}
