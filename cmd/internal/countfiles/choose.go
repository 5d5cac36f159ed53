package countfiles

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/noise"
)

// Run counts the fixes of a reader, and publishes the counts or says what may be useful to publish.
func Run(ctx context.Context, reader *traces.Reader, q Request, std cli.Streams) error {
	if q.Choose {
		return choose(ctx, reader, q, std)
	}
	return publish(ctx, reader, q, std)
}

// trial is a zone and a window that may be published, with what they are worth to a fleet.
type trial struct {
	options
	zone    string    // as --zone has it
	half    int64     // of the interval of a count
	visits  [24]int64 // windows of users, by the hour at which they start
	counted [24]int64 // of these, under the cap
	inZones onMap     // under the cap
	wrong   float64   // vehicles that are shown in a wrong zone
	seen    float64   // all vehicles on the map
}

// usefulShare is which share of a fleet may be shown in a wrong zone.
const usefulShare = .2

// mostTried bounds the number of zones that are tried, and with it the time.
const mostTried = 5000

// trials returns what to try: the zones and the window of the request, or several where it names
// none. The first one has the shortest windows and the smallest zones.
func (q Request) trials() (all []*trial, err error) {
	c := &q.Config.Counts
	c.Epsilon, c.PerDay = cmp.Or(c.Epsilon, 1), 1 // the cap is found later
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
	ctx context.Context, reader *traces.Reader, q Request, std cli.Streams,
) error {
	trials, err := q.trials()
	if err != nil {
		return cli.Usage(err)
	}
	fine := &run{options: trials[0].options}
	fine.settings.PerDay = counts.MaxPerDay
	progress := cli.NewProgress(std.Err, reader.Progress)
	err = fine.read(ctx, reader, progress)
	progress.Done()
	if err != nil {
		return err
	}
	onMap := 0.
	for _, t := range trials {
		if err := t.measure(ctx, fine); err != nil {
			return err
		}
		onMap += t.seen
	}
	l := new(cli.Summary)
	l.Line("beware", "these are true numbers: keep them on the trusted side, and choose by days "+
		"that you do not publish")
	l.Line("fixes", "%d, of these %d outside the days and %s", fine.workers[0].fixes,
		fine.workers[0].outside, fine.workers[0].refusedWords())
	if !fine.warnOfNothing(l, onMap) {
		err = chosen(l, trials)
	}
	_, wrong := fmt.Fprint(std.Err, l.String()) // std.Out has what may be published
	if n := reader.Skips(); n.Total > 0 {
		fmt.Fprintln(std.Err, n)
	}
	return cmp.Or(err, wrong)
}

// measure fills in what one draw of noise is worth under the least cap that covers the users' days.
func (t *trial) measure(ctx context.Context, fine *run) error {
	zones := t.coarse(fine.zones)
	days, order := make([][][]counts.Visit, len(t.days)), new(visitOrder)
	for day, users := range fine.workers[0].days {
		places := t.places(fine, day)
		for _, user := range users {
			var visits []counts.Visit // the first one in each window
			for _, v := range user.Visits() {
				at := places[v.Window]
				if n := len(visits); at >= 0 && (n == 0 || int(visits[n-1].Window) != at) {
					order.add(t.hour(t.days[day], at), n)
					visits = append(visits, counts.Visit{
						Window: uint16(at), Zone: zones[v.Zone],
					})
				}
			}
			days[day] = append(days[day], visits)
		}
	}
	t.settings.PerDay = min(order.cover(), int(24*time.Hour/t.plan.Length()))
	p, err := counts.NewPublisher(noise.NewKeyed(noise.KeyFromSeed(1)), t.zones, t.settings)
	if err != nil {
		return err
	}
	t.half = p.HalfWidth()
	for day, users := range days {
		if err := t.publish(ctx, p, t.days[day], users); err != nil {
			return err
		}
	}
	return nil
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

// visitOrder is, by hour of the day, how many windows of users are their day's first, second and so
// on.
type visitOrder [24][]int64

func (o *visitOrder) add(hour, n int) {
	for len(o[hour]) <= n {
		o[hour] = append(o[hour], 0)
	}
	o[hour][n]++
}

// cover returns the least cap that covers the shifts.
func (o *visitOrder) cover() int {
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

// publish compares a day's estimates with what its users did.
func (t *trial) publish(
	ctx context.Context, p *counts.Publisher, windows []counts.Window, users [][]counts.Visit,
) error {
	truth, capped := tallyOf(windows, t.zones), tallyOf(windows, t.zones)
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
	all := make([]counts.Published, len(windows))
	for i, w := range windows {
		t.inZones.add(capped[i])
		var err error
		all[i], err = p.Publish(w, capped[i], nil)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	p.Estimate(all)
	for i, published := range all {
		onMap := t.zones.Count() - 1
		n, actual := 0., make([]float64, onMap)
		for zone := range actual {
			actual[zone] = float64(truth[i][zone])
			n += actual[zone]
		}
		t.wrong += n * counts.Variation(published.Estimates[:onMap], actual)
		t.seen += n
	}
	return nil
}

// tallyOf returns a count of 0 for each zone of each window.
func tallyOf(windows []counts.Window, zones *counts.Zones) [][]int64 {
	return counts.Tally(len(windows), zones.Count(), func(func(*counts.Counter) bool) {})
}

// share is the share of vehicles that are shown in a wrong zone.
func (t *trial) share() float64 { return t.wrong / max(t.seen, 1) }

// chosen writes a table of trials, and which of each length of windows has the smallest useful
// zones.
func chosen(l *cli.Summary, trials []*trial) error {
	table := report.Table{Columns: []string{
		"window", "zone", "per-day", "most cut", "vehicles a zone", "90 %", "wrong",
	}}
	useful := map[time.Duration]*trial{}
	for _, t := range trials {
		cut := "0 %"
		if hour, share := mostCut(t.visits, t.counted); share > 0 {
			cut = fmt.Sprintf("%.1f %% at %02d h", 100*share, hour)
		}
		table.Add(tune.Short(t.plan.Length()), t.zone, t.settings.PerDay, cut,
			t.inZones.around()/float64(t.zones.Count()-1), fmt.Sprintf("± %d", t.half),
			fmt.Sprintf("%.0f %%", 100*t.share()))
		if length := t.plan.Length(); useful[length] == nil && t.share() <= usefulShare {
			useful[length] = t
		}
	}
	err := table.Text(l)
	fmt.Fprintf(l, "\nper-day is the least that cuts at most %.0f %% of the users' windows of a "+
		"busy hour, ± holds\na count in 90 %%, and wrong is the share of vehicles that estimate "+
		"shows in a wrong zone.\n", 100*shiftShare)
	for _, t := range trials {
		if useful[t.plan.Length()] != t {
			continue
		}
		_, cut := capWords(t.visits, t.counted)
		l.Line("useful", "--window %s --zone %s --per-day %d --epsilon %g; it cuts%s",
			tune.Short(t.plan.Length()), t.zone, t.settings.PerDay, t.settings.Epsilon,
			cmp.Or(cut, " nothing"))
	}
	if len(useful) == 0 {
		l.Line("useful", "none at ε = %g, which is to have at most %.0f %% wrong: choose larger "+
			"zones, longer windows or more vehicles", trials[0].settings.Epsilon, 100*usefulShare)
	}
	return err
}
