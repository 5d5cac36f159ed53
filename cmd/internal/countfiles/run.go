package countfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/schemas"
)

// run counts the fixes of files and publishes the counts.
type run struct {
	options
	request Request
	places  map[counts.Date]int // of the days
	workers []worker
	inZones onMap // of what was written
}

// onMap sums up how many vehicles are counted on the map in a window: elsewhere is no part of it.
type onMap struct{ vehicles, squares float64 }

func (m *onMap) add(truth []int64) {
	n := 0.0
	for _, count := range truth[:len(truth)-1] {
		n += float64(count)
	}
	m.vehicles, m.squares = m.vehicles+n, m.squares+n*n
}

// around is how many other ones a vehicle has on the map, itself included, in the mean over all
// vehicles: windows of the night, in which few drive, do not lower it.
func (m onMap) around() float64 { return m.squares / max(m.vehicles, 1) }

// worker takes the fixes of some files. What all have taken together does not depend on which
// has taken what.
type worker struct {
	days           []map[string]*userDay // users by name
	fixes, outside int64                 // read, and of these in no window
	inside         bool                  // one lies in a zone
	swapped        int64                 // before that: would, with the coordinates exchanged
	refused        engine.Refusals       // not plausible
	times          span                  // of the others
}

// span is a time from first to last, Unix milliseconds; all 0: none yet.
type span struct{ firstMS, lastMS int64 }

// widen takes another span in.
func (s *span) widen(more span) {
	s.firstMS = min(cmp.Or(s.firstMS, more.firstMS), cmp.Or(more.firstMS, s.firstMS))
	s.lastMS = max(s.lastMS, more.lastMS)
}

// userDay is a user on one day: where the user counts, and in which windows there is a fix.
type userDay struct {
	counts.Counter
	seen []uint64 // bits of windows: for the share that the cap cuts
}

// publish reads all fixes before it publishes any count. The ledger is on the disk before the
// output appears.
func publish(
	ctx context.Context, source Source, q Request, std cli.Streams,
) error {
	o, err := q.options()
	if err != nil {
		return cli.Usage(err)
	}
	r := &run{options: o, request: q}
	if err := r.read(ctx, source, std.Err); err != nil {
		return err
	}
	words, err := r.register(ctx)
	if err != nil {
		return err
	}
	if err := r.write(ctx, std.Out); err != nil {
		return err
	}
	_, err = io.WriteString(std.Err, r.words()+words)
	if n := source.Skips(); n.Total > 0 {
		fmt.Fprintln(std.Err, n)
	}
	return err
}

// read takes all fixes, and gathers the users of all workers in the first one.
func (r *run) read(ctx context.Context, source Source, log io.Writer) error {
	r.places = map[counts.Date]int{}
	for day, windows := range r.days {
		r.places[windows[0].Day] = day
	}
	r.workers = make([]worker, source.Workers())
	for i := range r.workers {
		r.workers[i].days = make([]map[string]*userDay, len(r.days))
		for day := range r.days {
			r.workers[i].days[day] = map[string]*userDay{}
		}
	}
	progress := cli.NewProgress(log, nil)
	err := source.Each(ctx, progress, func(at int, fix schemas.Raw) error {
		r.workers[at].count(r, fix)
		return ctx.Err()
	})
	progress.Done()
	if err != nil {
		return err
	}
	all := &r.workers[0]
	for i := 1; i < len(r.workers); i++ {
		all.merge(&r.workers[i], r.settings.PerDay)
	}
	return cmp.Or(source.Skips().Nothing(all.fixes), all.nowhere())
}

// nowhere returns an error if there are fixes and none of them, of any day, lies in a zone: zones
// or columns are wrong, and all that could be published is noise. The error is for the owner alone
// (PROOFS.md, "counts: a user's day").
func (w *worker) nowhere() error {
	fixes := w.fixes - w.refused.Total()
	switch {
	case fixes == 0 || w.inside:
		return nil
	case w.swapped > 0:
		return fmt.Errorf("no fix lies in a zone, but %d of %d would if latitude and longitude "+
			"changed places (box-empty)", w.swapped, fixes)
	}
	return fmt.Errorf("no fix of %d lies in a zone (box-empty)", fixes)
}

// count counts one fix. It looks at the fix by itself, and at what the user has on the same day.
func (w *worker) count(r *run, fix schemas.Raw) {
	w.fixes++
	if no := new(schemas.Rejection); errors.As(engine.Plausible(fix), &no) {
		w.refused.Add(no.Reason, nil)
		return
	}
	w.times.widen(span{fix.Timestamp, fix.Timestamp})
	if elsewhere := int32(r.zones.Count() - 1); !w.inside {
		w.inside = r.zones.Of(fix.Latitude, fix.Longitude) < elsewhere
		if !w.inside && r.zones.Of(fix.Longitude, fix.Latitude) < elsewhere {
			w.swapped++
		}
	}
	window := r.plan.At(fix.Timestamp)
	day, ok := r.places[window.Day]
	if !ok {
		w.outside++
		return
	}
	user := w.days[day][fix.UserID]
	if user == nil {
		user = &userDay{seen: make([]uint64, (len(r.days[day])+63)/64)}
		w.days[day][strings.Clone(fix.UserID)] = user
	}
	at, _ := counts.Index(r.days[day], window.StartMS)
	user.seen[at/64] |= 1 << (at % 64)
	user.Take(counts.Visit{
		Order:  uint32(fix.Timestamp - r.days[day][0].StartMS),
		Window: uint16(at), Zone: r.zones.Of(fix.Latitude, fix.Longitude),
	}, r.settings.PerDay)
}

// merge takes what another worker has taken.
func (w *worker) merge(other *worker, perDay int) {
	w.fixes += other.fixes
	w.outside += other.outside
	w.inside, w.swapped = w.inside || other.inside, w.swapped+other.swapped
	for i, n := range other.refused.ByReason {
		w.refused.ByReason[i] += n
	}
	w.times.widen(other.times)
	for day, users := range other.days {
		for name, user := range users {
			known := w.days[day][name]
			if known == nil {
				w.days[day][name] = user
				continue
			}
			known.Merge(&user.Counter, perDay)
			for i, word := range user.seen {
				known.seen[i] |= word
			}
		}
		other.days[day] = nil
	}
}

// each calls use with what is published together: the true counts of a day's windows, or the sums
// of a typical day's slots.
func (r *run) each(
	ctx context.Context, use func(slots []counts.Slot, truth [][]int64) error,
) error {
	var sums [][]int64
	if r.typical != nil {
		sums = r.typical.Sums(r.zones)
	}
	for day, windows := range r.days {
		tally := counts.Tally(len(windows), r.zones.Count(),
			func(yield func(*counts.Counter) bool) {
				for user := range maps.Values(r.workers[0].days[day]) {
					if !yield(&user.Counter) {
						return
					}
				}
			})
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.typical != nil {
			r.typical.Add(sums, r.plan, windows, tally)
		} else if err := use(counts.SlotsOf(windows), tally); err != nil {
			return err
		}
	}
	if r.typical == nil {
		return nil
	}
	return use(r.typical.Slots, sums)
}

func (r *run) publisher() (*counts.Publisher, error) {
	return counts.NewTypical(noise.NewKeyed(r.request.Key), r.zones, r.settings, r.typical)
}

// register enters what is published in the ledger of the key, and says which ε its days have by
// now. It fails where other counts were published before. The ledger of a fresh key has this run
// alone, and is on no disk.
func (r *run) register(ctx context.Context) (words string, err error) {
	ledger := new(ledger)
	if r.request.KeyFile != "" {
		if ledger, err = openLedger(r.request.KeyFile); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, ledger.close()) }()
	} else if r.request.Service.Epsilon == 0 {
		return "", nil
	}
	p, err := r.publisher()
	if err != nil {
		return "", err
	}
	lines, err := r.ledgerLines(ctx, p)
	if err != nil {
		return "", err
	}
	if err := ledger.add(lines); err != nil {
		return "", err
	}
	service, err := served(r.request.Service, r.days)
	if err != nil {
		return "", err
	}
	return ledger.spent(r.days, service), ledger.commit(ctx)
}

// ledgerLines are the windows of the run, or the days of its typical day.
func (r *run) ledgerLines(ctx context.Context, p *counts.Publisher) (
	lines []ledgerLine, err error,
) {
	zones := r.zones.Digest()
	line := ledgerLine{
		edition: fmt.Sprint(r.settings.Edition), zones: fmt.Sprintf("%x", zones[:16]),
		epsilon: fmt.Sprint(r.settings.Epsilon), perDay: fmt.Sprint(r.settings.PerDay),
	}
	add := func(startMS, endMS int64, day []counts.Window, digest counts.Digest) {
		line.startMS, line.endMS, line.digest = startMS, endMS, digest.String()
		line.dayStartMS, line.dayEndMS = day[0].StartMS, day[len(day)-1].EndMS
		lines = append(lines, line)
	}
	err = r.each(ctx, func(slots []counts.Slot, truth [][]int64) error {
		if r.typical != nil {
			digest, err := p.Digest(counts.Window{}, slices.Concat(truth...))
			days := r.typical.Digest()
			line.days, line.period = len(r.days), fmt.Sprintf("%x", days[:16])
			for _, day := range r.days {
				add(day[0].StartMS, day[len(day)-1].EndMS, day, digest)
			}
			return err
		}
		for i, slot := range slots {
			digest, err := p.Digest(slot.Window, truth[i])
			if err != nil {
				return err
			}
			add(slot.StartMS, slot.EndMS, r.days[r.places[slot.Day]], digest)
		}
		return nil
	})
	return lines, err
}

// write writes all that is published. All cores draw noise, and the records come in the order of
// time.
func (r *run) write(ctx context.Context, stdout io.Writer) error {
	out, err := files.CreateOrStdout(r.request.Out, stdout)
	if err != nil {
		return err
	}
	if err := r.writeTo(ctx, out); err != nil {
		return errors.Join(err, out.Discard())
	}
	return out.Close()
}

// draw adds noise to the counts of a window or a slot.
type draw = func() (counts.Published, error)

// draws yields one for each window or slot, and notes how many are estimated together.
func (r *run) draws(ctx context.Context, together *[]int, yield func(draw, error) bool) {
	stopped := errors.New("stopped")
	err := r.each(ctx, func(slots []counts.Slot, truth [][]int64) error {
		*together = append(*together, len(slots))
		for i, slot := range slots {
			r.inZones.add(truth[i])
			one := func() (counts.Published, error) {
				p, err := r.publisher()
				if err != nil {
					return counts.Published{}, err
				}
				return p.PublishSlot(slot, truth[i], nil)
			}
			if !yield(one, nil) {
				return stopped
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, stopped) {
		yield(nil, err)
	}
}

func (r *run) writeTo(ctx context.Context, out io.Writer) error {
	p, err := r.publisher()
	if err != nil {
		return err
	}
	encode, err := r.encoder(r.request.Format, out, p)
	if err != nil {
		return err
	}
	var together []int // how many are estimated together
	tasks := func(yield func(draw, error) bool) { r.draws(ctx, &together, yield) }
	var all []counts.Published
	return parallel.Ordered(tasks, func(published counts.Published) error {
		if all = append(all, published); len(all) < together[0] {
			return nil
		}
		p.Estimate(all)
		for _, published := range all {
			for zone := range published.Vehicles {
				if err := encode(published, int32(zone)); err != nil {
					return err
				}
			}
		}
		all, together = all[:0], together[1:]
		return ctx.Err()
	})
}

// words say what was published and what that guarantees, and then, for the trusted side alone, what
// follows from true counts.
func (r *run) words() string {
	s, days, windows, half := r.settings, int64(len(r.days)), int64(0), 0.0
	for _, day := range r.days {
		windows += int64(len(day))
	}
	if p, err := r.publisher(); err == nil {
		half = float64(p.HalfWidth())
	}
	l := new(cli.Summary)
	fmt.Fprintf(l, "%s of %v from %v on, by the clock of %s (%s), %s\n",
		cli.Quantity(windows, "window"), r.plan.Length(), r.days[0][0].Day,
		r.plan.Zone(), hours.ZoneVersion, cli.Quantity(int64(r.zones.Count()), "zone"))
	if r.typical == nil {
		l.Line("guarantee", "all that one user does in a day changes the odds of what is "+
			"published by at most e^%g (ε = %g); one day in place of another %g", s.Epsilon,
			s.Epsilon, 2*s.Epsilon)
		if days > 1 {
			l.Line("", "a user's %d days add up to ε = %g", days, float64(days)*s.Epsilon)
		}
	} else {
		half /= float64(days)
		l.Line("guarantee", "all that one user does on %s (%v) changes the odds of what is "+
			"published by at most e^%g (ε = %g); one such period in place of another %g",
			cli.Quantity(days, "day"), r.weekdays, s.Epsilon, s.Epsilon, 2*s.Epsilon)
		l.Line("", "one day alone: ε = %.3g; in place of another %.3g", s.Epsilon/float64(days),
			2*s.Epsilon/float64(days))
	}
	l.Line("", "people who travel together share what is published of them")
	l.Line("interval", "vehicles ± %.3g holds the count of a zone in 90 %%", half)
	if r.request.KeyFile == "" {
		l.Line("key", "fresh and forgotten: a second run of these days is a further ε "+
			"(--key-file keeps one)")
	}
	r.trueWords(l)
	return l.String()
}

// shiftShare is above which share of lost user-windows of a busy hour the cap does not cover a
// shift.
const shiftShare = .05

// mostCut returns the hour of which a cap cuts the largest share, among the busy ones: those that
// have a tenth of the windows of users that the busiest hour has.
func mostCut(seen, counted [24]int64) (hour int, share float64) {
	for h, n := range seen {
		lost := float64(n-counted[h]) / float64(max(n, 1))
		if 10*n >= slices.Max(seen[:]) && lost > share {
			hour, share = h, lost
		}
	}
	return hour, share
}

// trueWords say what was counted, and what the cap cut by hour of the day.
func (r *run) trueWords(l *cli.Summary) {
	w := &r.workers[0]
	var seen, counted [24]int64
	users := 0
	for day, windows := range r.days {
		users += len(w.days[day])
		for _, user := range w.days[day] {
			for i, word := range user.seen {
				for ; word != 0; word &= word - 1 {
					seen[r.hour(windows, 64*i+bits.TrailingZeros64(word))]++
				}
			}
			for _, v := range user.Visits() {
				counted[r.hour(windows, int(v.Window))]++
			}
		}
	}
	fmt.Fprintln(l, "true numbers, without noise: keep them on the trusted side")
	l.Line("fixes", "%d, of these %d outside the days and %s; %s", w.fixes, w.outside,
		w.refusedWords(), cli.Quantity(int64(users), "user-day"))
	if w.times != (span{}) {
		l.Line("partial", "the fixes are from %s to %s: a window that starts earlier or ends "+
			"later may have only a part of its reports",
			time.UnixMilli(w.times.firstMS).UTC().Format(time.RFC3339),
			time.UnixMilli(w.times.lastMS).UTC().Format(time.RFC3339))
	}
	r.warnOfEmptyDays(l)
	share, text := capWords(seen, counted)
	l.Line("cap", "%d windows a day leave out %.1f %% of users' windows%s", r.settings.PerDay,
		100*share, text)
	if _, most := mostCut(seen, counted); most > shiftShare {
		l.Line("WARNING",
			"the cap does not cover the users' shifts: late hours are counted too low")
	}
	r.warn(l)
}

// refusedWords says how many fixes no device can have, by reason.
func (w *worker) refusedWords() string {
	text := fmt.Sprintf("%d refused", w.refused.Total())
	if reasons := w.refused.String(); reasons != "" {
		text += " (" + reasons + ")"
	}
	return text
}

// capWords returns the share of users' windows that a cap cuts, and says which by hour of the day.
func capWords(seen, counted [24]int64) (share float64, text string) {
	all, cut := int64(0), int64(0)
	for hour := range seen {
		lost := seen[hour] - counted[hour]
		all, cut = all+seen[hour], cut+lost
		if lost > 0 {
			text += fmt.Sprintf(" %02d h %.0f %%", hour, 100*float64(lost)/float64(seen[hour]))
		}
	}
	return float64(cut) / float64(max(all, 1)), text
}

// warnOfEmptyDays warns of days of a typical day that nobody has driven on.
func (r *run) warnOfEmptyDays(l *cli.Summary) {
	empty := 0
	for _, users := range r.workers[0].days {
		if len(users) == 0 {
			empty++
		}
	}
	if r.typical != nil && 0 < empty && empty < len(r.days) {
		l.Line("WARNING", "%d of %d days have no fix, and lower all averages: correct --from and "+
			"--to if the files end earlier", empty, len(r.days))
	}
}

// warnOfNothing warns where nobody is on the days, or on the map, and reports whether it did.
func (r *run) warnOfNothing(l *cli.Summary, onMap float64) bool {
	switch w := &r.workers[0]; {
	case w.fixes > 0 && 2*w.refused.Total() > w.fixes:
		l.Line("WARNING", "%s of %d fixes: %s", w.refusedWords(), w.fixes,
			w.refused.Advice("", 0))
	case w.fixes == w.outside+w.refused.Total():
		l.Line("WARNING", "no fix lies in these days, so all numbers are noise alone: correct "+
			"--from, --to or --time-zone")
	case onMap == 0:
		l.Line("WARNING", "all fixes of these days lie outside the zones, whose numbers are noise "+
			"alone")
	default:
		return false
	}
	return true
}

// warn says where the published numbers are noise above all.
func (r *run) warn(l *cli.Summary) {
	// Of a typical day both are averages over its days.
	zones, scale := r.zones.Count()-1, float64(r.settings.PerDay)/r.settings.Epsilon
	around := r.inZones.around() / float64(zones)
	if r.typical != nil {
		around /= float64(len(r.days))
	}
	if !r.warnOfNothing(l, r.inZones.vehicles) && around < scale {
		l.Line("WARNING", "the fleet is smaller than the noise: %.3g vehicles in a zone and "+
			"window, noise of scale %.3g. Leave --per-day out to see for which zones estimate is "+
			"useful", around, scale)
	}
}

// hour is the hour of the day at which a window of a day starts.
func (r *options) hour(windows []counts.Window, index int) int {
	return r.plan.Hour(windows[index].StartMS)
}
