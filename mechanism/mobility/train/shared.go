package train

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// sharedFixes are the fingerprints, ascending, of fixes that two users report: one time to the millisecond and one place to 11 mm.
// Such fixes are one trace under two names, as 6.8 % of some users' are in Geolife: counted twice they weigh twice, and a user who
// is held out is in the model all the same.
//
// Looked at are the first and the last fix of each user's steps, which are all that training uses; those in between are not kept.
// A fingerprint has 64 bits: among 10⁸ fixes the chance that any two different ones share one is below 10⁻³, and what it
// costs is two steps of two users.
type sharedFixes []uint64

// has says whether a fix of a step is shared.
func (s sharedFixes) has(step, stepMS int64, p point) bool {
	if len(s) == 0 {
		return false
	}
	_, found := slices.BinarySearch(s, fingerprint(step, stepMS, p))
	return found
}

// fingerprint mixes time and place: for each place it is a bijection of time, and the other way round (Stafford's mix 13, as in
// Steele, Lea and Flood 2014, doi:10.1145/2714064.2660195).
func fingerprint(step, stepMS int64, p point) uint64 {
	return mix(mix(uint64(uint32(p.lat))<<32|uint64(uint32(p.lon))) + uint64(step*stepMS+int64(p.ms)))
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// signed is a fingerprint and whose it is.
type signed struct {
	print uint64
	user  uint32
}

// signedAtOnce bounds the memory of findShared, 16 bytes each: more fingerprints than that are looked at in slices.
const signedAtOnce = 1 << 23

// findShared goes through all users' fixes, once for each slice of the range of fingerprints. Cost: some 100 ns a step with a fix.
func (t *Trainer) findShared(atOnce int) sharedFixes {
	names, fixes := slices.Sorted(maps.Keys(t.users)), 0
	for _, name := range names {
		fixes += 2 * len(t.users[name].records)
	}
	var found sharedFixes
	var list []signed
	slicesOf := uint64(1 + fixes/atOnce)
	for slice := range slicesOf {
		list = list[:0]
		for i, name := range names {
			for _, v := range t.users[name].records {
				first, last := fingerprint(v.step, t.stepMS, v.first), fingerprint(v.step, t.stepMS, v.last)
				if inSlice(first, slice, slicesOf) {
					list = append(list, signed{first, uint32(i)})
				}
				if last != first && inSlice(last, slice, slicesOf) {
					list = append(list, signed{last, uint32(i)})
				}
			}
		}
		slices.SortFunc(list, func(a, b signed) int { return cmp.Or(cmp.Compare(a.print, b.print), cmp.Compare(a.user, b.user)) })
		for i := 1; i < len(list); i++ {
			if a, b := list[i-1], list[i]; a.print == b.print && a.user != b.user && (len(found) == 0 || found[len(found)-1] != b.print) {
				found = append(found, b.print)
			}
		}
	}
	return found
}

// inSlice says whether a number lies in one of so many equal slices of the 64-bit range.
func inSlice(x, slice, of uint64) bool {
	high, _ := bits.Mul64(x, of)
	return high == slice
}
