package trial

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism/mobility"
)

// Unit returns a user's number in [0, 1): uniform over users, and independent for different salts.
// A split of users by this number is the same for any order or selection of their traces.
func Unit(user string, salt uint64) float64 {
	sum := sha256.Sum256(
		append(binary.BigEndian.AppendUint64([]byte("geodither split "), salt), user...))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// segments are the least lengths of a track that are tried where the options leave it open: most
// of the time a filter needs to find somebody at a weak ε, and shorter ones where there is too
// little of that.
var segments = []int{60, 30, 15, 8, 4, 2}

// enoughSteps are enough to measure on.
const enoughSteps = 1000

// shortest returns the least length of a track that is measured where nobody has chosen it: the
// longest of which enough users have enough steps.
func shortest(tracks iter.Seq[mobility.Track]) int {
	users, steps := make([]map[string]bool, len(segments)), make([]int, len(segments))
	for i := range users {
		users[i] = map[string]bool{}
	}
	for t := range tracks {
		for i, least := range segments {
			if len(t.Cells) >= least {
				users[i][t.User] = true
				steps[i] += len(t.Cells)
			}
		}
	}
	for i, least := range segments {
		if len(users[i]) >= enoughUsers && steps[i] >= enoughSteps {
			return least
		}
	}
	return segments[len(segments)-1]
}

// gather returns the tracks that are measured, in memory of their own, sorted by user, and the
// least length of one. Tracks of one user keep their order.
func gather(tracks iter.Seq[mobility.Track], o FitOptions) ([]mobility.Track, int) {
	if o.MinSegment < 1 {
		o.MinSegment = shortest(tracks)
	}
	var held []mobility.Track
	for t := range tracks {
		if len(t.Cells) >= o.MinSegment {
			t.Cells, t.Steps = slices.Clone(t.Cells), slices.Clone(t.Steps)
			held = append(held, t)
		}
	}
	slices.SortStableFunc(
		held, func(a, b mobility.Track) int { return cmp.Compare(a.User, b.User) },
	)
	if o.EveryFix {
		renumber(held)
	}
	return atMost(held, o), o.MinSegment
}

// renumber counts the steps of each track one by one, from the track's first step or from the end
// of the user's track before it if that is later. Noise belongs to a user and a step, so no two
// places may share a step.
func renumber(held []mobility.Track) {
	for i, t := range held {
		first := t.Steps[0]
		if i > 0 && held[i-1].User == t.User {
			before := held[i-1].Steps
			first = max(first, before[len(before)-1]+1)
		}
		for j := range t.Steps {
			t.Steps[j] = first + int64(j)
		}
	}
}

// atMost cuts users to a common limit of steps, on tracks that are chosen at random. Then at most
// o.MaxSteps are left and no user has more than all others together: figures are means over steps,
// and that user would determine them. If not even MinSegment steps of each user fit, it keeps as
// many users as fit, at least one, chosen at random.
func atMost(held []mobility.Track, o FitOptions) (kept []mobility.Track) {
	var users [][]mobility.Track
	totals := map[string]int64{}
	all, most := int64(0), int64(0)
	for i, t := range held {
		if i == 0 || t.User != held[i-1].User {
			users = append(users, nil)
		}
		last := len(users) - 1
		users[last] = append(users[last], t)
		totals[t.User] += int64(len(t.Cells))
		all, most = all+int64(len(t.Cells)), max(most, totals[t.User])
	}
	limit := most
	if o.MaxSteps > 0 && all > o.MaxSteps {
		room := max(o.MaxSteps/int64(o.MinSegment), 1)
		slices.SortFunc(users, func(a, b []mobility.Track) int {
			return cmp.Compare(Unit(a[0].User, o.Seed), Unit(b[0].User, o.Seed))
		})
		users = users[:min(room, int64(len(users)))]
		limit = o.MaxSteps / int64(len(users))
	}
	if others := all - most; others > 0 {
		limit = min(limit, others)
	}
	for _, tracks := range users {
		kept = append(kept, some(tracks, max(limit, int64(o.MinSegment)), o)...)
	}
	slices.SortStableFunc(
		kept, func(a, b mobility.Track) int { return cmp.Compare(a.User, b.User) },
	)
	return kept
}

// some returns tracks of one user with at most limit steps together, chosen at random, in their
// order. The last one chosen is cut short, if enough of it is left.
func some(tracks []mobility.Track, limit int64, o FitOptions) []mobility.Track {
	total := int64(0)
	for _, t := range tracks {
		total += int64(len(t.Cells))
	}
	if total <= limit {
		return tracks
	}
	sum := sha256.Sum256([]byte(tracks[0].User))
	order := rand.New(rand.NewPCG(o.Seed, binary.BigEndian.Uint64(sum[:]))).Perm(len(tracks))
	keep := make([]int64, len(tracks))
	for _, i := range order {
		n := min(int64(len(tracks[i].Cells)), limit)
		if n < int64(o.MinSegment) {
			break
		}
		keep[i] = n
		limit -= n
	}
	var kept []mobility.Track
	for i, t := range tracks {
		if n := keep[i]; n > 0 {
			t.Cells, t.Steps = t.Cells[:n], t.Steps[:n]
			kept = append(kept, t)
		}
	}
	return kept
}
