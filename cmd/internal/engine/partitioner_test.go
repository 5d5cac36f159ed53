package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

// TestPartitioners: each hash accepts a key in one partition of all, "any" in all.
func TestPartitioners(t *testing.T) {
	for _, test := range []struct {
		by   Partitioner
		want int
	}{{Murmur2, 1}, {CRC32, 1}, {AnyPartitioner, 7}} {
		for i := range 20 {
			accepted := 0
			for n := range int32(7) {
				if !test.by.misplaces(fmt.Appendf(nil, "user-%d", i), Partition{Number: n, Of: 7}) {
					accepted++
				}
			}
			if accepted != test.want {
				t.Errorf("%s accepts a key in %d partitions, want %d", test.by, accepted, test.want)
			}
		}
	}
	if err := Partitioner("md5").Validate(); err == nil ||
		!strings.Contains(err.Error(), "choose murmur2, crc32 or any") {
		t.Errorf("an unknown partitioner: %v", err)
	}
}

// TestMisplacedRecord: a record in a partition that is not its key's is a dead letter
// that touches no state. What is wrong with the record itself is named first.
func TestMisplacedRecord(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	o.Partitioner = Murmur2
	fix := servicetest.Sentinel()
	right, _ := Murmur2.Partition([]byte(fix.UserID), 4)
	home, err := NewProcessor(o, Partition{"raw", right, 4})
	servicetest.OK(t, err)
	state := servicetest.Process(t, home, servicetest.Record(t, 0, fix), nil).State
	away, err := NewProcessor(o, Partition{"raw", (right + 1) % 4, 4})
	servicetest.OK(t, err)
	late := fix
	late.Timestamp -= 120_000
	for name, rec := range map[string]schemas.Raw{"a new step": fix, "a late one": late} {
		letter := servicetest.Process(t, away, servicetest.Record(t, 7, rec),
			state).Letter(t, schemas.Avro)
		if letter.Reason != schemas.ReasonWrongPartition || letter.Offset != 7 ||
			letter.Partition != (right+1)%4 {
			t.Errorf("%s: the dead letter is %+v", name, letter)
		}
	}
	if away.tally.Misplaced != 2 || away.tally.DeadLetters != 2 || away.tally.RecordsOut != 0 {
		t.Errorf("counted %+v", away.tally)
	}
	mismatched := servicetest.Record(t, 8, fix)
	mismatched.Key = []byte("another")
	if letter := servicetest.Process(t, away, mismatched,
		nil).Letter(t, schemas.Avro); letter.Reason != schemas.ReasonKeyMismatch {
		t.Errorf("a key of another user in a wrong partition: %s", letter.Reason)
	}
	for _, n := range []int32{-1, 4} {
		if _, err := NewProcessor(o, Partition{"raw", n, 4}); err == nil {
			t.Errorf("there is a processor for partition %d of 4", n)
		}
	}
}

// TestPartitionerOf: a fingerprint tells all partitioners apart; one of a version that had
// other settings tells nothing, so its states are looked at.
func TestPartitionerOf(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	for _, by := range []Partitioner{Murmur2, CRC32, AnyPartitioner} {
		other := o
		other.Partitioner = by
		if got := o.PartitionerOf(other.Fingerprint()); got != by {
			t.Errorf("%s is read as %q", by, got)
		}
	}
	for _, settings := range [][]byte{nil, make([]byte, 16)} {
		if got := o.PartitionerOf(settings); got != "" {
			t.Errorf("%x is read as %q", settings, got)
		}
	}
}

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

func TestMurmur2AgreesWithKafkaGo(t *testing.T) {
	partitions := make([]int, 7)
	for i := range partitions {
		partitions[i] = i
	}
	balancer := kafka.Murmur2Balancer{}
	for i := range 1000 {
		key := fmt.Appendf(nil, "user-%d", i*i)
		want := balancer.Balance(kafka.Message{Key: key}, partitions...)
		if got := byMurmur2(key, 7); int(got) != want {
			t.Fatalf("byMurmur2(%q, 7) = %d, want %d", key, got, want)
		}
	}
	random := rand.New(rand.NewPCG(11, 1))
	for i := range 2000 { // an empty key, too
		key := make([]byte, i%65)
		for j := range key {
			key[j] = byte(random.Uint32())
		}
		want := balancer.Balance(kafka.Message{Key: key}, partitions...)
		if got := byMurmur2(key, 7); int(got) != want {
			t.Fatalf("byMurmur2(%x, 7) = %d, want %d", key, got, want)
		}
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
		if got := byCRC32([]byte(test.key), test.n); got != test.want {
			t.Errorf("byCRC32(%q, %d) = %d, want %d", test.key, test.n, got, test.want)
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
		if got := byCRC32(key, 7); int(got) != want {
			t.Fatalf("byCRC32(%q, 7) = %d, want %d", key, got, want)
		}
	}
}
