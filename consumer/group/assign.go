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
}

// key orders members in the same way for every leader. A static member's key is its instance id,
// which outlasts its process.
func (c *candidate) key() string { return cmp.Or(c.instance, c.member) }

// assign shares partitions 0 to n-1 among the members.
//
// Guarantee: every partition goes to exactly one member; the numbers of partitions of two members
// differ by at most one; as many partitions as that allows stay with the member that had them; and
// the result does not depend on the order of the members. If several members claim a partition, the
// newest claim counts. Cost: O(c log c) for c claimed partitions and members.
//
// Why that many stay: let q = ⌊n/m⌋ and r = n mod m. Then r members get q+1 partitions and the
// others q. A member that had h keeps min(h, its number), so the sum is largest if those that had
// more than q are the ones that get q+1.
func assign(n int32, members []candidate) []share {
	if len(members) == 0 {
		return nil
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.key(), b.key()), cmp.Compare(a.member, b.member))
	})
	had := owners(n, members)

	quota, extra := int(n)/len(members), int(n)%len(members)
	shares := make([]share, len(members))
	// A member that has more than its quota has the first right to one above it.
	limit := make([]int, len(members))
	for _, above := range []bool{true, false} {
		for i := range members {
			if above != (len(had[i]) > quota) {
				continue
			}
			limit[i] = quota
			if extra > 0 {
				limit[i]++
				extra--
			}
		}
	}
	taken := make([]bool, n)
	for i, m := range members {
		shares[i] = share{member: m.member, instance: m.instance}
		for _, p := range had[i][:min(len(had[i]), limit[i])] {
			shares[i].partitions = append(shares[i].partitions, p)
			taken[p] = true
		}
	}
	next := 0
	for p := range n {
		if taken[p] {
			continue
		}
		for len(shares[next].partitions) >= limit[next] {
			next++
		}
		shares[next].partitions = append(shares[next].partitions, p)
	}
	for i := range shares {
		slices.Sort(shares[i].partitions)
	}
	return shares
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
