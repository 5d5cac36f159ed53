package partition

import "hash/crc32"

// Murmur2 returns the partition of a topic of n partitions that Kafka's Java
// client writes a record with this key to: murmur2 of the key, its sign bit
// cleared, modulo n. Records of a key therefore stay in order whichever client
// writes them. It panics if n is not positive.
//
// The hash is Austin Appleby's MurmurHash2 with the seed that Kafka chose
// (org.apache.kafka.common.utils.Utils.murmur2).
func Murmur2(key []byte, n int) int32 {
	if n <= 0 {
		panic("partition: a topic has at least one partition")
	}
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

// CRC32 returns the partition of a topic of n partitions that librdkafka's
// partitioner "consistent" writes a record with this key to: the CRC-32 of the key
// that zlib computes, unsigned, modulo n. An empty key has the CRC 0 and so
// partition 0. It panics if n is not positive.
//
// librdkafka's default, "consistent_random", does the same for every key but the
// empty one, which it sends to a random partition. Clients built on librdkafka
// (kcat, confluent-kafka for Python, Go, .NET and PHP) inherit that default.
func CRC32(key []byte, n int) int32 {
	if n <= 0 {
		panic("partition: a topic has at least one partition")
	}
	return int32(crc32.ChecksumIEEE(key) % uint32(n))
}
