package group

import (
	"cmp"
	"slices"
)

// candidate is a member that takes part in an assignment, with what is known about the partitions
// that it had: from its own account, and from the last leader's.
type candidate struct {
	member, instance string
	claims           []claim
	copies           []Copy
}

// key orders members in the same way for every leader. A static member's key is its instance id,
// which outlasts its process.
func (c *candidate) key() string { return cmp.Or(c.instance, c.member) }

// compare orders members by key.
func (c *candidate) compare(o *candidate) int {
	return cmp.Or(cmp.Compare(c.key(), o.key()), cmp.Compare(c.member, o.member))
}

// assign shares partitions 0 to n-1 among the members.
//
// Guarantee: every partition goes to exactly one member; the numbers of partitions of two members
// differ by at most one; as many partitions as that allows stay with the member that had them; and
// the result does not depend on the order of the members. If several members claim a partition, the
// newest claim counts. A partition that moves goes to a member with a copy of its state if that has
// room, and of several to the one that lacks least. Cost: O(c log c) for c claimed partitions,
// copies and members.
//
// Why that many stay: let q = ⌊n/m⌋ and r = n mod m. Then r members get q+1 partitions and the
// others q. A member that had h keeps min(h, its number), so the sum is largest if those that had
// more than q are the ones that get q+1.
func assign(n int32, members []candidate) []share {
	if len(members) == 0 {
		return nil
	}
	// The member that comes first is the first to get one more than others.
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b candidate) int { return a.compare(&b) })
	s := sharing{
		shares: make([]share, len(members)), taken: make([]bool, n),
		quota: int(n) / len(members), extra: int(n) % len(members),
	}
	for i, m := range members {
		s.shares[i] = share{member: m.member, instance: m.instance}
	}
	copies, had := rank(n, members), owners(n, members)
	// A member that has more than its quota has the first right to one above it.
	for _, above := range []bool{true, false} {
		for i := range members {
			if above == (len(had[i]) > s.quota) {
				s.keep(i, had[i], copies)
			}
		}
	}
	for _, c := range copies {
		if !s.taken[c.partition] && s.room(c.member) {
			s.give(c.member, c.partition)
		}
	}
	next := 0
	for p := range n {
		if s.taken[p] {
			continue
		}
		for !s.room(next) {
			next++
		}
		s.give(next, p)
	}
	for i := range s.shares {
		slices.Sort(s.shares[i].partitions)
	}
	return s.shares
}

// sharing is an assignment in the making.
type sharing struct {
	shares []share
	taken  []bool // by partition
	quota  int    // of each member
	extra  int    // how many members may still get one more
}

func (s *sharing) room(i int) bool {
	have := len(s.shares[i].partitions)
	return have < s.quota || have == s.quota && s.extra > 0
}

func (s *sharing) give(i int, p int32) {
	if len(s.shares[i].partitions) == s.quota {
		s.extra--
	}
	s.shares[i].partitions = append(s.shares[i].partitions, p)
	s.taken[p] = true
}

// keep leaves a member what it had. If that is too much, those partitions go first of which another
// member has a copy that lacks little.
func (s *sharing) keep(i int, had []int32, copies []ranked) {
	if len(had) > s.quota {
		best := map[int32]int{} // 1 + place in the ranking of another member's copy
		for at, c := range copies {
			if c.member != i && best[c.partition] == 0 {
				best[c.partition] = 1 + at
			}
		}
		slices.SortStableFunc(had, func(p, q int32) int {
			return cmp.Or(cmp.Compare(min(best[p], 1), min(best[q], 1)),
				cmp.Compare(best[q], best[p]))
		})
	}
	for _, p := range had {
		if s.room(i) {
			s.give(i, p)
		}
	}
}

// ranked is a copy that a member has.
type ranked struct {
	partition int32
	member    int
	lacks     int64 // offsets, against the partition's best copy
	copies    int   // of the partition
}

// rank lists the copies in the order in which they count: what lacks least first. Among equals a
// partition comes first that has fewer copies, and so fewer places to go.
func rank(n int32, members []candidate) []ranked {
	best, copies := make([]int64, n), make([]int, n)
	var all []ranked
	for i, m := range members {
		seen := map[int32]bool{}
		for _, c := range m.copies {
			if p := c.Partition; p >= 0 && p < n && c.Offset >= 0 && !seen[p] {
				seen[p] = true
				best[p] = max(best[p], c.Offset)
				copies[p]++
				all = append(all, ranked{partition: p, member: i, lacks: c.Offset})
			}
		}
	}
	for i := range all {
		c := &all[i]
		c.lacks, c.copies = best[c.partition]-c.lacks, copies[c.partition]
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.lacks, b.lacks), cmp.Compare(a.copies, b.copies),
			cmp.Compare(a.partition, b.partition))
	})
	return all
}

// owners returns for each member, in order, the partitions that it had last, ascending.
func owners(n int32, members []candidate) [][]int32 {
	owner, since := make([]int, n), make([]int32, n)
	for p := range owner {
		owner[p] = -1
	}
	for i, m := range members {
		for _, c := range m.claims {
			for _, p := range c.partitions {
				if p >= 0 && p < n && (owner[p] < 0 || c.generation > since[p]) {
					owner[p], since[p] = i, c.generation
				}
			}
		}
	}
	had := make([][]int32, len(members))
	for p, i := range owner {
		if i >= 0 {
			had[i] = append(had[i], int32(p))
		}
	}
	return had
}
