package producer

import "hash/crc32"

// PartitionCRC32 returns the partition of a topic of n partitions that librdkafka's
// partitioner "consistent" writes a record with this key to: the CRC-32 of the key
// that zlib computes, unsigned, modulo n. An empty key has the CRC 0 and so
// partition 0. It panics if n is not positive.
//
// librdkafka's default, "consistent_random", does the same for every key but the
// empty one, which it sends to a random partition. Clients built on librdkafka
// (kcat, confluent-kafka for Python, Go, .NET and PHP) inherit that default.
func PartitionCRC32(key []byte, n int) int32 {
	if n <= 0 {
		panic("producer: a topic has at least one partition")
	}
	return int32(crc32.ChecksumIEEE(key) % uint32(n))
}
