package tune

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// userDay is what one user reported on a day: the unit of a plan, whatever gaps it has.
type userDay struct {
	user  int // number among all users
	fixes []fix
	bins  int64 // with a fix
}

// user is one of those whose traces there are.
type user struct {
	name string
	days []userDay
	// fold is in which part of the users a choice is made on he is; -1: on him a choice is checked.
	fold int
}

// Of the users: how many are held out of a choice, in parts of all, and into how many folds the
// others fall.
const (
	heldShare    = .2
	fewestToHold = 5
	folds        = 3
)

// dayStarts is the local hour at which a day starts: most people are at rest.
const dayStarts = 4 * time.Hour

// errFewUsers says that nothing can be measured on others.
var errFewUsers = errors.New("tune: the traces in the box are of fewer than two users: " +
	"give thirty or more")

// fewestDays is how many days a sample has at least, where there are so many: one of an unbroken
// day in minutes has more bins than a first look asks for.
const fewestDays = 8

// sample returns days of the chosen users, chosen at random, with about so many bins together. A
// user with many days has many of them, as in the records that a service would publish.
func sample(users []user, chosen func(*user) bool, most int64, seed uint64) (days []userDay) {
	var all []userDay
	for i := range users {
		if u := &users[i]; chosen(u) {
			all = append(all, u.days...)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0x74726970)) // any second word: it names the stream
	random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	for _, d := range all {
		if most <= 0 && len(days) >= fewestDays {
			break
		}
		days = append(days, d)
		most -= d.bins
	}
	slices.SortFunc(days, func(a, b userDay) int {
		return cmp.Or(cmp.Compare(a.user, b.user),
			cmp.Compare(a.fixes[0].timeMS, b.fixes[0].timeMS))
	})
	return days
}
