package account

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// placed is what is seen of users who were placed by a partitioner.
func placed(by engine.Partitioner, partitions int, keys ...[]byte) *Placement {
	p := NewPlacement(partitions)
	for _, key := range keys {
		at, _ := by.Partition(key, partitions)
		p.Add(key, at)
		p.Add(key, at) // more records of a user say no more
	}
	return p
}

// TestPlacement: what is said of topics whose producers are known.
func TestPlacement(t *testing.T) {
	for _, partitions := range []int{1, 2, 3, 4, 16, 64} {
		right, wrong := placed(engine.Murmur2, partitions, servicetest.Users(60)...),
			placed(engine.CRC32, partitions, servicetest.Users(60)...)
		if right.Mostly(engine.Murmur2) || right.misplaced[engine.Murmur2] != 0 {
			t.Errorf("%d partitions: a murmur2 topic is called misplaced", partitions)
		}
		if wrong.Mostly(engine.Murmur2) != (partitions > 1) || wrong.Mostly(engine.CRC32) {
			t.Errorf("%d partitions: of a crc32 topic %d of %d users are misplaced",
				partitions, wrong.misplaced[engine.Murmur2], wrong.pairs)
		}
		if by, found := wrong.Likely(); found != (partitions > 1) || found && by != engine.CRC32 {
			t.Errorf("%d partitions: a crc32 topic looks like %q, %t", partitions, by, found)
		}
		// A tenth of the users is also written by another producer.
		mixed := placed(engine.Murmur2, partitions, servicetest.Users(60)...)
		for _, key := range servicetest.Users(6) {
			at, _ := engine.CRC32.Partition(key, partitions)
			mixed.Add(key, at)
		}
		if mixed.Mostly(engine.Murmur2) {
			t.Errorf("%d partitions: one wrong producer of ten stops the service", partitions)
		}
		if mixed.Users() != 60 || mixed.Misplaced(engine.Murmur2) != mixed.twice {
			t.Errorf("%d partitions: %d of %d users are misplaced, want %d of 60", partitions,
				mixed.Misplaced(engine.Murmur2), mixed.Users(), mixed.twice)
		}
		if mixed.twice != mixed.misplaced[engine.Murmur2] {
			t.Errorf("%d partitions: %d users are in two, want %d",
				partitions, mixed.twice, mixed.misplaced[engine.Murmur2])
		}
	}
	// A user in every partition is one user.
	everywhere := NewPlacement(4)
	for n := range int32(4) {
		everywhere.Add(servicetest.Users(1)[0], n)
	}
	if everywhere.Misplaced(engine.Murmur2) != 1 || !strings.HasPrefix(
		everywhere.Advice(engine.Murmur2, "raw", false), "1 of 1 users ") {
		t.Errorf("the advice is %q", everywhere.Advice(engine.Murmur2, "raw", false))
	}
	// However many records a few users have, they are few.
	few := NewPlacement(4)
	for _, key := range servicetest.Users(leastMisplaced - 1) {
		right, _ := engine.Murmur2.Partition(key, 4)
		for range 1000 {
			few.Add(key, (right+1)%4)
		}
	}
	if few.Mostly(engine.Murmur2) {
		t.Error("a few users stop the service")
	}
	// A producer of neither kind is told apart from both.
	other := NewPlacement(8)
	for i, key := range servicetest.Users(80) {
		other.Add(key, int32(i%8))
	}
	if _, found := other.Likely(); found || !other.Mostly(engine.Murmur2) ||
		!other.Mostly(engine.CRC32) {
		t.Errorf("a round robin looks like %+v", other.misplaced)
	}
	if said := other.Advice(engine.Murmur2, "raw", false); !strings.Contains(
		said, "topics.partitioner: any") || strings.Contains(said, "vehicle") {
		t.Errorf("the advice is %q", said)
	}
	if said := placed(engine.CRC32, 4, servicetest.Users(40)...).Advice(engine.Murmur2, "raw",
		false); !strings.Contains(
		said, "these records lie where crc32 puts them (the default of librdkafka): set "+
			"topics.partitioner: crc32") {
		t.Errorf("the advice is %q", said)
	}
}
