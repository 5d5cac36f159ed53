package account

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
)

// Placement counts in which partitions users lie, and which partitioner explains it. It
// counts pairs of a user and a partition and not records: a thousand records of one user
// say as little as one.
type Placement struct {
	partitions int
	users      map[string][]int32 // the partitions in which a user was seen
	pairs      int
	misplaced  map[engine.Partitioner]int // of the pairs
	astray     map[engine.Partitioner]int // of the users, those with a misplaced pair
	// of the pairs: misplaced for the one, in place for the other
	strays map[[2]engine.Partitioner]int
	twice  int // users in more than one partition
}

// NewPlacement counts for a topic of that many partitions.
func NewPlacement(partitions int) *Placement {
	return &Placement{
		partitions: partitions, users: map[string][]int32{},
		misplaced: map[engine.Partitioner]int{}, astray: map[engine.Partitioner]int{},
		strays: map[[2]engine.Partitioner]int{},
	}
}

// Add takes a record of a partition.
func (p *Placement) Add(key []byte, partition int32) {
	seen := p.users[string(key)]
	if slices.Contains(seen, partition) {
		return
	}
	p.users[string(key)] = append(seen, partition)
	p.pairs++
	if len(seen) == 1 {
		p.twice++
	}
	home := func(by engine.Partitioner) int32 {
		place, _ := by.Partition(key, p.partitions)
		return place
	}
	in := func(by engine.Partitioner) bool { return home(by) == partition }
	for _, by := range engine.Partitioners() {
		if in(by) {
			continue
		}
		p.misplaced[by]++
		if len(seen) == 0 || len(seen) == 1 && seen[0] == home(by) {
			p.astray[by]++ // it is the user's first misplaced pair
		}
		for _, other := range engine.Partitioners() {
			if in(other) {
				p.strays[[2]engine.Partitioner{by, other}]++
			}
		}
	}
}

// leastMisplaced is how many misplaced users it takes before a topic as a whole is
// called misplaced. Where a thirtieth of a topic's users is misplaced and they come in
// no order, five of the first thirteen are, which is what it takes with four partitions,
// with a probability below (13 choose 5)/30⁵, 1 in 18 000.
const leastMisplaced = 5

// Mostly reports whether more than half of the users were placed by something else than
// a partitioner. Of n partitions one is right by chance: a topic that knows nothing of
// the partitioner has 1 - 1/n of its users misplaced, so half of that is the limit. With
// one partition nothing is ever misplaced.
func (p *Placement) Mostly(by engine.Partitioner) bool {
	wrong := p.misplaced[by]
	return wrong >= leastMisplaced && 2*p.partitions*wrong > (p.partitions-1)*p.pairs
}

// Likely is the partitioner that explains where the users lie, except for a tenth of them
// at most; ok is false if none does or two do, as with one partition or few users.
func (p *Placement) Likely() (by engine.Partitioner, ok bool) {
	for _, one := range engine.Partitioners() {
		if 10*p.misplaced[one] > p.pairs {
			continue
		}
		if ok {
			return "", false
		}
		by, ok = one, true
	}
	return by, ok
}

// Partitions is how many the topic has.
func (p *Placement) Partitions() int { return p.partitions }

// Users is how many users were seen.
func (p *Placement) Users() int { return len(p.users) }

// Twice is how many users were seen in more than one partition.
func (p *Placement) Twice() int { return p.twice }

// Misplaced is how many users a partitioner would have put elsewhere, in whole or in part.
func (p *Placement) Misplaced(by engine.Partitioner) int { return p.astray[by] }

// Advice says where the users lie and what to set, for users who mostly lie elsewhere
// than the configured partitioner puts them. It names no user. Where users have states
// by now, begun, another partitioner would move them away from their accounts of ε.
func (p *Placement) Advice(by engine.Partitioner, topic string, begun bool) string {
	found := fmt.Sprintf("%d of %d users in the records of %s that were looked at "+
		"are in another partition than topics.partitioner: %s puts them",
		p.astray[by], p.Users(), topic, by)
	likely, ok := p.Likely()
	if begun {
		lie := ""
		if ok && likely != by {
			lie = fmt.Sprintf("; these records lie where %s puts them", likely)
		}
		return found + lie + fmt.Sprintf(": 1. have the producers use %s; or 2. feed a new raw "+
			"topic with a group of its own. Another partitioner would start the accounts of users "+
			"who move at 0", by)
	}
	if !ok || likely == by {
		return found + fmt.Sprintf(". Have all producers use one partitioner, %s or %s, and feed "+
			"a new raw topic; or set topics.partitioner: %s if the producers make sure "+
			"that each user is in one partition", engine.Murmur2, engine.CRC32,
			engine.AnyPartitioner)
	}
	return found + fmt.Sprintf("; these records lie where %s puts them (%s): set "+
		"topics.partitioner: %s, or have the producers use %s and feed a new raw topic", likely,
		likely.Who(), likely, by)
}

// Explain says which partitioner puts the misplaced users where they are, if one does.
func (p *Placement) Explain(by engine.Partitioner) string {
	for _, other := range engine.Partitioners() {
		if p.strays[[2]engine.Partitioner{by, other}] == p.misplaced[by] {
			return string(other) + " (" + other.Who() + ") puts them there"
		}
	}
	return "no partitioner that is known puts all of them there"
}
