package counting

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/schemas/mapping"
)

// Windows counts the fixes of one raw partition. It is a task's Processor and its Partitioned. Its
// settings need no key, because it draws no noise.
type Windows struct {
	settings Settings
	digest   string
	reader   *engine.Reader
	by       engine.Partitioner
	at       engine.Partition
	targets  int32 // partitions of the partials' topic

	open    counts.Window // the first one that is not closed
	counts  []partial     // of open windows, by time
	changed bool
	days    map[counts.Date][]counts.Window // scratch
	state   []byte                          // scratch: a user's
	own     []byte                          // scratch: the partition's
}

// NewWindows makes the processor of a raw partition. targets is the number of partitions of the
// partials' topic.
func NewWindows(
	s Settings, source engine.Source, by engine.Partitioner, at engine.Partition, targets int32,
) (*Windows, error) {
	if by == engine.AnyPartitioner {
		return nil, errors.New("topics.partitioner: with any a user could count in each " +
			"partition: name the one that the producers use")
	}
	reader, err := engine.NewReader(source)
	if err != nil {
		return nil, err
	}
	return &Windows{
		settings: s, digest: s.digest(), reader: reader, by: by, at: at, targets: targets,
		days: map[counts.Date][]counts.Window{},
	}, nil
}

// Key implements task.Dependencies.Key.
func (w *Windows) Key(rec task.Record) ([]byte, error) { return w.reader.Key(rec) }

// Process implements task.Processor. A fix that does not count is no dead letter: which fixes those
// are follows from other fixes of the user.
func (w *Windows) Process(rec task.Record, state []byte, fx *task.Effects) error {
	for w.settings.closes(w.open) < rec.Timestamp {
		if err := w.close(fx); err != nil {
			return err
		}
	}
	home, ok := w.by.Partition(rec.Key, w.at.Of)
	if ok && home != w.at.Number {
		return nil // a second partition would have a second counter of the user's day
	}
	return w.reader.Each(rec, func(fix engine.Fix) error {
		if fix.Refused == nil && fix.Skipped == mapping.NoRule {
			return w.take(rec, fix, &state, fx)
		}
		return nil
	})
}

// take counts a fix if it is admitted and its user's day has room for it. state is the user's.
func (w *Windows) take(
	rec task.Record, fix engine.Fix, state *[]byte, fx *task.Effects,
) error {
	window := w.settings.Plan.At(fix.Raw.Timestamp)
	if window.Day < w.settings.First ||
		!w.settings.Admission.Admits(window, fix.Raw.Timestamp, rec.Timestamp) {
		return nil
	}
	if window.StartMS < w.open.StartMS {
		return fmt.Errorf("partition %d, offset %d: the append time goes back by more than %v: "+
			"set the brokers' clocks right, and allow for more", w.at.Number, rec.Offset,
			time.Duration(w.settings.SkewMS)*time.Millisecond)
	}
	user, err := decodeUser(*state)
	if err != nil {
		return fmt.Errorf("partition %d, offset %d: %w", w.at.Number, rec.Offset, err)
	}
	// A clock that was put back over midnight shows parts of the day before after it.
	user = slices.DeleteFunc(user, func(d userDay) bool { return d.date < w.open.Day-1 })
	zone := w.settings.Zones.Of(fix.Raw.Latitude, fix.Raw.Longitude)
	if !user.on(window.Day).Next(w.index(window), zone, w.settings.PerDay) {
		return nil
	}
	w.add(window, zone)
	w.state = user.appendTo(w.state[:0])
	fx.State, *state = w.state, w.state
	return nil
}

// index is the place of a window among those of its day.
func (w *Windows) index(window counts.Window) uint16 {
	all := w.days[window.Day]
	if all == nil {
		if len(w.days) > 4 { // more days than can be open are not in use any more
			clear(w.days)
		}
		all = w.settings.Plan.Windows(window.Day)
		w.days[window.Day] = all
	}
	return uint16(slices.Index(all, window))
}

// add counts a user in a window.
func (w *Windows) add(window counts.Window, zone int32) {
	w.changed = true
	at, found := slices.BinarySearchFunc(w.counts, window.StartMS, func(p partial, ms int64) int {
		return cmp.Compare(p.StartMS, ms)
	})
	if !found {
		w.counts = slices.Insert(w.counts, at,
			partial{Partition: w.at.Number, StartMS: window.StartMS, Counts: []zoneCount{}})
	}
	p := &w.counts[at]
	i, found := slices.BinarySearchFunc(p.Counts, zone, func(c zoneCount, zone int32) int {
		return cmp.Compare(c.Zone, zone)
	})
	if !found {
		p.Counts = slices.Insert(p.Counts, i, zoneCount{Zone: zone})
	}
	p.Counts[i].Count++
}

// close writes the partial of the first open window. It depends on the partition's state alone, so
// it is the same whichever record, or none, closes the window.
func (w *Windows) close(fx *task.Effects) error {
	p := partial{Partition: w.at.Number, StartMS: w.open.StartMS, Counts: []zoneCount{}}
	if len(w.counts) > 0 && w.counts[0].StartMS == p.StartMS {
		p, w.counts = w.counts[0], w.counts[1:]
	}
	p.Settings = w.digest
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	target := p.StartMS / w.settings.Plan.Length().Milliseconds() % int64(w.targets)
	fx.Output = append(fx.Output, task.Message{
		Key: windowKey(p.StartMS), Value: value, Timestamp: w.settings.deadline(w.open),
		To: task.ToPartition(int32(target)),
	})
	w.open, w.changed = w.settings.after(w.open), true
	return nil
}

// Deadline implements task.Partitioned.
func (w *Windows) Deadline() (ms int64, ok bool) { return w.settings.closes(w.open), true }

// Passed implements task.Partitioned.
func (w *Windows) Passed(ms int64, fx *task.Effects) error {
	for w.settings.closes(w.open) <= ms {
		if err := w.close(fx); err != nil {
			return err
		}
	}
	return nil
}

// ownState is the partition's state.
type ownState struct {
	Settings string    `json:"settings"`
	OpenMS   int64     `json:"open_ms"`
	Counts   []partial `json:"counts"`
}

// errSettings: two caps, two ε or two sets of zones in one day would be no guarantee at all.
var errSettings = errors.New("this group has counted under other settings: put them back, or " +
	"name a group and topics of their own, at a further ε")

// Restored implements task.Partitioned. A partition without a state begins with the first window
// of the first day.
func (w *Windows) Restored(state []byte) error {
	w.counts, w.changed = nil, false
	if len(state) == 0 {
		first := w.settings.Plan.Windows(w.settings.First)
		if len(first) == 0 {
			return fmt.Errorf("the calendar of %s has no %v: choose another day",
				w.settings.Plan.Zone(), w.settings.First)
		}
		w.open = first[0]
		return nil
	}
	var own ownState
	if err := json.Unmarshal(state, &own); err != nil {
		return errors.Join(errors.New("the partition's state is not one of counts: name a group "+
			"and a changelog of their own"), err)
	}
	if own.Settings != w.digest {
		return errSettings
	}
	w.open, w.counts = w.settings.Plan.At(own.OpenMS), own.Counts
	return nil
}

// State implements task.Partitioned.
func (w *Windows) State() (state []byte, changed bool) {
	changed, w.changed = w.changed, false
	if changed {
		// Numbers and a text: no error.
		w.own, _ = json.Marshal(ownState{w.digest, w.open.StartMS, w.counts})
	}
	return w.own, changed
}

// userState is a user's counters of days that are not closed, by day.
type userState []userDay

type userDay struct {
	date counts.Date
	counts.Counter
}

// on returns the counter of a day.
func (u *userState) on(day counts.Date) *counts.Counter {
	at, found := slices.BinarySearchFunc(*u, day, func(d userDay, day counts.Date) int {
		return cmp.Compare(d.date, day)
	})
	if !found {
		*u = slices.Insert(*u, at, userDay{date: day})
	}
	return &(*u)[at].Counter
}

// appendTo appends the state: for each day the date, the counter's length, and the counter.
func (u userState) appendTo(b []byte) []byte {
	for i := range u {
		counter := u[i].AppendBinary(nil)
		b = binary.AppendVarint(b, int64(u[i].date))
		b = binary.AppendUvarint(b, uint64(len(counter)))
		b = append(b, counter...)
	}
	return b
}

var errUser = errors.New("a user's day counters cannot be read: the changelog holds something else")

func decodeUser(b []byte) (u userState, err error) {
	for len(b) > 0 {
		date, n := binary.Varint(b)
		if n <= 0 {
			return nil, errUser
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, errUser
		}
		day, b2 := userDay{date: counts.Date(date)}, b[n+m:]
		if err := day.DecodeBinary(b2[:size]); err != nil {
			return nil, errors.Join(errUser, err)
		}
		u, b = append(u, day), b2[size:]
	}
	return u, nil
}
