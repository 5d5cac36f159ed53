package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// drawMembers returns members with claims and copies of some partitions.
func drawMembers(rng *rand.Rand, n int32) []candidate {
	members := make([]candidate, 1+rng.IntN(6))
	for i := range members {
		m := &members[i]
		m.member = fmt.Sprintf("m%d-%d", i, rng.IntN(1000))
		m.standbys = rng.IntN(4) - 1
		for p := range n {
			if rng.IntN(3) == 0 {
				m.claims = append(m.claims, claim{int32(rng.IntN(3)), []int32{p}})
			}
			if rng.IntN(3) == 0 {
				m.copies = append(m.copies, Copy{p, rng.Int64N(5)})
			}
		}
		m.copies = append(m.copies, Copy{-1, 7}, Copy{n, 7}) // a foreign program's
	}
	return members
}

// TestSpreadProperties: each partition has as many standbys as are wanted and possible, never its
// owner or one twice, whatever the order of the members.
func TestSpreadProperties(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := int32(rng.IntN(20))
		members := drawMembers(rng, n)
		shares := assign(n, members)
		checkShares(t, n, members, shares)
		chosen := spread(n, members, shares)
		wanted, able := 0, map[string]bool{}
		for _, m := range members {
			wanted = max(wanted, m.standbys)
			able[m.member] = m.standbys > 0
		}
		for _, s := range shares {
			others := 0
			for m, ok := range able {
				if ok && m != s.member {
					others++
				}
			}
			for _, p := range s.partitions {
				got := 0
				for m, list := range chosen {
					if slices.Contains(list, p) {
						got++
						if m == s.member || !able[m] {
							t.Fatalf("seed %d: %s is a standby of partition %d of %s", seed, m, p,
								s.member)
						}
					}
				}
				if got != min(wanted, others) {
					t.Fatalf("seed %d: partition %d has %d standbys, want %d of %d", seed, p, got,
						wanted, others)
				}
			}
		}
		for m, list := range chosen {
			if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
				t.Fatalf("seed %d: %s is a standby of %v", seed, m, list)
			}
		}
		rng.Shuffle(len(members), func(i, j int) {
			members[i], members[j] = members[j], members[i]
		})
		if again := spread(n, members, shares); !reflect.DeepEqual(chosen, again) {
			t.Fatalf("seed %d: the order of members matters: %v, %v", seed, chosen, again)
		}
	}
}

// TestStandbysInherit: whichever member dies, each of its partitions goes to its standby, and those
// of others stay.
func TestStandbysInherit(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := int32(1 + rng.IntN(30))
		members := drawMembers(rng, n)
		for i := range members {
			members[i].standbys = 1
		}
		shares := assign(n, members)
		chosen := spread(n, members, shares)
		for _, dead := range shares {
			if len(members) == 1 {
				break
			}
			var left []candidate
			had := map[string][]int32{}
			for _, s := range shares {
				if s.member == dead.member {
					continue
				}
				c := candidate{member: s.member, claims: []claim{{5, s.partitions}}}
				for _, p := range append(slices.Clone(s.partitions), chosen[s.member]...) {
					c.copies = append(c.copies, Copy{p, 100})
				}
				for range rng.IntN(5) { // and what it had once
					c.copies = append(c.copies, Copy{rng.Int32N(n), rng.Int64N(50)})
				}
				left = append(left, c)
				had[s.member] = s.partitions
			}
			for _, s := range assign(n, left) {
				for _, p := range s.partitions {
					if !slices.Contains(had[s.member], p) &&
						!slices.Contains(chosen[s.member], p) {
						t.Fatalf("seed %d: %s dies, and partition %d goes to %s; standbys %v",
							seed, dead.member, p, s.member, chosen)
					}
				}
			}
		}
	}
}

// TestSpreadOfManyPartitions: a group of 50 members and 1,000 partitions is shared out while the
// leader's session lasts. Ranking all copies for each partition took a minute.
func TestSpreadOfManyPartitions(t *testing.T) {
	const n, size = 1000, 50
	members := make([]candidate, size)
	for i := range members {
		members[i] = candidate{member: fmt.Sprintf("m%02d", i), standbys: MaxStandbys}
		for p := range int32(maxCopiesBytes / copyBytes / size) {
			members[i].copies = append(members[i].copies,
				Copy{(p + int32(7*i)) % n, int64(p*31%1000) + int64(i)})
		}
	}
	shares := assign(n, members)
	checkShares(t, n, members, shares)
	copies := 0
	for _, list := range spread(n, members, shares) {
		copies += len(list)
	}
	if copies != n*MaxStandbys {
		t.Errorf("there are %d copies", copies)
	}
}

// TestStandbysAreSpread: the copies are about as even as the partitions.
func TestStandbysAreSpread(t *testing.T) {
	for _, test := range []struct{ partitions, members, standbys int }{
		{12, 4, 1},
		{4, 4, 1},
		{12, 3, 2},
		{64, 4, 1},
		{6, 2, 1},
	} {
		members := make([]candidate, test.members)
		for i := range members {
			members[i] = candidate{member: fmt.Sprint("m", i), standbys: test.standbys}
		}
		n := int32(test.partitions)
		chosen := spread(n, members, assign(n, members))
		want := test.partitions * test.standbys / test.members
		for m, list := range chosen {
			if len(list) < want-1 || len(list) > want+1 {
				t.Errorf("%+v: %s has %d copies, want about %d: %v", test, m, len(list), want,
					chosen)
			}
		}
	}
}

// TestCopiesCount: what moves goes to the copy that lacks least, and what has a copy elsewhere
// moves first.
func TestCopiesCount(t *testing.T) {
	for name, test := range map[string]struct {
		members []candidate
		want    map[string][]int32
	}{
		"the warmest copy": {
			[]candidate{
				{member: "a", claims: []claim{{1, []int32{0}}}, copies: []Copy{{2, 90}, {3, 50}}},
				{member: "b", claims: []claim{{1, []int32{1}}}, copies: []Copy{{2, 80}, {3, 60}}},
			}, map[string][]int32{"a": {0, 2}, "b": {1, 3}},
		},
		"a copy that is the only one": {
			[]candidate{
				{member: "a", copies: []Copy{{0, 9}, {1, 9}, {2, 9}}},
				{member: "b", copies: []Copy{{0, 9}, {1, 9}}},
			}, map[string][]int32{"a": {0, 2}, "b": {1, 3}},
		},
		"no room": {
			[]candidate{
				{member: "a", claims: []claim{{1, []int32{0, 1}}}, copies: []Copy{{2, 9}, {3, 9}}},
				{member: "b"},
			}, map[string][]int32{"a": {0, 1}, "b": {2, 3}},
		},
		"a member comes back with what it had": {
			[]candidate{
				{member: "a", claims: []claim{{1, []int32{0, 1, 2, 3}}}, copies: []Copy{
					{0, 99}, {1, 99}, {2, 99}, {3, 99},
				}},
				{member: "b", copies: []Copy{{0, 90}, {1, 20}, {2, 95}}},
			}, map[string][]int32{"a": {1, 3}, "b": {0, 2}},
		},
	} {
		got := map[string][]int32{}
		for _, s := range assign(4, test.members) {
			got[s.member] = s.partitions
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestCopiesAreBounded: what the members say of their copies stays within one record of the
// coordinator, however many there are.
func TestCopiesAreBounded(t *testing.T) {
	copies := make([]Copy, 1<<16)
	for _, size := range []int{1, 3, 40, 200} {
		shares := make([]share, size)
		few := fewEnough(shares)
		if size == 200 {
			few = nil // they are not told of each other
		}
		n := len(fewEnoughCopies(copies, few))
		if bytes := size * n * copyBytes; bytes > 400<<10 || n < fewCopies {
			t.Errorf("%d members name %d copies each, %d bytes", size, n, bytes)
		}
	}
	if got := fewEnoughCopies(copies[:3], nil); len(got) != 3 {
		t.Errorf("of 3 copies %d are named", len(got))
	}
}

// TestStandbysOfAGroup: members learn of whom they are standbys, and inherit when a process dies.
// A member that names no number is nobody's standby.
func TestStandbysOfAGroup(t *testing.T) {
	h := newHarness(t, 6)
	var mu sync.Mutex
	copies := map[string][]Copy{}
	start := func(name string, standbys int) *process {
		return h.start(Options{
			Standbys: standbys, SessionTimeout: time.Second,
			Copies: func() []Copy {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(copies[name])
			},
		})
	}
	a, b, old := start("a", 1), start("b", 1), h.start(Options{})
	gens := h.settle(6, a, b, old)
	if len(gens[2].Standbys) > 0 || len(gens[0].Standbys)+len(gens[1].Standbys) != 6 {
		t.Fatalf("the standbys are %v, %v, %v", gens[0].Standbys, gens[1].Standbys,
			gens[2].Standbys)
	}
	h.OK(old.Leave())
	gens = h.settle(6, a, b)
	if !slices.Equal(gens[0].Standbys, gens[1].Partitions) ||
		!slices.Equal(gens[1].Standbys, gens[0].Partitions) {
		t.Fatalf("the standbys are %v, %v", gens[0].Standbys, gens[1].Standbys)
	}
	c := start("c", 1)
	gens = h.settle(6, a, b, c)
	heirs := byName("bc", []*Generation{
		{Partitions: gens[1].Standbys}, {Partitions: gens[2].Standbys},
	})
	dead := gens[0].Partitions
	mu.Lock()
	for name, list := range heirs {
		for _, p := range list {
			copies[name] = append(copies[name], Copy{p, 10})
		}
	}
	mu.Unlock()
	a.network.Lose(protocol.Heartbeat, wiretest.Loss{Times: -1})
	a.network.Lose(protocol.JoinGroup, wiretest.Loss{Times: -1})
	gens = h.settle(6, b, c)
	now := byName("bc", gens)
	for name := range maps.Keys(now) {
		for _, p := range now[name] {
			if slices.Contains(dead, p) && !slices.Contains(heirs[name], p) {
				t.Errorf("partition %d goes to %s, whose copies are %v", p, name, heirs[name])
			}
		}
	}
}
