package engine

import (
	"fmt"

	"github.com/geodither/geodither/producer/partition"
)

// Partitioner says how the producers of the raw topic choose a record's partition. A
// user's state, and with it the user's budget, belongs to one partition. A user whose
// records lie in two partitions has two budgets, so the service has to know which of
// the two is right.
type Partitioner string

// Values of Partitioner.
const (
	// Murmur2 is what Kafka's Java client, franz-go and "geodither produce" do.
	Murmur2 Partitioner = "murmur2"
	// CRC32 is librdkafka's "consistent", and its default for records with a key.
	CRC32 Partitioner = "crc32"
	// AnyPartitioner refuses no record for its partition. The producers' side makes
	// sure that all records of a user are in one partition.
	AnyPartitioner Partitioner = "any"
)

// hashes are the partitioners that say where a key belongs, in the order in which they
// are named to people.
var hashes = []struct {
	name  Partitioner
	place func(key []byte, partitions int) int32
	who   string // uses it by default
}{
	{Murmur2, partition.Murmur2, "the default of Kafka's Java client"},
	{CRC32, partition.CRC32, "the default of librdkafka"},
}

// Partitioners are those that say where a key belongs.
func Partitioners() (all []Partitioner) {
	for _, h := range hashes {
		all = append(all, h.name)
	}
	return all
}

// Who says whose default the partitioner is.
func (p Partitioner) Who() string {
	for _, h := range hashes {
		if p == h.name {
			return h.who
		}
	}
	return ""
}

// Validate reports a name that is unknown.
func (p Partitioner) Validate() error {
	if p == AnyPartitioner {
		return nil
	}
	for _, h := range hashes {
		if p == h.name {
			return nil
		}
	}
	return fmt.Errorf("%q is unknown: choose %s, %s or %s",
		string(p), Murmur2, CRC32, AnyPartitioner)
}

// Partition is where the key belongs among that many partitions; ok is false if the
// partitioner does not say, as AnyPartitioner does not.
func (p Partitioner) Partition(key []byte, partitions int) (partition int32, ok bool) {
	for _, h := range hashes {
		if p == h.name {
			return h.place(key, partitions), true
		}
	}
	return 0, false
}

// Partition is one partition of the raw topic.
type Partition struct {
	Topic  string
	Number int32
	Of     int // partitions in all
}

// misplaces reports whether a key belongs to another partition than the one it lies in.
func (p Partitioner) misplaces(key []byte, at Partition) bool {
	right, ok := p.Partition(key, at.Of)
	return ok && right != at.Number
}
