package fit

import (
	"math/rand/v2"
	"slices"
)

// clusterCount is how many trials a user has and how many of them hit.
type clusterCount struct{ n, hits int64 }

// Of the intervals: how many samples of users, and how much of them is cut off on each side.
const (
	bootstrapSamples = 1000
	bootstrapTail    = .025
)

// bootstrapShare returns where the share of hits lies with a confidence of 95 % for other users
// like these: the percentile interval over samples of as many users, drawn with replacement (the
// cluster bootstrap; Davison and Hinkley 1997, doi 10.1017/CBO9780511802843, sections 2.4 and 3.8).
// Steps of one user depend on each other, so an interval that took them for independent trials
// would be far too narrow. It is only as good as the number of users: a single one gives an
// interval of length 0, and fewer than about ten one that is too short. The same users and seed
// give the same interval. Cost: 1000 × users.
func bootstrapShare(users []clusterCount, seed uint64) (low, high float64) {
	bits := rand.New(rand.NewPCG(seed, 0x626f6f7473747261)) // any second word: it names the stream
	shares := make([]float64, 0, bootstrapSamples)
	for range bootstrapSamples {
		var n, hits int64
		for range users {
			u := users[bits.IntN(len(users))]
			n += u.n
			hits += u.hits
		}
		if n > 0 {
			shares = append(shares, float64(hits)/float64(n))
		}
	}
	if len(shares) == 0 {
		return 0, 0
	}
	slices.Sort(shares)
	last := float64(len(shares) - 1)
	return shares[int(bootstrapTail*last)], shares[int(float64((1-bootstrapTail)*last)+.5)]
}
