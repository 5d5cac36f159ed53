package train

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// sharedFixes are the fingerprints, ascending, of fixes that two users report: the same time to the
// millisecond and the same place to 11 mm.
//
// Such fixes are one trace under two names, as 6.8 % of some users' fixes are in Geolife. Counted
// twice they weigh twice, and a held-out user would still be in the model.
//
// Only the first and the last fix of each user's steps are compared. Training uses no others, and
// those in between are not kept. A fingerprint has 64 bits: among 10⁸ fixes the chance that any
// two different ones have the same fingerprint is below 10⁻³, and it would cost two steps of two
// users.
type sharedFixes []uint64

// has says whether a fix of a step is shared.
func (s sharedFixes) has(step, stepMS int64, p point) bool {
	if len(s) == 0 {
		return false
	}
	_, found := slices.BinarySearch(s, fingerprint(step, stepMS, p))
	return found
}

func union(a, b sharedFixes) sharedFixes {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

// fingerprint mixes time and place. For each place it is a bijection of time, and for each time one
// of place (Stafford's mix 13, as in Steele, Lea and Flood 2014, doi:10.1145/2714064.2660195).
func fingerprint(step, stepMS int64, p point) uint64 {
	return mix(mix(uint64(uint32(p.lat))<<32|uint64(uint32(p.lon))) +
		uint64(step*stepMS+int64(p.ms)))
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// signed is a fingerprint and the number of its user.
type signed struct {
	print uint64
	user  uint32
}

// printsAtOnce bounds the memory of findShared, 16 bytes for each: more fingerprints than that are
// compared in slices of their range.
const printsAtOnce = 1 << 23

// findShared goes through all users' fixes, once for each slice of the range of fingerprints. It
// compares about atOnce fingerprints at a time. Cost: some 100 ns for a step with a fix.
func findShared(users map[string]*visits, stepMS int64, atOnce int) sharedFixes {
	names, fixes := slices.Sorted(maps.Keys(users)), 0
	for _, name := range names {
		fixes += 2 * len(users[name].records)
	}
	var found sharedFixes
	var list []signed
	slicesOf := uint64(1 + fixes/atOnce)
	for slice := range slicesOf {
		list = list[:0]
		for i, name := range names {
			for _, v := range users[name].records {
				first, last := fingerprint(v.step, stepMS, v.first),
					fingerprint(v.step, stepMS, v.last)
				if inSlice(first, slice, slicesOf) {
					list = append(list, signed{first, uint32(i)})
				}
				if last != first && inSlice(last, slice, slicesOf) {
					list = append(list, signed{last, uint32(i)})
				}
			}
		}
		found = append(found, inCommon(list)...)
	}
	return found
}

// inCommon sorts a list and returns the fingerprints that two users of it have, in ascending order.
func inCommon(list []signed) (shared sharedFixes) {
	slices.SortFunc(list, func(a, b signed) int {
		return cmp.Or(cmp.Compare(a.print, b.print), cmp.Compare(a.user, b.user))
	})
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; a.print == b.print && a.user != b.user {
			shared = append(shared, b.print)
		}
	}
	return slices.Compact(shared)
}

// inSlice says whether a number lies in one of so many equal slices of the 64-bit range.
func inSlice(x, slice, of uint64) bool {
	high, _ := bits.Mul64(x, of)
	return high == slice
}
