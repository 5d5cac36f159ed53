package counts

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/noise"
)

func weekdays(t *testing.T, text string) hours.Days {
	t.Helper()
	days, err := hours.ParseDays(text)
	if err != nil {
		t.Fatal(err)
	}
	return days
}

func typical(t *testing.T, p *Plan, from, to, days string, without ...Date) *Typical {
	t.Helper()
	typical, err := p.Typical(date(t, from), date(t, to), weekdays(t, days), without)
	if err != nil {
		t.Fatal(err)
	}
	return typical
}

// TestTypicalDays: which days and slots there are follows from the calendar.
func TestTypicalDays(t *testing.T) {
	for _, c := range []struct {
		zone, from, to, days string
		length               time.Duration
		without              string
		want                 int
		slots                string // start in hours, and windows
	}{
		{"UTC", "2026-11-01", "2026-12-01", "mon-fri", 12 * time.Hour, "", 21, "0:21 12:21"},
		{
			"UTC", "2026-11-01", "2026-12-01", "mon-fri", 12 * time.Hour, "2026-11-02", 20,
			"0:20 12:20",
		},
		{"UTC", "2026-11-01", "2026-12-01", "", 24 * time.Hour, "2026-12-01", 30, "0:30"},
		{ // the clock goes back at 02:00, and the hour from 01:00 is apart
			"Europe/London", "2026-10-24", "2026-10-26", "sat,sun", 6 * time.Hour, "", 2,
			"0:3 6:2 12:2 18:2",
		},
		{"Europe/London", "2026-03-29", "2026-03-30", "", time.Hour, "", 1, ""}, // no 01:00
		{"Australia/Lord_Howe", "2026-04-05", "2026-04-06", "", 12 * time.Hour, "", 1, "0:2 12:1"},
		{"Pacific/Apia", "2011-12-29", "2012-01-01", "", 24 * time.Hour, "", 2, "0:2"},
	} {
		p, without := plan(t, c.zone, c.length), []Date(nil)
		if c.without != "" {
			without = append(without, date(t, c.without))
		}
		got := typical(t, p, c.from, c.to, c.days, without...)
		text, windows := []string{}, 0
		for _, s := range got.Slots {
			text = append(text, fmt.Sprintf("%d:%d", s.StartMS/3600_000, s.Windows))
			windows += s.Windows
		}
		all := 0
		for _, day := range got.Days {
			all += len(day)
		}
		if len(got.Days) != c.want || windows != all ||
			c.slots != "" && strings.Join(text, " ") != c.slots {
			t.Errorf("%+v: %d days, slots %v, %d windows of %d", c, len(got.Days), text, windows,
				all)
		}
	}
	p := plan(t, "UTC", time.Hour)
	_, err := p.Typical(date(t, "2026-11-02"), date(t, "2026-11-07"), weekdays(t, "sun"), nil)
	if err == nil {
		t.Error("a range without a Sunday has a typical Sunday")
	}
}

// period is three days with two zones, and how a typical day of them is published. The tests plant
// other ways.
type period struct {
	plan    *Plan
	typical *Typical
	zones   *Zones
	perDay  int

	capOfPeriod   bool             // one cap for all days
	daysOf        func([]fix) bool // says of a log that its last day is left out
	reportingDays bool             // D is the number of days with reports
}

// published returns the sums plus the same noise for all logs, and what is public beside them.
func (c period) published(t *testing.T, log []fix) (all []int64, public string) {
	t.Helper()
	days := c.typical
	if c.daysOf != nil && c.daysOf(log) {
		shorter := *days
		shorter.Days = days.Days[:len(days.Days)-1]
		days = &shorter
	}
	users, taken := make([]map[string]*Counter, len(days.Days)), map[string]int{}
	reporting := map[int]bool{}
	for i := range users {
		users[i] = map[string]*Counter{}
	}
	for _, f := range log {
		w := c.plan.At(f.ms)
		at := slices.IndexFunc(days.Days, func(day []Window) bool { return day[0].Day == w.Day })
		if at < 0 {
			continue
		}
		reporting[at] = true
		user := users[at][f.user]
		if user == nil {
			user = new(Counter)
			users[at][f.user] = user
		}
		index, _ := Index(days.Days[at], w.StartMS)
		most := c.perDay
		if c.capOfPeriod {
			most = len(user.Visits()) + c.perDay*len(days.Days) - taken[f.user]
		}
		if most > 0 && user.Next(uint16(index), c.zones.Of(.5, f.lon), most) {
			taken[f.user]++
		}
	}
	if c.reportingDays {
		shorter := *days
		shorter.Days = days.Days[:len(reporting)]
		days = &shorter
	}
	sums := days.Sums(c.zones)
	for i, day := range c.typical.Days[:len(users)] {
		days.Add(sums, c.plan, day, Tally(len(day), c.zones.Count(), maps.Values(users[i])))
	}
	settings := Settings{Source: "test", Edition: 1, Epsilon: 1, PerDay: c.perDay}
	p, err := NewTypical(constant{}, c.zones, settings, days)
	if err != nil {
		t.Fatal(err)
	}
	public = fmt.Sprint(len(days.Days), p.HalfWidth())
	for i, slot := range days.Slots {
		out, err := p.PublishSlot(slot, sums[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		public += fmt.Sprint(out.Window, out.Windows)
		all = append(all, out.Vehicles...)
	}
	return all, public
}

// neighbours compares what is published of all logs of at most three fixes of a user, at four times
// on each of three days, two of which are close to a midnight. It returns what exceeds the theorem.
func (c period) neighbours(t *testing.T, perDay int64) (broken string) {
	t.Helper()
	var choices []fix
	for _, day := range c.typical.Days {
		start, end := day[0].StartMS, day[len(day)-1].EndMS
		for i, ms := range []int64{start, start + 90*60_000, start + 13*3600_000, end - 1} {
			choices = append(choices, fix{"a", ms, .5 + float64(i%2)})
		}
	}
	dayOf := func(f fix) Date { return c.plan.At(f.ms).Day }
	others := []fix{{"b", choices[1].ms, 1.5}}
	complain := func(kind string, most int64, a, b []fix) {
		if broken != "" {
			return
		}
		order := func(x, y fix) int { return int(max(-1, min(1, x.ms-y.ms))) }
		slices.SortFunc(a, order)
		slices.SortFunc(b, order)
		one, public := c.published(t, slices.Concat(others, a))
		other, same := c.published(t, slices.Concat(others, b))
		if far := int64(0); public != same || len(one) != len(other) {
			broken = kind + ": what is public differs"
		} else if far = l1(one, other); far > most {
			broken = fmt.Sprintf("%s: %d differ, at most %d", kind, far, most)
		}
	}
	d := int64(len(c.typical.Days))
	n := len(choices)
	for i := range n * n * n {
		log := []fix{choices[i%n], choices[i/n%n], choices[i/n/n]}
		on := dayOf(log[0])
		without := slices.DeleteFunc(slices.Clone(log), func(f fix) bool { return dayOf(f) == on })
		complain("all days removed", d*perDay, slices.Clone(log), nil)
		complain("a day removed", perDay, slices.Clone(log), without)
		complain("a part of a day removed", 2*perDay, slices.Clone(log), slices.Clone(log[1:]))
		if i%7 == 0 {
			other := []fix{choices[(i+5)%n], choices[(i/n+1)%n], choices[i%3]}
			complain("another period", 2*d*perDay, slices.Clone(log), other)
		}
		moved := slices.Clone(log)
		moved[0].lon = 2 - moved[0].lon
		complain("a fix in another place", 2, slices.Clone(log), moved)
		later := slices.Clone(log)
		later[0] = choices[(i+1)%n]
		most := min(4, 2*perDay)
		if dayOf(later[0]) != on {
			most = 4 // over midnight: a fix removed from one day and added to another
		}
		complain("a fix at another time", most, slices.Clone(log), later)
	}
	return broken
}

func newPeriod(t *testing.T, zone, from, to string) period {
	t.Helper()
	p := plan(t, zone, 6*time.Hour)
	return period{
		plan: p, typical: typical(t, p, from, to, ""), perDay: 1,
		zones: areas(t, square("west", 0, 1), square("east", 1, 2)),
	}
}

// TestTypicalSensitivity: neighbouring logs differ by what the theorem says, also on days of 23 and
// 25 hours and where the calendar leaves a day out, and no less is true.
func TestTypicalSensitivity(t *testing.T) {
	for _, c := range []period{
		newPeriod(t, "UTC", "2026-11-02", "2026-11-05"),
		newPeriod(t, "Europe/London", "2026-10-24", "2026-10-27"),
		newPeriod(t, "Europe/London", "2026-03-28", "2026-03-31"),
		newPeriod(t, "Pacific/Apia", "2011-12-28", "2012-01-01"),
	} {
		for c.perDay = 1; c.perDay <= 2; c.perDay++ {
			if broken := c.neighbours(t, int64(c.perDay)); broken != "" {
				t.Fatalf("%s, %d a day: %s", c.plan.Zone(), c.perDay, broken)
			}
			var busy []fix
			for _, day := range c.typical.Days {
				for ms := day[0].StartMS; ms < day[len(day)-1].EndMS; ms += 3600_000 {
					busy = append(busy, fix{"a", ms, .5})
				}
			}
			one, _ := c.published(t, busy)
			none, _ := c.published(t, nil)
			if got := l1(one, none); got != int64(3*c.perDay) {
				t.Errorf("a busy user adds %d to the sums", got)
			}
		}
	}
}

// TestTypicalSensitivityNoticesFaults: the comparison finds what breaks the bound.
func TestTypicalSensitivityNoticesFaults(t *testing.T) {
	onlyOn := func(c *period, most int) func([]fix) bool {
		return func(log []fix) bool {
			last := c.typical.Days[len(c.typical.Days)-1]
			n := 0
			for _, f := range log {
				if f.ms >= last[0].StartMS {
					n++
				}
			}
			return n <= most
		}
	}
	for name, plant := range map[string]func(*period){
		"a cap over the period":                      func(c *period) { c.capOfPeriod = true },
		"a cap off by one":                           func(c *period) { c.perDay++ },
		"D of reporting days":                        func(c *period) { c.reportingDays = true },
		"a holiday chosen after a look at the fixes": func(c *period) { c.daysOf = onlyOn(c, 1) },
		"a range that ends with the last record":     func(c *period) { c.daysOf = onlyOn(c, 0) },
	} {
		c := newPeriod(t, "UTC", "2026-11-02", "2026-11-05")
		plant(&c)
		if c.neighbours(t, 1) == "" {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestTypicalNoise: the sums have noise of scale D·PerDay/ε by χ², and no less; the interval is
// that of the same scale.
func TestTypicalNoise(t *testing.T) {
	p, z := plan(t, "UTC", time.Hour), areas(t, square("a", 0, 1))
	days := typical(t, p, "2026-11-02", "2026-11-05", "")
	s, claimed := Settings{"fleet", 1, 1, 2}, Settings{"fleet", 1, 1, 6}
	draw := func(claimed Settings) float64 {
		const reach = 50
		seen, law, n := make([]int, 2*reach+1), make([]float64, 2*reach+1), 0
		for i := range law {
			law[i] = pmf(i-reach, claimed)
		}
		for seed := range uint64(400) {
			pub, err := NewTypical(noise.NewKeyed(noise.KeyFromSeed(seed)), z, s, days)
			if err != nil {
				t.Fatal(err)
			}
			for _, slot := range days.Slots {
				out, err := pub.PublishSlot(slot, []int64{5, 90}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for zone, truth := range []int64{5, 90} {
					if k := out.Vehicles[zone] - truth; k >= -reach && k <= reach {
						seen[k+reach]++
					}
					n++
				}
			}
		}
		return oracle.ChiSquare(seen, law, n)
	}
	if broken := draw(claimed); broken > 1 {
		t.Errorf("χ² is %.2f times its limit", broken)
	}
	for _, perDay := range []int{2, 5, 7} { // 2: D is left out
		if draw(Settings{"fleet", 1, 1, perDay}) <= 1 {
			t.Errorf("a scale of %d in place of 6 is not noticed", perDay)
		}
	}
	pub, err := NewTypical(constant{}, z, s, days)
	if err != nil {
		t.Fatal(err)
	}
	if daily := publisher(t, 1, z, claimed); pub.HalfWidth() != daily.HalfWidth() ||
		math.Abs(pub.variance()-daily.variance()) > 1e-9 {
		t.Errorf("an interval of ± %d", pub.HalfWidth())
	}
}

// TestTypicalSharesNoNoise: a typical day shares no noise with another one, nor with daily counts;
// every fact of its name matters. A false alarm has a probability below 10⁻²⁰.
func TestTypicalSharesNoNoise(t *testing.T) {
	p := plan(t, "UTC", time.Hour)
	z, other := areas(t, square("a", 0, 1)), areas(t, square("b", 0, 1))
	base := typical(t, p, "2026-11-02", "2026-11-07", "")
	var names []string
	var all [][]int64
	add := func(name string, days *Typical, z *Zones, change func(*Settings)) {
		s := Settings{"fleet", 1, 1, 2}
		if change != nil {
			change(&s)
		}
		pub, err := NewTypical(noise.NewKeyed(noise.KeyFromSeed(7)), z, s, days)
		if err != nil {
			t.Fatal(err)
		}
		var drawn []int64
		for _, slot := range days.Slots[:23] {
			out, err := pub.PublishSlot(slot, []int64{0, 0}, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch name {
			case "zone":
				out.Vehicles[0] = out.Vehicles[1]
			case "slot":
				out, _ = pub.PublishSlot(days.Slots[23], []int64{0, 0}, nil)
			}
			drawn = append(drawn, out.Vehicles[0])
		}
		names, all = append(names, name), append(all, drawn)
	}
	add("none", base, z, nil)
	add("zone", base, z, nil)
	add("slot", base, z, nil)
	add("range", typical(t, p, "2026-11-01", "2026-11-07", "mon-fri"), z, nil)
	add("end", typical(t, p, "2026-11-02", "2026-11-08", "mon-fri"), z, nil)
	add("days", typical(t, p, "2026-11-02", "2026-11-08", "tue-sat"), z, nil)
	add("holidays", typical(t, p, "2026-11-02", "2026-11-08", "", date(t, "2026-11-04"),
		date(t, "2026-11-05")), z, nil)
	for name, p := range map[string]*Plan{
		"time zone": plan(t, "Europe/London", time.Hour), "windows": plan(t, "UTC", 30*time.Minute),
	} {
		add(name, typical(t, p, "2026-11-02", "2026-11-07", ""), z, nil)
	}
	add("zone set", base, other, nil)
	add("source", base, z, func(s *Settings) { s.Source = "fleet2" })
	add("edition", base, z, func(s *Settings) { s.Edition = 2 })
	add("epsilon", base, z, func(s *Settings) { s.Epsilon = 1.000000001 })
	add("per day", base, z, func(s *Settings) { s.PerDay = 3 })
	daily := publisher(t, 7, z, Settings{"fleet", 1, 1, 10}) // the same scale
	var drawn []int64
	for _, w := range base.Days[4][:23] {
		out, err := daily.Publish(w, []int64{0, 0}, nil)
		if err != nil {
			t.Fatal(err)
		}
		drawn = append(drawn, out.Vehicles[0])
	}
	names, all = append(names, "kind"), append(all, drawn)
	if broken := shared(names, all); broken != "" {
		t.Error(broken)
	}
	for i := 1; i < len(all); i++ { // such as the noise of a slot that its zones share
		planted := slices.Clone(all)
		planted[i] = all[0]
		if shared(names, planted) == "" {
			t.Errorf("noise that does not depend on the %s is not found", names[i])
		}
	}
}

// TestTypicalKey: the noise has the key of the range's last day, also where that is none of the
// chosen ones. Without it nothing is published.
func TestTypicalKey(t *testing.T) {
	p, z := plan(t, "UTC", time.Hour), areas(t, square("a", 0, 1))
	days := typical(t, p, "2026-11-02", "2026-11-09", "mon")
	for from, works := range map[string]bool{"2026-11-08": true, "2026-11-09": false} {
		key, err := noise.KeyFromSeed(7).From(noise.Day(date(t, from)))
		if err != nil {
			t.Fatal(err)
		}
		pub, err := NewTypical(noise.NewKeyed(key), z, someSettings, days)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pub.PublishSlot(days.Slots[0], []int64{0, 0}, nil); (err == nil) != works {
			t.Errorf("with the key from %s on: %v", from, err)
		}
	}
}

// TestEstimateFollowsFromNumbers: publications with the same noisy numbers have the same estimates,
// whatever the true sums are. An estimate that is scaled to the true sum does not.
func TestEstimateFollowsFromNumbers(t *testing.T) {
	p, z := plan(t, "UTC", 12*time.Hour), areas(t, square("a", 0, 1))
	days := typical(t, p, "2026-11-02", "2026-11-03", "")
	compare := func(plant bool) (differ, compared int) {
		of, behind := map[string]string{}, map[string]int64{}
		for seed := range uint64(3000) {
			truth := int64(2 + seed%3)
			pub, err := NewTypical(noise.NewKeyed(noise.KeyFromSeed(seed)), z,
				Settings{"fleet", 1, 3, 1}, days)
			if err != nil {
				t.Fatal(err)
			}
			var all []Published
			for _, slot := range days.Slots {
				out, err := pub.PublishSlot(slot, []int64{truth, 9}, nil)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, out)
			}
			pub.Estimate(all)
			numbers, estimates := "", ""
			for _, out := range all {
				if plant {
					out.Estimates = nearest(out.Estimates, float64(truth+9))
				}
				numbers += fmt.Sprint(out.Vehicles)
				estimates += fmt.Sprint(out.Estimates)
			}
			if before, there := behind[numbers]; there && before != truth {
				compared++
				if of[numbers] != estimates {
					differ++
				}
			}
			of[numbers], behind[numbers] = estimates, truth
		}
		return differ, compared
	}
	if differ, compared := compare(false); differ > 0 || compared < 50 {
		t.Errorf("%d of %d estimates depend on true sums", differ, compared)
	}
	if differ, _ := compare(true); differ == 0 {
		t.Error("estimates with the true sum are not found")
	}
}

// TestEstimateOfOne: odd publications have estimates that are not negative: one slot, one zone,
// nobody, and slots of few windows.
func TestEstimateOfOne(t *testing.T) {
	z := areas(t, square("a", 0, 1))
	random := rand.New(rand.NewPCG(1, 2))
	for _, slots := range []int{1, 2, 7} {
		for _, most := range []int{1, 40, 1 << 40} {
			p, all := publisher(t, 1, z, someSettings), make([]Published, slots)
			for i := range all {
				all[i].Windows = 1 + random.IntN(20)
				for range z.Count() {
					n := int64(random.IntN(2*most)) - int64(most)
					all[i].Vehicles = append(all[i].Vehicles, n)
				}
			}
			p.Estimate(all)
			for _, out := range all {
				for _, n := range out.Estimates {
					if !(n >= 0) || math.IsInf(n, 0) {
						t.Fatalf("%v has the estimates %v", out.Vehicles, out.Estimates)
					}
				}
			}
		}
	}
}

// TestEstimateIsFinite: estimates are numbers, not negative, also of few slots, zones and vehicles.
func TestEstimateIsFinite(t *testing.T) {
	for _, zones := range []int{1, 2, 60} {
		polygons := make([]Area, zones)
		for i := range polygons {
			polygons[i] = square(fmt.Sprint(i), float64(i), float64(i+1))
		}
		z := areas(t, polygons...)
		for seed := range uint64(100) {
			for _, slots := range []int64{1, 2, 3} {
				for _, vehicles := range []int64{0, 1, 1000} {
					p, all := publisher(t, seed, z, Settings{"fleet", 1, 1, 10}), []Published(nil)
					for slot := range slots {
						w := Window{StartMS: slot * 3600_000, EndMS: (slot + 1) * 3600_000}
						sums := make([]int64, zones+1)
						sums[0] = vehicles
						out, err := p.Publish(w, sums, nil)
						if err != nil {
							t.Fatal(err)
						}
						out.Windows = 1
						all = append(all, out)
					}
					p.Estimate(all)
					for _, out := range all {
						for _, n := range out.Estimates {
							if !(n >= 0) || math.IsInf(n, 0) {
								t.Fatalf("%d slots, %d zones, %d vehicles: %v", slots, zones,
									vehicles, out.Estimates)
							}
						}
					}
				}
			}
		}
	}
}

// TestEstimateShrinks: where zones keep their share through the day, estimates of 300 vehicles and
// more have at most .65 of the error of the numbers. They are never worse than numbers or an even
// map by more than .02, also where hours differ or all is noise. Where few habits are the whole
// fleet's, most numbers of an hour are 0, and .035 is the limit.
func TestEstimateShrinks(t *testing.T) {
	const zones, hours, days, runs = 60, 10, 20, 12
	polygons := make([]Area, zones)
	for i := range polygons {
		polygons[i] = square(fmt.Sprint(i), float64(i), float64(i+1))
	}
	z, even := areas(t, polygons...), slices.Repeat([]float64{1}, zones)
	zipf := func(rank int) float64 { return .143 * math.Pow(float64(rank+1), -.8) }
	fleets := map[string]func(random *rand.Rand, hour []float64, order []int){
		"keep their share": func(_ *rand.Rand, hour []float64, order []int) {
			for rank, zone := range order {
				hour[zone] = zipf(rank)
			}
		},
		"hours differ": func(random *rand.Rand, hour []float64, order []int) {
			mixed := random.Perm(zones)
			for rank, zone := range order {
				hour[zone] += zipf(rank) / 2
				hour[mixed[rank]] += zipf(rank) / 2
			}
		},
		"few habits": func(random *rand.Rand, hour []float64, order []int) {
			for habit := range 40 { // half the day at home
				zone := order[habit]
				if random.IntN(2) == 0 {
					zone = random.IntN(zones)
				}
				hour[zone] += 1. / 40
			}
		},
	}
	for name, fleet := range fleets {
		for _, vehicles := range []float64{30, 100, 300, 1000, 3000} {
			for _, epsilon := range []float64{1, 2, 5} {
				var blind, numbers, estimates float64
				for run := range uint64(runs) {
					random := rand.New(rand.NewPCG(run, 9))
					p := publisher(t, run, z, Settings{"fleet", 1, epsilon, days * 10})
					all, truth := make([]Published, hours), make([][]float64, hours)
					order := random.Perm(zones)
					for hour := range all {
						truth[hour] = make([]float64, zones)
						fleet(random, truth[hour], order)
						sums := make([]int64, zones+1)
						for zone, share := range truth[hour] {
							sums[zone] = int64(math.Round(share * vehicles * days))
						}
						w := Window{
							StartMS: int64(hour) * 3600_000, EndMS: int64(hour+1) * 3600_000,
						}
						var err error
						if all[hour], err = p.Publish(w, sums, nil); err != nil {
							t.Fatal(err)
						}
						all[hour].Windows = days
					}
					p.Estimate(all)
					for hour, out := range all {
						shown, cut := out.Estimates[:zones], make([]float64, zones)
						if slices.Max(shown) == 0 {
							shown = even
						}
						for zone := range cut {
							cut[zone] = float64(max(0, out.Vehicles[zone]))
						}
						blind += Variation(even, truth[hour]) / hours / runs
						numbers += Variation(cut, truth[hour]) / hours / runs
						estimates += Variation(shown, truth[hour]) / hours / runs
					}
				}
				over := .02
				if name == "few habits" {
					over = .035
				}
				if estimates > min(blind, numbers)+over || name == "keep their share" &&
					vehicles >= 300 && estimates > .65*numbers {
					t.Errorf("%s, %g vehicles, ε = %g: an error of %.3f; numbers %.3f, an even "+
						"map %.3f", name, vehicles, epsilon, estimates, numbers, blind)
				}
			}
		}
	}
}
