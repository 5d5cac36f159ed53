package counting

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
)

// line is how a log becomes counts: by both processors, and with what a test does on the way.
type line struct {
	settings func(s *Settings)                       // of the processors
	harm     func(i int, w *worker)                  // before a record
	restored bool                                    // processors are restored between records
	appended func(f fix) int64                       // what a broker takes for the time
	passed   passed                                  // default: soon
	name     func(startMS int64, zone string) string // of a count
	misplace func(f fix, at int32) (other int32)     // where a record lies
	// leaves says that a number is left out, by the true counts of its window and of its zone.
	leaves func(window, zone int64) bool
}

// counts are the published numbers of a log, read from the bytes of both topics. The noise of two
// logs is the same, so that they differ by what their true counts differ by.
func (l line) counts(t *testing.T, s Settings, log []fix) map[string]int64 {
	t.Helper()
	if l.settings != nil {
		l.settings(&s)
	}
	totals, err := NewTotals(s, noise.KeyFromSeed(1), encodeText)
	if err != nil {
		t.Fatal(err)
	}
	if err := totals.Restored(nil); err != nil {
		t.Fatal(err)
	}
	w := &worker{states: map[string][]byte{}}
	windows, zones := map[int64]int64{}, map[string]int64{} // true counts
	when := l.passed
	if when == nil {
		when = soon
	}
	for at, part := range l.parts(log) {
		for _, m := range partialsOf(t, s, int32(at), part, when, l.restored, l.harm) {
			p := read(t, m.Value)
			for _, c := range p.counts {
				windows[p.startMS] += c.count
				zones[fmt.Sprint(p.startMS, " ", s.Zones.Name(c.zone))] += c.count
			}
			err := w.process(t, totals, m.Key, task.Record{Key: m.Key, Value: m.Value})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	all := map[string]int64{}
	for _, m := range w.output {
		var start, vehicles int64
		var zone string
		text := strings.Replace(string(m.Value), "|", " ", 1)
		if _, err := fmt.Sscan(text, &start, &zone, &vehicles); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		id := fmt.Sprint(start, " ", zone)
		if l.leaves != nil && l.leaves(windows[start], zones[id]) {
			continue
		}
		if l.name != nil {
			id = l.name(start, zone)
		}
		all[id] += vehicles
	}
	return all
}

// parts gives each record to a partition.
func (l line) parts(log []fix) (parts [partitions][]fix) {
	if l.appended != nil {
		log = slices.Clone(log)
		for i := range log {
			log[i].append = l.appended(log[i])
		}
	}
	if l.misplace == nil {
		return byPartition(log)
	}
	for _, f := range log {
		at, _ := engine.Murmur2.Partition([]byte(f.user), partitions)
		to := l.misplace(f, at)
		parts[to] = append(parts[to], f)
	}
	return parts
}

// differ says how two logs' counts differ: in one number, in all numbers of all days, and whether
// the one has a number that the other lacks.
func differ(a, b map[string]int64) (one, all int64, missing bool) {
	for name := range a {
		_, both := b[name]
		d := max(a[name]-b[name], b[name]-a[name])
		missing = missing || !both
		one, all = max(one, d), all+d
	}
	return one, all, missing || len(a) != len(b)
}

// worst compares logs with their neighbours: each user's each day is removed. It also removes parts
// of a day. The result is what breaks the theorem for the settings, and whether the bound is
// reached.
func (l line) worst(t *testing.T, s Settings, seeds uint64) (broken string, reached bool) {
	t.Helper()
	most := int64(s.PerDay)
	for seed := range seeds {
		log := fixesOf(s, seed)
		all := l.counts(t, s, log)
		for user := range 6 {
			for d := range counts.Date(2) {
				of := func(f fix) bool {
					return f.user == name(user) && s.Plan.At(f.eventMS).Day == s.First+d
				}
				without := slices.DeleteFunc(slices.Clone(log), of)
				one, sum, missing := differ(all, l.counts(t, s, without))
				n := 0
				part := slices.DeleteFunc(slices.Clone(log), func(f fix) bool {
					if of(f) {
						n++
					}
					return of(f) && n%2 == 0
				})
				_, partly, _ := differ(all, l.counts(t, s, part))
				reached = reached || sum == most
				if one > 1 || sum > most || partly > 2*most || missing {
					return fmt.Sprintf("seed %d, user %d, day %d: %d and %d, a part %d, missing %v",
						seed, user, d, one, sum, partly, missing), reached
				}
			}
		}
	}
	return "", reached
}

// eraseAll erases all users and lets them come back.
func eraseAll(e task.Eraser) func(int, *worker) {
	return func(i int, w *worker) {
		for user, state := range w.states {
			if i%5 != 0 {
				continue
			}
			kept, _ := e.Erase(task.Request{Key: []byte(user)}, int64(i), state, nil)
			if state, _, _ = e.Recall(slices.Clone(kept)); len(state) == 0 {
				delete(w.states, user)
			}
		}
	}
}

// sliding makes windows of the day before count for the cap: a user's next day has windows that no
// clock shows, as many as the user has counted in on the day before.
func sliding(t *testing.T) func(int, *worker) {
	t.Helper()
	const none = 1000 // no day has so many windows of an hour
	counted := map[string]map[counts.Date]int{}
	return func(i int, w *worker) {
		if i == 0 {
			clear(counted)
		}
		for id, state := range w.states {
			user, err := decodeUser(state)
			if err != nil {
				t.Fatal(err)
			}
			if counted[id] == nil {
				counted[id] = map[counts.Date]int{}
			}
			for d := range user {
				day := &user[d]
				day.windows = slices.DeleteFunc(day.windows, func(window uint16) bool {
					return window >= none
				})
				counted[id][day.date] = len(day.windows)
				for n := range counted[id][day.date-1] {
					day.windows = append(day.windows, none+uint16(n))
				}
			}
			w.states[id] = user.appendTo(nil)
		}
	}
}

// ahead is the clock of a broker that is hours ahead at times.
func ahead(f fix) int64 {
	if f.eventMS%5 == 0 {
		return f.append + 5*3_600_000
	}
	return f.append
}

// TestSensitivity: over two days with midnights and the hour that clocks show twice, a user's whole
// day changes at most PerDay published numbers, each by one, and a part of it at most twice as
// many. So the log of the ratio of chances is at most PerDay · ε/PerDay = ε, and the bound is
// reached. The names of all numbers are those of every neighbour.
func TestSensitivity(t *testing.T) {
	s := testSettings(t)
	for name, l := range map[string]line{
		"nothing else":                {},
		"restored between records":    {restored: true},
		"users are erased on the way": {harm: eraseAll(new(Eraser))},
		"a broker's clock is ahead":   {appended: ahead},
		"every third record lies in another partition": {
			misplace: func(f fix, at int32) int32 {
				return (at + int32(f.eventMS%3/2)) % partitions
			},
		},
	} {
		if broken, reached := l.worst(t, s, 3); broken != "" || !reached {
			t.Errorf("%s: %s; the bound is reached: %v", name, broken, reached)
		}
	}
}

// TestSensitivityNoticesFaults: the same comparison finds each planted fault.
func TestSensitivityNoticesFaults(t *testing.T) {
	s := testSettings(t)
	clock := func(ms int64) string {
		zone, err := time.LoadLocation(s.Plan.Zone())
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(ms).In(zone).Format("2006-01-02T15")
	}
	for name, l := range map[string]line{
		"a user counted again after a rebalance": {harm: func(i int, w *worker) {
			if i%10 == 0 {
				clear(w.states)
			}
		}},
		"a user counted again after an erasure": {harm: eraseAll(new(forgetful))},
		"a sliding cap":                         {harm: sliding(t)},
		"a record that closes windows for others": {
			appended: ahead, passed: func(rest []fix) int64 { return rest[0].append },
		},
		"a cap off by one": {settings: func(s *Settings) { s.PerDay++ }},
		"a user counted twice in the doubled hour": {
			name: func(startMS int64, zone string) string {
				if hour := clock(startMS); hour == "2026-10-25T01" {
					return fmt.Sprint(s.Plan.Windows(s.First + 1)[1].StartMS, " ", zone)
				}
				return fmt.Sprint(startMS, " ", zone)
			},
		},
		"an empty window missing": {leaves: func(window, _ int64) bool { return window == 0 }},
		"an empty zone missing":   {leaves: func(_, zone int64) bool { return zone == 0 }},
	} {
		if broken, _ := l.worst(t, s, 6); broken == "" {
			t.Errorf("%s is not found", name)
		} else {
			t.Logf("%s: %s", name, broken)
		}
	}
}
