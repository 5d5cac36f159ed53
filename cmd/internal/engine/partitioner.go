package engine

import (
	"errors"
	"fmt"
	"hash/crc32"
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
	// AnyPartitioner refuses no record for its partition, so it goes with neither a budget nor
	// counts unless there is one partition (OneAccount).
	AnyPartitioner Partitioner = "any"
)

// hashes are the partitioners that say where a key belongs, in the order in which they
// are named to people.
var hashes = [...]struct {
	name  Partitioner
	place func(key []byte, partitions int) int32
	who   string // uses it by default
}{
	{Murmur2, byMurmur2, "the default of Kafka's Java client"},
	{CRC32, byCRC32, "the default of librdkafka"},
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
	return fmt.Errorf("%q: choose %s, %s or %s", string(p), Murmur2, CRC32, AnyPartitioner)
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

// ErrTwoAccounts says that nothing keeps a user in one partition: in each, the user has an account.
var ErrTwoAccounts = errors.New("a user in two partitions would have two accounts")

// OneAccount returns an ErrTwoAccounts if nothing keeps a user in one of that many partitions.
func OneAccount(by Partitioner, source Source, partitions int) error {
	switch {
	case partitions == 1:
		return nil
	case by == AnyPartitioner:
		return fmt.Errorf("topics.partitioner: any: %w: name the partitioner", ErrTwoAccounts)
	case !source.OneKey():
		return fmt.Errorf("input.key_check: off: %w: set input.key", ErrTwoAccounts)
	}
	return nil
}

// Partition is one partition of the raw topic.
type Partition struct {
	Topic  string
	Number int32
	Of     int // partitions in all
}

// byMurmur2 returns the partition of a topic of n partitions that Kafka's Java
// client writes a record with this key to: murmur2 of the key, its sign bit
// cleared, modulo n.
//
// The hash is Austin Appleby's MurmurHash2 with the seed that Kafka chose
// (org.apache.kafka.common.utils.Utils.murmur2).
func byMurmur2(key []byte, n int) int32 {
	return int32((murmur2(key) & 0x7fffffff) % uint32(n))
}

// murmur2 is MurmurHash2, 32 bits, little endian, seed 0x9747b28c. The
// multiplier and the shifts are its author's mixing constants.
func murmur2(data []byte) uint32 {
	const (
		seed  = 0x9747b28c
		mul   = 0x5bd1e995
		shift = 24
	)
	h := seed ^ uint32(len(data))
	for len(data) >= 4 {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= mul
		k ^= k >> shift
		k *= mul
		h *= mul
		h ^= k
		data = data[4:]
	}
	if len(data) > 0 {
		for i := len(data) - 1; i >= 0; i-- {
			h ^= uint32(data[i]) << (8 * i)
		}
		h *= mul
	}
	h ^= h >> 13
	h *= mul
	h ^= h >> 15
	return h
}

// byCRC32 returns the partition of a topic of n partitions that librdkafka's
// partitioner "consistent" writes a record with this key to: the CRC-32 of the key
// that zlib computes, unsigned, modulo n. An empty key has the CRC 0 and so
// partition 0.
//
// librdkafka's default, "consistent_random", does the same for every key but the
// empty one, which it sends to a random partition. Clients built on librdkafka
// (kcat, confluent-kafka for Python, Go, .NET and PHP) inherit that default.
func byCRC32(key []byte, n int) int32 {
	return int32(crc32.ChecksumIEEE(key) % uint32(n))
}
