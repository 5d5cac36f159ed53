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
	standbys         int // Options.Standbys
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
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b candidate) int { return a.compare(&b) })
	return shareAmong(n, members, rank(n, members))
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

// shareAmong is assign with the members in a given order: the member that comes first is the first
// to get one more than others. The copies are ranked, of members by their places.
func shareAmong(n int32, members []candidate, copies []ranked) []share {
	if len(members) == 0 {
		return nil
	}
	s := sharing{
		shares: make([]share, len(members)), taken: make([]bool, n),
		quota: int(n) / len(members), extra: int(n) % len(members),
	}
	for i, m := range members {
		s.shares[i] = share{member: m.member, instance: m.instance}
	}
	had := owners(n, members)
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

// spread chooses standbys for the partitions of an assignment: which ones each member keeps a copy
// of, by member id, ascending.
//
// Guarantee: a partition has as many standbys as a member wants at most, as far as there are
// members that want any; none of them is its owner; and the result does not depend on the order of
// the members. The first standby of a partition is the member to which assign would give it if its
// owner were gone and nobody else. So a partition whose owner dies finds its copy at a member that
// has room. Further standbys are those members that have the fewest. Cost: that of assign, without
// the sorting of copies, for each member; and O(n m log m) for further standbys.
func spread(n int32, members []candidate, shares []share) map[string][]int32 {
	wanted := 0
	var able []candidate
	for _, m := range members {
		wanted = max(wanted, m.standbys)
		at := slices.IndexFunc(shares, func(s share) bool { return s.member == m.member })
		if m.standbys > 0 && at >= 0 {
			m.claims = []claim{{partitions: shares[at].partitions}}
			able = append(able, m)
		}
	}
	if wanted == 0 {
		return nil
	}
	slices.SortFunc(able, func(a, b candidate) int { return a.compare(&b) })
	chosen := map[string][]int32{}
	copies := rank(n, able)
	for _, s := range shares {
		heirs := without(n, able, copies, s.member, chosen)
		for _, p := range s.partitions {
			if heir := heirs[p]; heir != "" {
				chosen[heir] = append(chosen[heir], p)
			}
		}
	}
	addFurther(n, able, shares, wanted-1, chosen)
	for _, list := range chosen {
		slices.Sort(list)
	}
	return chosen
}

// addFurther chooses the standbys beyond the first of each partition.
func addFurther(n int32, able []candidate, shares []share, most int, chosen map[string][]int32) {
	owner, first := make([]string, n), make([]string, n)
	for _, s := range shares {
		for _, p := range s.partitions {
			owner[p] = s.member
		}
	}
	for heir, list := range chosen {
		for _, p := range list {
			first[p] = heir
		}
	}
	for p := range n {
		for _, m := range fewest(able, chosen, most, owner[p], first[p]) {
			chosen[m] = append(chosen[m], p)
		}
	}
}

// fewest returns those of the members that are standbys of the fewest partitions, without the two
// that have the partition already.
func fewest(able []candidate, chosen map[string][]int32, most int, owner, first string) []string {
	if most <= 0 {
		return nil
	}
	var names []string
	for _, m := range able {
		if m.member != owner && m.member != first {
			names = append(names, m.member)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(len(chosen[a]), len(chosen[b]))
	})
	return names[:min(most, len(names))]
}

// without shares the partitions out when a member is gone, and returns who gets which, "" for
// nobody. Of the others, those with the fewest standbys come first. The copies are those of all.
func without(n int32, members []candidate, copies []ranked, gone string,
	chosen map[string][]int32,
) []string {
	at := make([]int, 0, len(members)) // places among the members
	for i, m := range members {
		if m.member != gone {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(i, j int) int {
		return cmp.Compare(len(chosen[members[i].member]), len(chosen[members[j].member]))
	})
	left, place := make([]candidate, len(at)), make([]int, len(members))
	for i := range place {
		place[i] = -1
	}
	for to, from := range at {
		left[to], place[from] = members[from], to
	}
	theirs := make([]ranked, 0, len(copies))
	for _, c := range copies {
		if c.member = place[c.member]; c.member >= 0 {
			theirs = append(theirs, c)
		}
	}
	heirs := make([]string, n)
	for _, s := range shareAmong(n, left, theirs) {
		for _, p := range s.partitions {
			heirs[p] = s.member
		}
	}
	return heirs
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
