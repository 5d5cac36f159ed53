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

// Record is one record to be written. A nil key or value is Kafka's null, which
// is not the same as an empty one; in a compacted topic a null value deletes
// the key. Timestamp is in milliseconds since 1970 and is written as it is.
type Record struct {
	Key, Value []byte
	Timestamp  int64
	Headers    []Header
}

// Batch is a run of records for one partition, in the order they are to be
// written. The producer splits it where it exceeds Options.MaxBatchBytes.
type Batch struct {
	TopicPartition
	Records []Record
}

// Offsets maps a partition to the offset of the last record written to it.
// Whoever reads on from there starts at that offset plus one.
type Offsets map[TopicPartition]int64

func (b Batch) String() string {
	return fmt.Sprintf("%d records for %s", len(b.Records), b.TopicPartition)
}
