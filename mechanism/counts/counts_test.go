package counts

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/noise"
)

// fix is one fix of a log.
type fix struct {
	user string
	ms   int64
	lon  float64
}

// rule says which windows and zones a fix counts in, of a log in its order. The tests plant others.
type rule struct {
	perDay  int
	windows func(ms int64) []windowOf // one, or none; a broken rule may return two
	zones   func(lat, lon float64) []int32
	sliding bool // windows of the day before count for the cap too
}

// windowOf is a window by its day and its index on it.
type windowOf struct {
	day   int
	index uint16
}

// counter has two days of windows of six hours and two zones.
type counter struct {
	days  [][]Window
	zones *Zones
}

func newCounter(t *testing.T) counter {
	t.Helper()
	plan, err := NewPlan("UTC", 6*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	days, err := plan.Between(20000, 20001)
	if err != nil {
		t.Fatal(err)
	}
	return counter{days, areas(t, square("west", 0, 1), square("east", 1, 2))}
}

// sound is the rule of this package.
func (c counter) sound(perDay int) rule {
	return rule{
		perDay: perDay,
		windows: func(ms int64) []windowOf {
			for day := range c.days {
				for i, w := range c.days[day] {
					if (Admission{}).Admits(w, ms, ms) {
						return []windowOf{{day, uint16(i)}}
					}
				}
			}
			return nil
		},
		zones: func(lat, lon float64) []int32 { return []int32{c.zones.Of(lat, lon)} },
	}
}

// published is what a rule publishes of a log, with all noise equal: what two logs differ by.
func (c counter) published(t *testing.T, r rule, log []fix) (all []int64) {
	t.Helper()
	counters := [2]map[string]*Counter{{}, {}}
	extra := [2]map[windowOf][]int32{{}, {}} // of broken rules
	for _, f := range log {
		for _, at := range r.windows(f.ms) {
			user := counters[at.day][f.user]
			if user == nil {
				user = new(Counter)
				counters[at.day][f.user] = user
			}
			most := r.perDay
			if before := counters[0][f.user]; r.sliding && at.day == 1 && before != nil {
				most -= len(before.Visits())
			}
			if len(user.Visits()) >= most && r.sliding {
				continue
			}
			zones := r.zones(.5, f.lon)
			if user.Next(at.index, zones[0], most) {
				extra[at.day][at] = append(extra[at.day][at], zones[1:]...)
			}
		}
	}
	streams := constant{}
	p, err := NewPublisher(streams, c.zones,
		Settings{Source: "test", Edition: 1, Epsilon: 1, PerDay: r.perDay})
	if err != nil {
		t.Fatal(err)
	}
	for day, windows := range c.days {
		tally := Tally(len(windows), c.zones.Count(), maps.Values(counters[day]))
		for i, w := range windows {
			for _, zone := range extra[day][windowOf{day, uint16(i)}] {
				tally[i][zone]++
			}
			out, err := p.Publish(w, tally[i], nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, out.Vehicles...)
		}
	}
	return all
}

// constant gives every transcript the same words.
type constant struct{}

func (constant) On(noise.Day, []byte) (noise.Source, error) {
	return rand.New(rand.NewPCG(1, 2)), nil
}

func l1(a, b []int64) (sum int64) {
	for i := range a {
		sum += max(a[i]-b[i], b[i]-a[i])
	}
	return sum
}

// differences compares a rule's publications of pairs of neighbouring small logs, and returns what
// exceeds the theorem for a cap of perDay. One user has two or three fixes on the first day, in all
// orders of four times, on borders of windows and within, and of three places, and two fixes on the
// second day. Another user has fixes before and after.
func (c counter) differences(t *testing.T, r rule, perDay int64) (broken []string) {
	t.Helper()
	start := c.days[0][0].StartMS
	var choices []fix
	for _, hour := range []int64{0, 6, 9, 18} {
		for _, lon := range []float64{.5, 1, 7} {
			choices = append(choices, fix{"a", start + hour*3600_000, lon})
		}
	}
	others := []fix{{"b", start + 1, 1.5}, {"b", start + 7*3600_000, .5}}
	next := []fix{{"a", start + dayMS, .5}, {"a", start + dayMS + 8*3600_000, 1.5}}
	full := func(part []fix) []int64 {
		return c.published(t, r, slices.Concat(others[:1], part, others[1:], next))
	}
	complain := func(kind string, most int64, a, b []int64) {
		if got := l1(a, b); got > most {
			broken = append(broken, fmt.Sprintf("%s: %d differ, at most %d", kind, got, most))
		}
	}
	none, whole := full(nil), full([]fix{choices[0], choices[5]})
	for i := range choices {
		for j := range choices {
			for k := -1; k < len(choices); k += 5 {
				log := []fix{choices[i], choices[j]}
				if k >= 0 {
					log = append(log, choices[k])
				}
				all := full(log)
				complain("a day removed", perDay, all, none)
				complain("another day", 2*perDay, all, whole)
				complain("a part removed", 2*perDay, all, full(log[:1]))
				complain("a part removed", 2*perDay, all, full(log[1:]))
				moved := slices.Clone(log)
				moved[1].lon = 1.5
				complain("a fix moved", 2, all, full(moved))
				if k >= 0 {
					complain("a fix removed", 2, all, full(log[:2]))
				}
			}
		}
	}
	return broken
}

// TestSensitivity: neighbouring logs differ by what the theorem says, and no less is true.
func TestSensitivity(t *testing.T) {
	c := newCounter(t)
	for perDay := 1; perDay <= 3; perDay++ {
		for _, broken := range c.differences(t, c.sound(perDay), int64(perDay)) {
			t.Fatalf("%d a day: %s", perDay, broken)
		}
		start := c.days[0][0].StartMS
		var log []fix
		for hour := range int64(24) {
			log = append(log, fix{"a", start + hour*3600_000, .5})
		}
		busy, none := c.published(t, c.sound(perDay), log), c.published(t, c.sound(perDay), nil)
		if got := l1(busy, none); got != int64(perDay) {
			t.Errorf("%d a day: a busy day adds %d counts", perDay, got)
		}
	}
}

// TestOneFix: another place of one fix changes two counts at most, and another time four, and no
// more than the cap allows. It compares all days of three fixes at five times and two places.
func TestOneFix(t *testing.T) {
	c := newCounter(t)
	start := c.days[0][0].StartMS
	var choices []fix
	for _, hour := range []int64{0, 3, 6, 9, 12} {
		for _, lon := range []float64{.5, 1.5} {
			choices = append(choices, fix{"a", start + hour*3600_000, lon})
		}
	}
	published := map[[3]int][]int64{}
	publish := func(perDay int, of [3]int) []int64 {
		slices.Sort(of[:])
		if published[of] == nil {
			log := []fix{choices[of[0]], choices[of[1]], choices[of[2]]}
			published[of] = c.published(t, c.sound(perDay), log)
		}
		return published[of]
	}
	for perDay, want := range map[int][2]int64{1: {2, 2}, 2: {2, 4}, 3: {2, 4}} {
		clear(published)
		var place, later int64
		n := len(choices)
		for i := range n * n * n {
			of := [3]int{i % n, i / n % n, i / n / n}
			for to := range choices {
				moved := [3]int{to, of[1], of[2]}
				far := l1(publish(perDay, of), publish(perDay, moved))
				if later = max(later, far); choices[to].ms == choices[of[0]].ms {
					place = max(place, far)
				}
			}
		}
		if got := [2]int64{place, later}; got != want {
			t.Errorf(
				"%d a day: a fix in another place moves %d counts, at another time %d, want %d",
				perDay,
				place,
				later,
				want,
			)
		}
	}
}

// TestSensitivityNoticesFaults: the comparison finds what breaks the bound.
func TestSensitivityNoticesFaults(t *testing.T) {
	c := newCounter(t)
	for name, plant := range map[string]func(*rule){
		"a sliding cap": func(r *rule) { r.sliding = true },
		"a user counted twice at a window's border": func(r *rule) {
			sound := r.windows
			r.windows = func(ms int64) []windowOf { return slices.Concat(sound(ms), sound(ms-1)) }
		},
		"overlapping zones": func(r *rule) {
			r.zones = func(_, lon float64) []int32 {
				if lon == 1 {
					return []int32{0, 1}
				}
				return []int32{c.zones.Of(.5, lon)}
			}
		},
		"windows that a fix alone does not decide": func(r *rule) {
			sound, latest := r.windows, int64(0)
			r.windows = func(ms int64) []windowOf { // a watermark of all users makes others late
				if latest = max(latest, ms); ms < latest-5*3600_000 {
					return nil
				}
				return sound(ms)
			}
		},
		"a cap off by one": func(r *rule) { r.perDay++ },
	} {
		r := c.sound(1)
		if plant(&r); len(c.differences(t, r, 1)) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestCounterIgnoresOrder: the visits are those of the first fix of each of the earliest windows,
// in whichever order and parts the fixes are taken.
func TestCounterIgnoresOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		perDay := 1 + random.IntN(4)
		fixes := make([]Visit, random.IntN(20))
		for i := range fixes {
			order := uint32(random.IntN(40))
			fixes[i] = Visit{order, uint16(order / 8), int32(random.IntN(3))}
		}
		var want []Visit
		for _, v := range slices.SortedFunc(slices.Values(fixes), Visit.compare) {
			if n := len(want); n < perDay && (n == 0 || want[n-1].Window != v.Window) {
				want = append(want, v)
			}
		}
		var one, other Counter
		for i, v := range fixes {
			if i%3 == 0 {
				one.Take(v, perDay)
			} else {
				other.Take(v, perDay)
			}
		}
		one.Merge(&other, perDay)
		if !slices.Equal(one.Visits(), want) {
			t.Fatalf("%v gave %v, want %v", fixes, one.Visits(), want)
		}
	}
}

// TestNext: in a log, a fix counts or not whatever comes later.
func TestNext(t *testing.T) {
	var c Counter
	for i := range 9 {
		counted := c.Next(uint16(i/2*300), int32(i), 4)
		if want := i%2 == 0 && i < 8; counted != want {
			t.Errorf("fix %d counted: %v", i, counted)
		}
	}
}

// TestAdmission: a fix counts by its own two times.
func TestAdmission(t *testing.T) {
	w, a := Window{StartMS: 1000, EndMS: 2000}, Admission{GraceMS: 50, MaxAheadMS: 20}
	for _, c := range []struct {
		event, appended int64
		want            bool
	}{
		{1000, 1000, true},
		{999, 1000, false},
		{1999, 2050, true},
		{1999, 2051, false},
		{2000, 2000, false},
		{1500, 1480, true},
		{1500, 1479, false},
	} {
		if a.Admits(w, c.event, c.appended) != c.want {
			t.Errorf("a fix of %d, appended at %d: %v", c.event, c.appended, !c.want)
		}
	}
}

// TestVariation holds the distance against cases by hand.
func TestVariation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}, 0},
		{[]float64{4, 3, 2, 1}, []float64{1, 2, 3, 4}, .4},
		{[]float64{2, 0, 0, 0}, []float64{0, 5, 0, 0}, 1},
		{[]float64{0, 0, 0, 0}, []float64{0, 5, 0, 1}, 1},
		{[]float64{1, 1, 2, 0}, []float64{2, 2, 4, 0}, 0},
	} {
		if got := Variation(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v and %v: a variation of %g, want %g", c.a, c.b, got, c.want)
		}
	}
}
