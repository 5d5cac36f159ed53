package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
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

// TestPartitionerName: whatever moves users to another partition has another name, and a name fits
// into a mark. In one partition nobody moves.
func TestPartitionerName(t *testing.T) {
	keys := func(options mapping.Options) Settings {
		options.Preset = mapping.MDS
		m, err := mapping.New(options)
		servicetest.OK(t, err)
		return Settings{Input: Input{Mapping: m}}
	}
	const schema = `json:{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,` +
		`"field":"id"}],"optional":false,"name":"%s.Key"},"payload":{"id":*}}`
	settings := []Settings{
		{Partitioner: Murmur2},
		{Partitioner: CRC32},
		{Partitioner: AnyPartitioner},
		keys(mapping.Options{KeyCheck: mapping.KeyCheckOff}),
		keys(mapping.Options{Key: `json:{"id":*}`}), keys(mapping.Options{Key: `json:{"id": *}`}),
		keys(mapping.Options{Key: "avro:42:long"}), keys(mapping.Options{Key: "avro:43:long"}),
		keys(mapping.Options{Key: mapping.Key(fmt.Sprintf(schema, "a"))}),
		keys(mapping.Options{Key: mapping.Key(fmt.Sprintf(schema, "b"))}),
	}
	names := map[string]bool{}
	for _, s := range settings {
		for _, n := range []int{2, 3} {
			name := s.PartitionerName(n)
			if names[name] || len(name) > task.MarkBytes || !utf8.ValidString(name) {
				t.Errorf("%q stands for two partitioners, or is too long", name)
			}
			names[name] = true
		}
		if got := s.PartitionerName(1); got != "one partition" {
			t.Errorf("one partition is named %q", got)
		}
	}
	plain := Settings{}.PartitionerName(2)
	if plain != "murmur2, 2 partitions" || keys(mapping.Options{}).PartitionerName(2) != plain {
		t.Errorf("a plain key has the name %q", plain)
	}
}

// TestOneAccount: with a budget nothing may leave open in which partition a user is.
func TestOneAccount(t *testing.T) {
	off, err := mapping.New(mapping.Options{Preset: mapping.MDS, KeyCheck: mapping.KeyCheckOff})
	servicetest.OK(t, err)
	spelled, err := mapping.New(mapping.Options{Preset: mapping.MDS, Key: `json:"*"`})
	servicetest.OK(t, err)
	window := mechanism.Budget{Epsilon: 2, WindowSteps: 3}
	for _, test := range []struct {
		by         Partitioner
		mapping    *mapping.Mapping
		budget     mechanism.Budget
		partitions int
		says       string
	}{
		{AnyPartitioner, nil, window, 2, "topics.partitioner: any"},
		{AnyPartitioner, nil, mechanism.Budget{Lifetime: 5}, 2, "topics.partitioner: any"},
		{AnyPartitioner, nil, window, 1, ""},
		{AnyPartitioner, nil, mechanism.Budget{}, 2, ""},
		{Murmur2, off, window, 2, "input.key_check: off"},
		{Murmur2, off, window, 1, ""},
		{Murmur2, spelled, window, 2, ""},
		{CRC32, nil, window, 2, ""},
	} {
		s := Settings{Partitioner: test.by, Input: Input{Mapping: test.mapping}}
		s.Release.Budget = test.budget
		err := s.OneAccount(test.partitions)
		if (err == nil) != (test.says == "") || err != nil && (!errors.Is(err, ErrTwoAccounts) ||
			!strings.Contains(err.Error(), test.says)) {
			t.Errorf("%+v: %v", test, err)
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
