package group

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// checkShares fails the test unless every partition is given once and the
// members' numbers differ by one at most.
func checkShares(t *testing.T, n int32, members []candidate, shares []share) {
	t.Helper()
	if len(shares) != len(members) {
		t.Fatalf("%d members, %d shares", len(members), len(shares))
	}
	given := make([]int, n)
	for _, s := range shares {
		if q := int(n) / len(members); len(s.partitions) < q || len(s.partitions) > q+1 {
			t.Fatalf("%d partitions for %d members: %v", n, len(members), shares)
		}
		if !slices.IsSorted(s.partitions) {
			t.Fatalf("not ascending: %v", s.partitions)
		}
		for _, p := range s.partitions {
			given[p]++
		}
	}
	for p, times := range given {
		if times != 1 {
			t.Fatalf("partition %d is given %d times: %v", p, times, shares)
		}
	}
}

// kept counts the partitions that stay where they were.
func kept(had [][]int32, members []candidate, shares []share) int {
	n := 0
	for _, s := range shares {
		i := slices.IndexFunc(members, func(c candidate) bool { return c.member == s.member })
		for _, p := range s.partitions {
			if slices.Contains(had[i], p) {
				n++
			}
		}
	}
	return n
}

// mostKept is the largest number of partitions that any balanced assignment can
// keep, by trying which members get one more.
func mostKept(n int, had [][]int32) int {
	m := len(had)
	best := 0
	for more := range 1 << m {
		extra, sum := 0, 0
		for i := range had {
			limit := n / m
			if more>>i&1 == 1 {
				limit++
				extra++
			}
			sum += min(limit, len(had[i]))
		}
		if extra == n%m {
			best = max(best, sum)
		}
	}
	return best
}

func TestAssignProperties(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := int32(rng.IntN(20))
		members := make([]candidate, 1+rng.IntN(6))
		for i := range members {
			members[i] = candidate{member: fmt.Sprintf("m%d-%d", i, rng.IntN(1000))}
			if rng.IntN(2) == 0 {
				members[i].instance = fmt.Sprintf("instance%d", i)
			}
			for range rng.IntN(3) {
				c := claim{generation: int32(rng.IntN(4)) - 1}
				for range rng.IntN(8) {
					// some of them foreign
					c.partitions = append(c.partitions, int32(rng.IntN(25))-2)
				}
				members[i].claims = append(members[i].claims, c)
			}
		}
		shares := assign(n, members)
		checkShares(t, n, members, shares)
		slices.SortFunc(members, func(a, b candidate) int {
			if a.key() < b.key() {
				return -1
			}
			return 1
		})
		had := owners(n, members)
		if got, most := kept(had, members, shares), mostKept(int(n), had); got != most {
			t.Fatalf("seed %d: %d partitions stay, %d could", seed, got, most)
		}
		rng.Shuffle(len(members), func(i, j int) {
			members[i], members[j] = members[j], members[i]
		})
		if again := assign(n, members); !reflect.DeepEqual(shares, again) {
			t.Fatalf("seed %d: the order of members matters:\n%v\n%v", seed, shares, again)
		}
	}
}

// TestAssignMovesLittle adds and removes members, one at a time, as a group does
// it: through what the last generation wrote.
func TestAssignMovesLittle(t *testing.T) {
	const n = 12
	var members []candidate
	shares := []share{}
	for step, c := range []struct{ size, mayMove int }{
		{1, 12},
		{2, 6},
		{3, 4},
		{4, 3},
		{3, 3},
		{2, 4},
		{1, 6},
	} {
		for len(members) < c.size {
			members = append(members, candidate{member: fmt.Sprint("m", len(members))})
		}
		members = members[:c.size]
		for i := range members {
			members[i].claims = nil
			for _, s := range shares {
				if s.member == members[i].member {
					members[i].claims = []claim{{int32(step), s.partitions}}
				}
			}
		}
		had := owners(n, members)
		shares = assign(n, members)
		checkShares(t, n, members, shares)
		if moved := n - kept(had, members, shares); moved != c.mayMove {
			t.Errorf("%d members: %d partitions move, want %d", c.size, moved, c.mayMove)
		}
	}
}

func TestNewerClaimWins(t *testing.T) {
	zombie := candidate{member: "a", claims: []claim{{3, []int32{0, 1}}}}
	owner := candidate{member: "b", claims: []claim{{4, []int32{0, 1}}}}
	if had := owners(2, []candidate{zombie, owner}); len(had[0]) != 0 || len(had[1]) != 2 {
		t.Errorf("the claims of generations 3 and 4 hold %v", had)
	}
	if shares := assign(3, nil); shares != nil {
		t.Errorf("nobody has %v", shares)
	}
}

func TestGroupProtocolIsReadBack(t *testing.T) {
	shares := []share{{"a", "", []int32{0, 3}}, {"b", "two", nil}, {"c", "three", []int32{1, 2}}}
	had := said{
		claim{7, []int32{0, 3}}, shares, []byte("settings"), []Copy{{0, 7}, {4, 1 << 40}},
	}
	told := readSubscription(appendSubscription(nil, "in", had), "in")
	if !reflect.DeepEqual(told, had) {
		t.Errorf("subscription %+v", told)
	}
	if got := readSubscription(appendSubscription(nil, "other", had), "in"); got.partitions != nil {
		t.Errorf("another topic's: %+v", got)
	}
	settings := []byte("settings")
	none := appendAssignment(nil, "in", assignment{nil, 4, shares, nil})
	some := shares[2].partitions
	foreign := append(appendPartitions([]byte{0, 1}, "in", []int32{4}), 0xff, 0xff, 0xff, 0xff)
	nothing := assignment{total: -1}
	for name, test := range map[string]struct {
		written []byte
		topic   string
		want    assignment
	}{
		"an assignment": {
			appendAssignment(nil, "in", assignment{some, 4, shares, settings}),
			"in",
			assignment{[]int32{1, 2}, 4, shares, settings},
		},
		"no settings": {
			appendAssignment(nil, "in", assignment{some, 4, shares, nil}),
			"in",
			assignment{[]int32{1, 2}, 4, shares, nil},
		},
		"no partition":      {none, "in", assignment{nil, 4, shares, nil}},
		"another topic's":   {none, "other", nothing},
		"no assignment":     {nil, "in", nothing},
		"another program's": {foreign, "in", assignment{own: []int32{4}, total: -1}},
	} {
		if got, ok := readAssignment(test.written, test.topic); !ok ||
			!reflect.DeepEqual(got, test.want) {
			t.Errorf("%s is read as %+v, %v", name, got, ok)
		}
	}
}

// TestCandidates: a leader that knows nothing learns from the others what a
// member had that knows nothing either, and the newest account counts.
func TestCandidates(t *testing.T) {
	old := []share{{"a", "", []int32{0, 1}}, {"b1", "b", []int32{2, 3}}}
	young := []share{{"a", "", []int32{0}}, {"b1", "b", []int32{1, 2, 3}}}
	nothing := said{claim: claim{generation: -1}}
	members := []joinedMember{
		{id: "b2", instance: "b", subscription: appendSubscription(nil, "in", nothing)},
		{id: "z", subscription: appendSubscription(nil, "in",
			said{claim: claim{4, []int32{1}}, shares: old})},
		{id: "a", subscription: appendSubscription(nil, "in",
			said{claim: claim{5, []int32{0}}, shares: young})},
	}
	for _, leader := range []said{nothing, {claim: claim{4, nil}, shares: old}} {
		had := owners(4, candidates("in", members, leader))
		if want := [][]int32{{1, 2, 3}, nil, {0}}; !reflect.DeepEqual(had, want) {
			t.Errorf("the members had %v, want %v", had, want)
		}
	}
}

// TestLargeGroupsGoWithoutShares: what the coordinator keeps of a group stays
// within one record.
func TestLargeGroupsGoWithoutShares(t *testing.T) {
	for _, size := range []int{1, 30, 100, 300} {
		shares := make([]share, size)
		for i := range shares {
			shares[i] = share{
				member:   fmt.Sprintf("geodither-0b9f8f6e-3a4c-4bb5-9c9e-%012d", i),
				instance: fmt.Sprint("instance-", i), partitions: []int32{int32(i)},
			}
		}
		known := fewEnough(shares)
		if got := known != nil; got != (size < 50) {
			t.Errorf("%d members are told of each other: %v", size, got)
		}
		if all := size * len(appendAssignment(nil, "in",
			assignment{[]int32{1}, int32(size), known, nil})); all > maxSharesBytes+100*size {
			t.Errorf("%d members: %d bytes", size, all)
		}
	}
}

// TestKafkaReadsTheGroupProtocol: what members say to each other is what Kafka's
// tools show, here read by another implementation.
func TestKafkaReadsTheGroupProtocol(t *testing.T) {
	var told kmsg.ConsumerMemberMetadata
	if err := told.ReadFrom(appendSubscription(nil, "in",
		said{claim{7, []int32{0, 2}}, nil, []byte("s"), []Copy{{1, 2}}})); err != nil {
		t.Fatal(err)
	}
	if told.Version != 2 || !slices.Equal(told.Topics, []string{"in"}) || told.Generation != 7 ||
		len(told.OwnedPartitions) != 1 ||
		told.OwnedPartitions[0].Topic != "in" ||
		!slices.Equal(told.OwnedPartitions[0].Partitions, []int32{0, 2}) {
		t.Errorf("subscription %+v", told)
	}
	var given kmsg.ConsumerMemberAssignment
	if err := given.ReadFrom(appendAssignment(nil, "in", assignment{
		[]int32{1}, 2, []share{{"a", "b", []int32{1}}}, []byte("s"),
	})); err != nil {
		t.Fatal(err)
	}
	if len(given.Topics) != 1 || given.Topics[0].Topic != "in" ||
		!slices.Equal(given.Topics[0].Partitions, []int32{1}) {
		t.Errorf("assignment %+v", given)
	}
}

// FuzzGroupProtocol: what other members write neither crashes this one nor makes
// it claim more than was written.
func FuzzGroupProtocol(f *testing.F) {
	f.Add(appendSubscription(nil, "in",
		said{
			claim{1, []int32{0, 1}},
			[]share{{"a", "b", []int32{1}}},
			[]byte("s"),
			[]Copy{{3, 4}},
		}))
	f.Add(appendAssignment(nil, "in", assignment{
		[]int32{1}, 2, []share{{"a", "b", []int32{1}}}, []byte("s"),
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := readSubscription(b, "in")
		given, _ := readAssignment(b, "in")
		own, all := given.own, given.all
		total := len(c.partitions)
		all = append(all, c.shares...)
		for _, s := range all {
			total += len(s.partitions)
		}
		total += 3 * len(c.copies)
		if max(total, len(own))*4 > 3*len(b) {
			t.Errorf("%d bytes hold %d partitions", len(b), total)
		}
		readJoined(b)
		readSynced(b)
	})
}
