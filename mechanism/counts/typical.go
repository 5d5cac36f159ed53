package counts

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/noise"
)

// Typical is a typical day: one publication about many days, which the calendar alone has chosen.
// For each slot, a time of the day, and each zone it sums up all its windows.
//
// Guarantee: a user counts on each day as in a Counter. So all that a user does on these days,
// added or removed, changes the sums by at most PerDay for each of the D days. The noise of every
// sum has the scale D·PerDay/ε. So what is published is ε-differentially private for one such
// period, 2ε for one in place of another, and ε/D for one day added or removed. PROOFS.md, "counts:
// a typical day", has the proof.
type Typical struct {
	// Days are the windows of each day that was chosen. A day on which nobody reports is one too.
	Days   [][]Window
	Slots  []Slot
	length int64
	digest [sha256.Size]byte
	key    noise.Day
}

// Slot is a time of the day.
type Slot struct {
	// Window is its time by the clock: milliseconds since midnight. Its Day is 0.
	Window
	Windows int // how many windows start in it, on all days
}

// Typical returns the typical day of some weekdays, from a first day to the one before end, without
// some days such as holidays. All three must be chosen without a look at the fixes. The range has
// to be over before anything is published, or fixes that come later cost a further ε.
func (p *Plan) Typical(first, end Date, weekdays hours.Days, without []Date) (*Typical, error) {
	all, err := p.Between(first, end-1)
	if err != nil {
		return nil, err
	}
	t := &Typical{length: p.length}
	last := all[len(all)-1]
	t.key = noise.DayAt(last[len(last)-1].StartMS)
	leave := map[Date]bool{}
	for _, day := range without {
		leave[day] = true
	}
	slots := make([]int, dayMS/p.length)
	b := fmt.Appendf(nil, "geodither typical day 1: %v %v %q %q %d\n", first, end, p.name,
		hours.ZoneVersion, p.length)
	for _, windows := range all {
		day := windows[0].Day
		if leave[day] || !weekdays.Has(day.weekday()) {
			continue
		}
		t.Days = append(t.Days, windows)
		for _, w := range windows {
			slot := p.clock(w.StartMS) / p.length
			slots[slot]++
			for _, n := range [...]int64{w.StartMS, w.EndMS, slot} {
				b = binary.BigEndian.AppendUint64(b, uint64(n))
			}
		}
	}
	if len(t.Days) == 0 {
		return nil, errors.New("the range has none of these days")
	}
	for slot, windows := range slots {
		if start := int64(slot) * p.length; windows > 0 {
			t.Slots = append(t.Slots, Slot{Window{start, start + p.length, 0}, windows})
		}
	}
	t.digest = sha256.Sum256(b)
	return t, nil
}

// clock is what the zone's clock shows, milliseconds since midnight.
func (p *Plan) clock(ms int64) int64 { return remainder(ms+p.offset(ms), dayMS) }

func (d Date) weekday() time.Weekday { return time.UnixMilli(int64(d) * dayMS).UTC().Weekday() }

// Digest stands for the range, the days, their windows and the rules of the time zone.
func (t *Typical) Digest() [sha256.Size]byte { return t.digest }

// SlotsOf returns a day's windows, each of them for itself.
func SlotsOf(day []Window) []Slot {
	slots := make([]Slot, len(day))
	for i, w := range day {
		slots[i] = Slot{w, 1}
	}
	return slots
}

// Sums returns a 0 for each zone of each slot.
func (t *Typical) Sums(zones *Zones) [][]int64 {
	sums := make([][]int64, len(t.Slots))
	for slot := range sums {
		sums[slot] = make([]int64, zones.Count())
	}
	return sums
}

// Add adds a day's Tally to Sums.
func (t *Typical) Add(sums [][]int64, p *Plan, day []Window, tally [][]int64) {
	at := map[int64]int{}
	for i, slot := range t.Slots {
		at[slot.StartMS] = i
	}
	for i, w := range day {
		clock := p.clock(w.StartMS)
		row := sums[at[clock-clock%t.length]]
		for zone, n := range tally[i] {
			row[zone] += n
		}
	}
}
