package countfiles

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/noise"
)

// Run counts the fixes of a source, and publishes the counts or says what may be useful to publish.
func Run(ctx context.Context, source Source, q Request, std cli.Streams) error {
	if q.Choose {
		return choose(ctx, source, q, std)
	}
	return publish(ctx, source, q, std)
}

// trial is a zone and a window that may be published, with what they are worth to a fleet.
type trial struct {
	options
	zone    string    // as --zone has it
	visits  [24]int64 // windows of users, by the hour at which they start
	counted [24]int64 // of these, under the cap
	inZones onMap     // under the cap
	kinds   [2]kind
}

// kind is a kind of publication: an even map, and attempts at several ε.
type kind struct {
	blind    Score
	attempts []*attempt
}

var kindNames = [2]string{"daily", "typical"}

// attempt is one ε of a kind.
type attempt struct {
	*counts.Publisher
	Score
}

// Score sums up how many vehicles are shown in a wrong zone, of all on the map.
type Score struct{ wrong, seen float64 }

// Add adds what was shown of a window or slot, and where the vehicles were.
func (s *Score) Add(shown []float64, truth []int64) {
	n, actual := 0., make([]float64, len(truth)-1)
	for zone := range actual {
		actual[zone] = float64(truth[zone])
		n += actual[zone]
	}
	if shown = shown[:len(actual)]; slices.Max(shown) == 0 {
		shown = Evenly(len(actual))
	}
	s.wrong += n * counts.Variation(shown, actual)
	s.seen += n
}

// Seen says whether any vehicle is on the map.
func (s *Score) Seen() bool { return s.seen > 0 }

// Share is the share of vehicles that are shown in a wrong zone.
func (s *Score) Share() float64 { return s.wrong / max(s.seen, 1) }

// Evenly is a map on which every zone has as many vehicles.
func Evenly(zones int) []float64 { return slices.Repeat([]float64{1}, zones) }

// usefulShare is which share of a fleet may be shown in a wrong zone, and UsefulGain by how much
// that has to be less than on an even map.
const (
	usefulShare = .2
	UsefulGain  = .02
)

// useful says whether an attempt is worth its ε.
func (k *kind) useful(a *attempt) bool {
	return a.Share() <= usefulShare && a.Share() <= k.blind.Share()-UsefulGain
}

// mostTried bounds the number of zones that are tried, and with it the time.
const mostTried = 5000

// trials returns what to try: the zones and the window of the request, or several where it names
// none. The first one has the shortest windows and the smallest zones.
func (q Request) trials() (all []*trial, err error) {
	c := &q.Config.Counts
	c.Epsilon, c.PerDay = cmp.Or(c.Epsilon, 1), 1 // the cap and other ε are found later
	sides := []string{c.Zone}
	if c.Zone == "" && c.Zones == "" {
		if sides, err = q.sides(); err != nil {
			return nil, err
		}
	}
	windows := []time.Duration{30 * time.Minute, time.Hour, 3 * time.Hour}
	if c.Window != 0 {
		windows = []time.Duration{c.Window}
	}
	for _, c.Window = range windows {
		for _, c.Zone = range sides {
			o, err := q.options()
			if err != nil {
				return nil, err
			}
			all = append(all, &trial{options: o, zone: cmp.Or(c.Zone, c.Zones)})
		}
	}
	return all, nil
}

// sides returns up to four sides of squares that suit the map, the smallest first.
func (q Request) sides() (sides []string, err error) {
	zones := 0
	for side := 64.; side >= .5; side /= 2 {
		q.Config.Counts.Zone = fmt.Sprintf("%gkm", side)
		o, err := q.options()
		if err != nil && len(sides) == 0 {
			return nil, err
		}
		switch {
		case err != nil, o.zones.Count() > mostTried && zones > 4:
			return sides, nil //nolint:nilerr // there are too many small zones for a map
		case o.zones.Count() == zones: // a whole number of a model's cells
			continue
		case zones <= 4:
			sides = nil // two by two squares, and elsewhere, are the least
		}
		zones = o.zones.Count()
		sides = append([]string{q.Config.Counts.Zone}, sides...)
		sides = sides[:min(len(sides), 4)]
	}
	return sides, nil
}

// choose reads all fixes, and prints which of several zones and windows are useful. It publishes
// nothing.
func choose(
	ctx context.Context, source Source, q Request, std cli.Streams,
) error {
	epsilons := []float64{1, 2, 5}
	if given := q.Config.Counts.Epsilon; given != 0 {
		epsilons = []float64{given}
	}
	q.Typical = true // beside each day for itself
	trials, err := q.trials()
	if err != nil {
		return cli.Usage(err)
	}
	fine := &run{options: trials[0].options}
	fine.settings.PerDay = counts.MaxPerDay
	if err := fine.read(ctx, source, std.Err); err != nil {
		return err
	}
	onMap := 0.
	for _, t := range trials {
		if err := t.measure(ctx, fine, epsilons); err != nil {
			return err
		}
		onMap += t.kinds[0].blind.seen
	}
	l := new(cli.Summary)
	l.Line("beware", "these are true numbers: keep them on the trusted side, and choose by days "+
		"that you do not publish")
	l.Line("fixes", "%d, of these %d outside the days and %s", fine.workers[0].fixes,
		fine.workers[0].outside, fine.workers[0].refusedWords())
	if !fine.warnOfNothing(l, onMap) {
		fine.warnOfEmptyDays(l)
		err = chosen(l, trials, epsilons)
	}
	_, wrong := fmt.Fprint(std.Err, l.String()) // std.Out has what may be published
	if n := source.Skips(); n.Total > 0 {
		fmt.Fprintln(std.Err, n)
	}
	return cmp.Or(err, wrong)
}

// measure fills in what one draw of noise is worth under the least cap that covers the users' days.
func (t *trial) measure(ctx context.Context, fine *run, epsilons []float64) error {
	days, order := t.visitsOf(fine)
	t.settings.PerDay = min(order.Cover(), int(24*time.Hour/t.plan.Length()))
	streams := noise.NewKeyed(noise.KeyFromSeed(1))
	for _, t.settings.Epsilon = range epsilons {
		for i, typical := range []*counts.Typical{nil, t.typical} {
			p, err := counts.NewTypical(streams, t.zones, t.settings, typical)
			if err != nil {
				return err
			}
			t.kinds[i].attempts = append(t.kinds[i].attempts, &attempt{Publisher: p})
		}
	}
	truth, capped := t.typical.Sums(t.zones), t.typical.Sums(t.zones)
	for day, users := range days {
		windows := t.days[day]
		all, counted := t.tally(windows, users)
		t.typical.Add(truth, t.plan, windows, all)
		t.typical.Add(capped, t.plan, windows, counted)
		for i := range windows {
			t.inZones.add(counted[i])
		}
		if err := t.kinds[0].publish(ctx, counts.SlotsOf(windows), all, counted); err != nil {
			return err
		}
	}
	return t.kinds[1].publish(ctx, t.typical.Slots, truth, capped)
}

// visitsOf returns where each user of each day is first in each window.
func (t *trial) visitsOf(fine *run) (days [][][]counts.Visit, order *Shifts) {
	zones := t.coarse(fine.zones)
	days, order = make([][][]counts.Visit, len(t.days)), new(Shifts)
	for day, users := range fine.workers[0].days {
		places := t.places(fine, day)
		for _, user := range users {
			var visits []counts.Visit // the first one in each window
			for _, v := range user.Visits() {
				at := places[v.Window]
				if n := len(visits); at >= 0 && (n == 0 || int(visits[n-1].Window) != at) {
					order.Add(t.hour(t.days[day], at), n)
					visits = append(visits, counts.Visit{
						Window: uint16(at), Zone: zones[v.Zone],
					})
				}
			}
			days[day] = append(days[day], visits)
		}
	}
	return days, order
}

// coarse returns the zones of the middles of smaller ones.
func (t *trial) coarse(fine *counts.Zones) []int32 {
	zones := make([]int32, fine.Count())
	for i := range zones {
		zones[i] = int32(t.zones.Count() - 1)
		if lat, lon, ok := fine.Middle(int32(i)); ok && fine != t.zones {
			zones[i] = t.zones.Of(lat, lon)
		} else if ok {
			zones[i] = int32(i) // of polygons, the middle may lie in another one
		}
	}
	return zones
}

// places returns the windows of a day, by the shorter ones of which they consist; -1: none.
func (t *trial) places(fine *run, day int) []int {
	places := make([]int, len(fine.days[day]))
	for i, w := range fine.days[day] {
		at, ok := counts.Index(t.days[day], t.plan.At(w.StartMS).StartMS)
		if places[i] = at; !ok {
			places[i] = -1
		}
	}
	return places
}

// Shifts are, by hour of the day, how many windows of users are their day's first, second and so
// on.
type Shifts [24][]int64

// Add adds a window that is n windows after its user's first one of the day.
func (o *Shifts) Add(hour, n int) {
	for len(o[hour]) <= n {
		o[hour] = append(o[hour], 0)
	}
	o[hour][n]++
}

// Cover returns the least cap that covers the shifts.
func (o *Shifts) Cover() int {
	for limit := 1; ; limit++ {
		var seen, counted [24]int64
		for hour, numbers := range o {
			for n, users := range numbers {
				seen[hour] += users
				if n < limit {
					counted[hour] += users
				}
			}
		}
		if _, most := mostCut(seen, counted); most <= shiftShare {
			return limit
		}
	}
}

// tally returns what a day's users did, all of it and under the cap.
func (t *trial) tally(windows []counts.Window, users [][]counts.Visit) (truth, capped [][]int64) {
	truth, capped = tallyOf(windows, t.zones), tallyOf(windows, t.zones)
	for _, visits := range users {
		for i, v := range visits {
			hour := t.hour(windows, int(v.Window))
			truth[v.Window][v.Zone]++
			t.visits[hour]++
			if i < t.settings.PerDay {
				capped[v.Window][v.Zone]++
				t.counted[hour]++
			}
		}
	}
	return truth, capped
}

// publish compares the estimates of one publication with what the users did.
func (k *kind) publish(
	ctx context.Context, slots []counts.Slot, truth, capped [][]int64,
) error {
	for _, actual := range truth {
		k.blind.Add(Evenly(len(actual)), actual)
	}
	for _, a := range k.attempts {
		all := make([]counts.Published, len(slots))
		for i, slot := range slots {
			var err error
			all[i], err = a.PublishSlot(slot, capped[i], nil)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
		}
		a.Estimate(all)
		for i, published := range all {
			a.Add(published.Estimates, truth[i])
		}
	}
	return nil
}

// tallyOf returns a count of 0 for each zone of each window.
func tallyOf(windows []counts.Window, zones *counts.Zones) [][]int64 {
	return counts.Tally(len(windows), zones.Count(), func(func(*counts.Counter) bool) {})
}

// chosen writes a table of trials, and which zones are useful at each ε.
func chosen(l *cli.Summary, trials []*trial, epsilons []float64) error {
	table := report.Table{Columns: []string{
		"window", "zone", "per-day", "most cut", "vehicles a zone",
	}}
	for _, kind := range kindNames {
		table.Columns = append(table.Columns, kind+" even")
		for _, epsilon := range epsilons {
			table.Columns = append(table.Columns, fmt.Sprintf("%s ε = %g", kind, epsilon))
		}
	}
	percent := func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
	for _, t := range trials {
		cut := "0 %"
		if hour, share := mostCut(t.visits, t.counted); share > 0 {
			cut = fmt.Sprintf("%.1f %% at %02d h", 100*share, hour)
		}
		row := []any{
			tune.Short(t.plan.Length()), t.zone, t.settings.PerDay, cut,
			t.inZones.around() / float64(t.zones.Count()-1),
		}
		for _, kind := range t.kinds {
			row = append(row, percent(kind.blind.Share()))
			for _, a := range kind.attempts {
				row = append(row, percent(a.Share()))
			}
		}
		table.Add(row...)
	}
	err := table.Text(l)
	fmt.Fprintf(l, "\nper-day is the least that cuts at most %.0f %% of the users' windows of a "+
		"busy hour. The last\ncolumns have the share of vehicles that estimate shows in a wrong "+
		"zone; even is a map on which\nevery zone has as many. A typical day stands for %s: its ε "+
		"is for all of them. Useful\nare at most %.0f %%, if even has more.\n",
		100*shiftShare, cli.Quantity(int64(len(trials[0].days)), "day"), 100*usefulShare)
	fmt.Fprintf(l, "A daily ε = 1 is %d over these days.\n", len(trials[0].days))
	for kind, name := range kindNames {
		for i, epsilon := range epsilons {
			l.Line("useful", "%s, ε = %g: %s", name, epsilon, usefulWords(trials, kind, i))
		}
	}
	return err
}

// usefulWords names the smallest useful zones of each length of windows.
func usefulWords(trials []*trial, kind, epsilon int) string {
	var all []string
	found := map[time.Duration]bool{}
	for _, t := range trials {
		k, length := &t.kinds[kind], t.plan.Length()
		if !found[length] && k.useful(k.attempts[epsilon]) {
			found[length] = true
			all = append(all, fmt.Sprintf("--window %s --zone %s --per-day %d",
				tune.Short(length), t.zone, t.settings.PerDay))
		}
	}
	return cmp.Or(strings.Join(all, ", or "),
		"nothing: choose larger zones, longer windows or more vehicles")
}
