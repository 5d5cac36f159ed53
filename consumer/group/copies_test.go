package group

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// drawMembers returns members with claims and copies of some partitions.
func drawMembers(rng *rand.Rand, n int32) []candidate {
	members := make([]candidate, 1+rng.IntN(6))
	for i := range members {
		m := &members[i]
		m.member = fmt.Sprintf("m%d-%d", i, rng.IntN(1000))
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

// TestCopiesKeepTheBalance: whatever copies the members name, each partition has one owner and the
// numbers of partitions differ by one at most, in any order of the members.
func TestCopiesKeepTheBalance(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := int32(rng.IntN(20))
		members := drawMembers(rng, n)
		shares := assign(n, members)
		checkShares(t, n, members, shares)
		rng.Shuffle(len(members), func(i, j int) {
			members[i], members[j] = members[j], members[i]
		})
		if again := assign(n, members); !reflect.DeepEqual(shares, again) {
			t.Fatalf("seed %d: the order of members matters: %v, %v", seed, shares, again)
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
