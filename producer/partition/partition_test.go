package partition

import (
	"fmt"
	"testing"

	kafka "github.com/segmentio/kafka-go"
)

// The vectors of Kafka's own UtilsTest.testMurmur2.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestPartitionAgreesWithKafkaGo(t *testing.T) {
	partitions := make([]int, 7)
	for i := range partitions {
		partitions[i] = i
	}
	balancer := kafka.Murmur2Balancer{}
	for i := range 1000 {
		key := fmt.Appendf(nil, "user-%d", i*i)
		want := balancer.Balance(kafka.Message{Key: key}, partitions...)
		if got := Murmur2(key, 7); int(got) != want {
			t.Fatalf("Murmur2(%q, 7) = %d, want %d", key, got, want)
		}
	}
	if got := Murmur2([]byte{}, 7); got < 0 || got > 6 {
		t.Errorf("an empty key goes to partition %d", got)
	}
}

// TestCRC32 pins vectors of CRC-32: the check value of its catalogue
// (reveng.sourceforge.io/crc-catalogue, CRC-32/ISO-HDLC), and hashes above 2³¹, which
// a signed remainder would send to a negative partition.
func TestCRC32(t *testing.T) {
	for _, test := range []struct {
		key  string
		n    int
		want int32
	}{
		{"", 7, 0},
		{"123456789", 1 << 30, 0xcbf43926 % (1 << 30)},
		{"123456789", 1000, 3421780262 % 1000},
		{"a", 10, 3904355907 % 10},
		{"anything", 1, 0},
	} {
		if got := CRC32([]byte(test.key), test.n); got != test.want {
			t.Errorf("CRC32(%q, %d) = %d, want %d", test.key, test.n, got, test.want)
		}
	}
}

func TestCRC32AgreesWithKafkaGo(t *testing.T) {
	partitions := make([]int, 7)
	for i := range partitions {
		partitions[i] = i
	}
	balancer := kafka.CRC32Balancer{Consistent: true}
	for i := range 1000 {
		key := fmt.Appendf(nil, "user-%d", i*i)
		want := balancer.Balance(kafka.Message{Key: key}, partitions...)
		if got := CRC32(key, 7); int(got) != want {
			t.Fatalf("CRC32(%q, 7) = %d, want %d", key, got, want)
		}
	}
}
