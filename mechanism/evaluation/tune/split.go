package tune

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/fit"
)

// trip is a stretch of a user's fixes that the filter follows from its beginning.
type trip struct {
	user  int // number among all users
	fixes []fix
	bins  int64 // with a fix
}

// user is one of those whose traces there are.
type user struct {
	name  string
	trips []trip
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

// errFewUsers says that nothing can be measured on others.
var errFewUsers = errors.New("tune: the traces in the box are of fewer than two users: errors " +
	"are measured on users that a model was not trained on, so that it takes two at least, and " +
	"better thirty")

// split divides the users at random: who is in which part belongs to a user's name and the seed,
// not to the order of the traces.
func split(f *Fixes, restart time.Duration, seed uint64) ([]user, error) {
	var users []user
	for name := range f.users {
		users = append(users, user{name: name})
	}
	unit := map[string]float64{}
	for _, u := range users {
		unit[u.name] = fit.Unit(u.name, seed)
	}
	slices.SortFunc(users, func(a, b user) int {
		return cmp.Or(cmp.Compare(unit[a.name], unit[b.name]), cmp.Compare(a.name, b.name))
	})
	if len(users) < 2 {
		return nil, errFewUsers
	}
	held := 0
	if len(users) >= fewestToHold {
		held = int(heldShare*float64(len(users)) + .5)
	}
	for i := range users {
		u := &users[i]
		u.fold = -1
		if i >= held {
			u.fold = (i - held) % min(folds, len(users)-held)
		}
		u.trips = f.trips(i, u.name, restart)
	}
	return users, nil
}

// trips cuts a user's fixes where a filter of any step would start again.
func (f *Fixes) trips(number int, name string, restart time.Duration) (trips []trip) {
	fixes := f.thinned(name)
	from := 0
	for i := range fixes {
		if i+1 == len(fixes) || fixes[i+1].timeMS-fixes[i].timeMS > restart.Milliseconds() {
			trips = append(trips, trip{
				user: number, fixes: fixes[from : i+1], bins: f.bins(fixes[from : i+1]),
			})
			from = i + 1
		}
	}
	return trips
}

// sample returns whole trips of the chosen users, chosen at random, with about so many bins
// together. A user with many trips has many of them, as in the records that a service would
// publish. Only a limit cuts a trip: a filter takes a while to locate a user, and pieces of trips
// would show little else.
func sample(users []user, chosen func(*user) bool, most, limit int64, seed uint64) (trips []trip) {
	var all []trip
	for i := range users {
		if u := &users[i]; chosen(u) {
			all = append(all, u.trips...)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0x74726970)) // any second word: it names the stream
	random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	for _, t := range all {
		if most <= 0 {
			break
		}
		trips = append(trips, t.cut(min(most, limit)))
		most -= trips[len(trips)-1].bins
	}
	slices.SortFunc(trips, func(a, b trip) int {
		return cmp.Or(cmp.Compare(a.user, b.user),
			cmp.Compare(a.fixes[0].timeMS, b.fixes[0].timeMS))
	})
	return trips
}

// cut returns the beginning of a trip that is too long: bins hold one to three fixes, and the share
// of them is near enough.
func (t trip) cut(bins int64) trip {
	if t.bins > bins {
		t.fixes = t.fixes[:max(1, int64(len(t.fixes))*bins/t.bins)]
		t.bins = bins
	}
	return t
}
