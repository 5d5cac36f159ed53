package explore

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/geodither/geodither/cmd/internal/countfiles"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// hidden is what Off is without the truth.
func hidden() Off {
	none := number(math.NaN())
	return Off{none, none, none, none}
}

// publication is what is published of a fleet, with estimates by slot and zone.
type publication struct {
	Usual
	of             *driven
	typical, daily [][]float64
}

func (*publication) rowsDone() int64 { return 0 }

// priced is what the noise of a publication depends on.
type priced struct {
	epsilon float64
	seed    uint64
}

// publications are those of one fleet.
type publications struct {
	kept  shelf[priced, *publication]
	fleet func() (*driven, error)
}

func newPublications(o Options) *publications {
	return &publications{
		kept: shelf[priced, *publication]{least: 4},
		fleet: sync.OnceValues(func() (*driven, error) {
			plan, err := counts.NewPlan(cmp.Or(o.TimeZone, "UTC"), slotLength)
			if err != nil {
				return nil, errOther(err.Error())
			}
			users := o.Truth.users
			if o.Truth.sample { // eight buses are no fleet
				users = simulated(o.Truth)
			}
			d, err := drive(users, plan, o.Truth.model.Grid, o.Outline)
			if err == nil {
				d.Simulated = o.Truth.sample
			}
			return d, err
		}),
	}
}

// at returns a publication, a kept one if it was asked for before.
func (k *publications) at(ctx context.Context, q priced) (*publication, error) {
	d, err := k.fleet()
	if err != nil {
		return nil, err
	}
	return k.kept.get(q, func() (*publication, int, error) {
		p, err := d.publish(ctx, q)
		return p, d.zones.on.Cells(), err
	})
}

// publish publishes the typical day, and each day for itself.
func (d *driven) publish(ctx context.Context, q priced) (*publication, error) {
	key, settings := noise.KeyFromSeed(q.seed), counts.Settings{
		Source: "page", Edition: 1, Epsilon: q.epsilon, PerDay: d.PerDay,
	}
	once, err := counts.NewTypical(noise.NewKeyed(key), d.zones.Zones, settings, d.typical)
	if err != nil {
		return nil, errOther(err.Error())
	}
	typical, err := estimated(once, d.typical.Slots, d.capped)
	if err != nil {
		return nil, err
	}
	each, err := d.daily(ctx, key, settings)
	if err != nil {
		return nil, err
	}
	p := &publication{Usual: d.Usual, of: d}
	p.Epsilon, p.HalfWidth = q.epsilon, float64(once.HalfWidth())/float64(d.Days)
	settings.Epsilon = math.Floor(1e9*q.epsilon/float64(d.Days)) / 1e9 // it has nine decimals
	if p.daily, err = d.daily(ctx, key, settings); err != nil {
		return nil, err
	}
	var all scores
	for i, slot := range typical {
		p.typical = append(p.typical, slot.Estimates)
		own, off := scores{}, hidden()
		for _, s := range []*scores{&own, &all} {
			s.typical.Add(p.typical[i], d.seen[i])
			s.daily.Add(p.daily[i], d.seen[i])
			s.each.Add(each[i], d.seen[i])
			s.even.Add(countfiles.Evenly(d.zones.Count()), d.seen[i])
		}
		if own.even.Seen() {
			off = own.off()
		}
		p.Slots = append(p.Slots, Slot{slot.StartMS, slot.EndMS, off})
	}
	if p.Off = hidden(); all.even.Seen() {
		p.Off = all.off()
	}
	return p, nil
}

// scores compare maps with the truth.
type scores struct{ typical, daily, each, even countfiles.Score }

func (s *scores) off() Off {
	return Off{
		number(s.typical.Share()), number(s.daily.Share()), number(s.each.Share()),
		number(s.even.Share()),
	}
}

// daily returns the mean of the estimates of daily counts, by slot and zone.
func (d *driven) daily(
	ctx context.Context, key noise.Key, settings counts.Settings,
) ([][]float64, error) {
	days := make([][]counts.Published, d.Days)
	err := parallel.Pool{Workers: runtime.GOMAXPROCS(0)}.Each(d.Days, func(i int) error {
		p, err := counts.NewPublisher(noise.NewKeyed(key), d.zones.Zones, settings)
		if err != nil {
			return errOther(err.Error())
		}
		days[i], err = estimated(p, counts.SlotsOf(d.typical.Days[i]), d.tallies[i])
		return cmp.Or(err, ctx.Err())
	})
	if err != nil {
		return nil, err
	}
	at, means := map[int]int{}, make([][]float64, len(d.typical.Slots))
	for i, slot := range d.typical.Slots {
		at[int(slot.StartMS/slotLength.Milliseconds())] = i
		means[i] = make([]float64, d.zones.Count())
	}
	for _, w := range slices.Concat(days...) {
		i := at[d.plan.Hour(w.StartMS)]
		for zone, x := range w.Estimates {
			means[i][zone] += x / float64(d.typical.Slots[i].Windows)
		}
	}
	return means, nil
}

// estimated publishes what is estimated together.
func estimated(
	p *counts.Publisher, slots []counts.Slot, sums [][]int64,
) (all []counts.Published, err error) {
	all = make([]counts.Published, len(slots))
	for i, slot := range slots {
		if all[i], err = p.PublishSlot(slot, sums[i], nil); err != nil {
			return nil, err
		}
	}
	p.Estimate(all)
	return all, nil
}

// with returns the maps of a slot. Without the truth they are what is published. The cap, the days
// and the zones are chosen by the traces all the same.
func (p *publication) with(slot int, truth bool) *Usual {
	all, d := p.Usual, p.of
	shown, means := slices.Concat(p.typical, p.daily), make([][]float64, len(d.seen))
	for i, row := range d.seen {
		for _, n := range row {
			means[i] = append(means[i], float64(n)/float64(d.typical.Slots[i].Windows))
		}
	}
	if truth {
		all.Vehicles, shown = number(d.vehicles), slices.Concat(shown, means)
	} else {
		all.Vehicles, all.Off, all.Slots = number(math.NaN()), hidden(), slices.Clone(all.Slots)
		for i := range all.Slots {
			all.Slots[i].Off = hidden()
		}
	}
	most := 0. // one scale for the whole day
	for _, row := range shown {
		if d.zones.squares != nil {
			row = row[:len(row)-1] // elsewhere is not drawn
		}
		most = max(most, slices.Max(row))
	}
	field := func(row []float64) *Field { return fieldOfZones(d.zones, row, most) }
	all.Typical, all.Daily = field(p.typical[slot]), field(p.daily[slot])
	if truth {
		all.Truth = field(means[slot])
	}
	return &all
}
