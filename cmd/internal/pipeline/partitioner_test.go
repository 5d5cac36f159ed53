package pipeline

import (
	"fmt"
	"strings"
	"testing"

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
	if err := Partitioner("md5").Validate(); err == nil || !strings.Contains(err.Error(), "choose murmur2, crc32 or any") {
		t.Errorf("an unknown partitioner: %v", err)
	}
}

// TestMisplacedRecord: a record in a partition that is not its key's is a dead letter
// that touches no state. What is wrong with the record itself is named first.
func TestMisplacedRecord(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	o.Partitioner = Murmur2
	fix := servicetest.Sentinel()
	right, _ := Murmur2.Partition([]byte(fix.UserID), 4)
	home, err := NewProcessor(o.Settings, Partition{"raw", right, 4})
	servicetest.OK(t, err)
	state := servicetest.Process(t, home, servicetest.Record(t, 0, fix), nil).State
	away, err := NewProcessor(o.Settings, Partition{"raw", (right + 1) % 4, 4})
	servicetest.OK(t, err)
	late := fix
	late.Timestamp -= 120_000
	for name, rec := range map[string]schemas.Raw{"a new step": fix, "a late one": late} {
		letter := servicetest.Process(t, away, servicetest.Record(t, 7, rec), state).Letter(t, schemas.Avro)
		if letter.Reason != schemas.ReasonWrongPartition || letter.Offset != 7 || letter.Partition != (right+1)%4 {
			t.Errorf("%s: the dead letter is %+v", name, letter)
		}
	}
	if away.tally.Misplaced != 2 || away.tally.DeadLetters != 2 || away.tally.RecordsOut != 0 {
		t.Errorf("counted %+v", away.tally)
	}
	mismatched := servicetest.Record(t, 8, fix)
	mismatched.Key = []byte("another")
	if letter := servicetest.Process(t, away, mismatched, nil).Letter(t, schemas.Avro); letter.Reason != schemas.ReasonKeyMismatch {
		t.Errorf("a key of another user in a wrong partition: %s", letter.Reason)
	}
	for _, n := range []int32{-1, 4} {
		if _, err := NewProcessor(o.Settings, Partition{"raw", n, 4}); err == nil {
			t.Errorf("there is a processor for partition %d of 4", n)
		}
	}
}

// placed is what is seen of users who were placed by a partitioner.
func placed(by Partitioner, partitions int, keys ...[]byte) *placement {
	p := newPlacement(partitions)
	for _, key := range keys {
		at, _ := by.Partition(key, partitions)
		p.add(key, at)
		p.add(key, at) // more records of a user say no more
	}
	return p
}

// TestPlacement: what is said of topics whose producers are known.
func TestPlacement(t *testing.T) {
	for _, partitions := range []int{1, 2, 3, 4, 16, 64} {
		right, wrong := placed(Murmur2, partitions, servicetest.Users(60)...), placed(CRC32, partitions, servicetest.Users(60)...)
		if right.mostly(Murmur2) || right.misplaced[Murmur2] != 0 {
			t.Errorf("%d partitions: a murmur2 topic is called misplaced", partitions)
		}
		if wrong.mostly(Murmur2) != (partitions > 1) || wrong.mostly(CRC32) {
			t.Errorf("%d partitions: of a crc32 topic %d of %d users are misplaced", partitions, wrong.misplaced[Murmur2], wrong.pairs)
		}
		if by, found := wrong.likely(); found != (partitions > 1) || found && by != CRC32 {
			t.Errorf("%d partitions: a crc32 topic looks like %q, %t", partitions, by, found)
		}
		// A tenth of the users is also written by another producer.
		mixed := placed(Murmur2, partitions, servicetest.Users(60)...)
		for _, key := range servicetest.Users(6) {
			at, _ := CRC32.Partition(key, partitions)
			mixed.add(key, at)
		}
		if mixed.mostly(Murmur2) {
			t.Errorf("%d partitions: one wrong producer of ten stops the service", partitions)
		}
		if mixed.twice != mixed.misplaced[Murmur2] {
			t.Errorf("%d partitions: %d users are in two, want %d", partitions, mixed.twice, mixed.misplaced[Murmur2])
		}
	}
	// However many records a few users have, they are few.
	few := newPlacement(4)
	for _, key := range servicetest.Users(leastMisplaced - 1) {
		right, _ := Murmur2.Partition(key, 4)
		for range 1000 {
			few.add(key, (right+1)%4)
		}
	}
	if few.mostly(Murmur2) {
		t.Error("a few users stop the service")
	}
	// A producer of neither kind is told apart from both.
	other := newPlacement(8)
	for i, key := range servicetest.Users(80) {
		other.add(key, int32(i%8))
	}
	if _, found := other.likely(); found || !other.mostly(Murmur2) || !other.mostly(CRC32) {
		t.Errorf("a round robin looks like %+v", other.misplaced)
	}
	if said := other.advice(Murmur2, "raw", false); !strings.Contains(said, "topics.partitioner: any") || strings.Contains(said, "vehicle") {
		t.Errorf("the advice is %q", said)
	}
	if said := placed(CRC32, 4, servicetest.Users(40)...).advice(Murmur2, "raw", false); !strings.Contains(said, "these records lie where crc32 puts them (the default of librdkafka): set topics.partitioner: crc32") {
		t.Errorf("the advice is %q", said)
	}
}
