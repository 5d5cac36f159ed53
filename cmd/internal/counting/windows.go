package counting

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// Windows counts the fixes of one raw partition. It is a task's Processor and its Partitioned. Its
// settings need no key, because it draws no noise.
type Windows struct {
	settings Settings
	digest   digest
	reader   *engine.Reader
	by       engine.Partitioner
	at       engine.Partition
	targets  int32 // partitions of the partials' topic

	open    counts.Window // the first one that is not closed
	oldest  counts.Date   // the first day with a window that is not closed
	counts  openCounts
	changed bool                            // open, or rules
	until   counts.Date                     // the last day of rules
	expires bool                            // users' days may have been closed
	tally   engine.Tally                    // since the last Take
	days    map[counts.Date][]counts.Window // scratch
	state   []byte                          // scratch: a user's
	own     []task.Change                   // scratch: the partition's
}

// NewWindows makes the processor of a raw partition. targets is the number of partitions of the
// partials' topic.
func NewWindows(
	s Settings, source engine.Source, by engine.Partitioner, at engine.Partition, targets int32,
) (*Windows, error) {
	if err := engine.OneAccount(by, source, at.Of); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
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
func (w *Windows) Key(rec task.Record) (key []byte, read any, err error) {
	return w.reader.Key(rec)
}

// Process implements task.Processor. A fix that does not count is no dead letter. Which fixes count
// follows from other fixes of the user, so the tally knows only what each fix by itself shows, and
// neither the cap nor repeats.
func (w *Windows) Process(rec task.Record, state []byte, fx *task.Effects) error {
	fixes, err := w.Fixes(rec)
	if err != nil {
		return err
	}
	for _, fix := range fixes {
		switch {
		case fix.Skipped != mapping.NoRule:
			w.tally.RecordsSkipped++
			w.tally.SkippedByRule[fix.Skipped]++
		case fix.Refused != nil:
			w.tally.Refuse(fix.Refused.Reason, rec.Value)
		default:
			w.tally.Refusals.Sound++
			if state, err = w.count(rec, fix, state, fx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fixes returns the fixes of a record in order. It checks each by itself: what it says, its key,
// its times, the partition it lies in, and whether its window admits it. No check looks at other
// fixes. The result and errors are as in engine.Reader.Fixes.
func (w *Windows) Fixes(rec task.Record) ([]engine.Fix, error) {
	return w.settings.Fixes(w.reader, w.by, w.at, rec)
}

// Fixes is Windows.Fixes of a partition, for those who read its records again.
func (s Settings) Fixes(
	reader *engine.Reader, by engine.Partitioner, at engine.Partition, rec task.Record,
) ([]engine.Fix, error) {
	home, known := by.Partition(rec.Key, at.Of)
	fixes, err := reader.Fixes(rec)
	for i := range fixes {
		switch fix := &fixes[i]; {
		case !fix.Usable():
		case known && home != at.Number: // which would have a second counter of the user's day
			fix.Refused = &schemas.Rejection{Reason: schemas.ReasonWrongPartition}
		default:
			s.admit(fix, rec.Timestamp)
		}
	}
	return fixes, err
}

// admit refuses a fix that its window does not admit, and skips one of a day before the first.
func (s Settings) admit(fix *engine.Fix, appendMS int64) {
	eventMS := fix.Raw.Timestamp
	window := s.Plan.At(eventMS)
	switch {
	case window.Day < s.First:
		fix.Skipped = BeforeFirst
	case s.Admission.Admits(window, eventMS, appendMS):
	case eventMS > appendMS+s.Admission.MaxAheadMS:
		fix.Refused = &schemas.Rejection{Reason: schemas.ReasonTimestampAhead}
	default:
		fix.Refused = &schemas.Rejection{Reason: schemas.ReasonAfterGrace}
	}
}

// BeforeFirst is the rule, behind those of any mapping, that skips fixes of days before the first
// one. Rules names it.
const BeforeFirst = mapping.MaxRules

// Rules are those of an input and BeforeFirst, by their numbers.
func Rules(input engine.Input) []string {
	rules := make([]string, BeforeFirst+1)
	copy(rules, input.Rules())
	rules[BeforeFirst] = "before counts.first"
	return rules
}

// Look says how a sound fix lies to the zones: outside of all, or in one with latitude and
// longitude exchanged. It is for a look at records before any of them is counted: how many lie in a
// zone is a true count.
func (w *Windows) Look(fix schemas.Raw) (step int64, place engine.Placement, err error) {
	in := func(lat, lon float64) bool {
		return w.settings.Zones.Of(lat, lon) < int32(w.settings.Zones.Count())-1
	}
	place.Outside = !in(fix.Latitude, fix.Longitude)
	place.Swapped = place.Outside && in(fix.Longitude, fix.Latitude)
	return 0, place, nil
}

// count counts a fix that is admitted if its user's day has room for it. It returns the user's
// state after it.
func (w *Windows) count(
	rec task.Record, fix engine.Fix, state []byte, fx *task.Effects,
) ([]byte, error) {
	window := w.settings.Plan.At(fix.Raw.Timestamp)
	if window.StartMS < w.open.StartMS {
		w.tally.Late++
		return state, nil
	}
	user, err := decodeUser(state)
	if err != nil {
		return nil, fmt.Errorf("partition %d, offset %d: %w", w.at.Number, rec.Offset, err)
	}
	user = slices.DeleteFunc(user, func(d userDay) bool { return d.date < w.oldest })
	if !user.on(window.Day).next(w.index(window), w.settings.PerDay) {
		return state, nil
	}
	w.counts.countIn(window.StartMS, w.settings.Zones.Of(fix.Raw.Latitude, fix.Raw.Longitude))
	w.changed = w.changed || window.Day > w.until
	w.state = user.appendTo(w.state[:0])
	fx.State = w.state
	return w.state, nil
}

// Take returns what has come of fixes since the last call or Restored, and starts again from
// nothing. Late are those that would have counted in windows that were closed before they came.
// While clocks and replication keep within SkewMS nothing is late, and the bound of what a user
// changes holds. Beyond SkewMS it is not promised: how late a fix is read may depend on the records
// of others.
func (w *Windows) Take() (t engine.Tally) {
	t, w.tally = w.tally, engine.Tally{}
	return t
}

// windows are those of a day.
func (w *Windows) windows(day counts.Date) []counts.Window {
	all := w.days[day]
	if all == nil {
		if len(w.days) > 4 { // also in a backlog: a day's windows can be made again
			clear(w.days)
		}
		all = w.settings.Plan.Windows(day)
		w.days[day] = all
	}
	return all
}

// index is the place of a window among those of its day.
func (w *Windows) index(window counts.Window) uint16 {
	at, _ := counts.Index(w.windows(window.Day), window.StartMS)
	return uint16(at)
}

// goTo makes a window the first open one. A clock that was put back over midnight shows a part of
// the day before after it, so that day may still be open.
func (w *Windows) goTo(window counts.Window) {
	w.open = window
	oldest, before := window.Day, w.windows(window.Day-1)
	if n := len(before); n > 0 && before[n-1].StartMS >= window.StartMS {
		oldest--
	}
	w.expires, w.oldest = w.expires || oldest != w.oldest, oldest
}

// close writes the partial of the first open window. It depends on the partition's states alone, so
// it is the same whenever the window is closed.
func (w *Windows) close(fx *task.Effects) {
	start := w.open.StartMS
	p := partial{w.digest.ofWindows(w.open), w.at.Number, start, w.counts.close(start)}
	fx.Output = append(fx.Output, task.Message{
		Key: windowKey(start), Value: p.appendTo(nil), Timestamp: w.settings.deadline(w.open),
		To: task.ToPartition(w.settings.Target(start, int(w.targets))),
	})
	w.goTo(w.settings.after(w.open))
	w.changed = true
}

// Deadline implements task.Partitioned.
func (w *Windows) Deadline() (ms int64, ok bool) { return w.settings.deadline(w.open), true }

// Passed implements task.Partitioned.
func (w *Windows) Passed(ms int64, fx *task.Effects) error {
	for w.settings.deadline(w.open) <= ms {
		w.close(fx)
	}
	return nil
}

// errSettings: two caps, two ε or two sets of zones in one day would be no guarantee at all.
var errSettings = errors.New("this group has counted under other settings (counts-restart)")

// errRules: the windows of the states are not those of this program.
var errRules = errors.New("counts.time_zone has other rules now for open days (counts-restart)")

// Restored implements task.Partitioned. A partition without states begins with the first window of
// the first day.
func (w *Windows) Restored(states []task.Change) error {
	w.counts = openCounts{windows: map[int64]map[int32]*chunk{}}
	w.changed, w.expires, w.tally = len(states) == 0, true, engine.Tally{}
	if len(states) == 0 {
		first := w.settings.Plan.Windows(w.settings.First)
		if len(first) == 0 {
			return fmt.Errorf("the calendar of %s has no %v", w.settings.Plan.Zone(),
				w.settings.First)
		}
		w.goTo(first[0])
		return nil
	}
	errOther := errors.New("the partition's states are not those of counts (counts-restart)")
	var openMS int64
	var rules *digest // nil: not found
	for _, s := range states {
		if len(s.Key) > 0 {
			if err := w.counts.restore(s.Key, s.Value, w.settings.Zones.Count()); err != nil {
				return errors.Join(errOther, err)
			}
			continue
		}
		r := readerOf(s.Value)
		r.version()
		by, start := digest(r.take(len(w.digest))), r.Varint()
		under := digest(r.take(len(w.digest)))
		if r.Short || len(r.Rest) > 0 {
			return errOther
		}
		if by != w.digest {
			return errSettings
		}
		openMS, rules = start, &under
	}
	if rules == nil {
		return errOther
	}
	w.goTo(w.settings.Plan.At(openMS))
	if w.open.StartMS != openMS || w.rules() != *rules {
		return errRules // a window would overlap one that was published, or a day another
	}
	return nil
}

// rules stand for the windows of days that have states of users: open ones up to the newest that
// was counted on, which in a backlog is far ahead. The day after the first open window is always
// among them, because clocks may be ahead. Rules of other days may change meanwhile.
func (w *Windows) rules() digest {
	w.until = w.open.Day + 1
	for startMS := range w.counts.windows {
		w.until = max(w.until, w.settings.Plan.At(startMS).Day)
	}
	var all []counts.Window
	for day := w.oldest; day <= w.until; day++ {
		all = append(all, w.windows(day)...)
	}
	return w.digest.ofWindows(all...)
}

// Changes implements task.Partitioned. Beside the counts of open windows there is a state without a
// name: version 1, settings 8, the first open window's start in ms, and rules 8.
func (w *Windows) Changes() []task.Change {
	w.own = w.own[:0]
	if w.changed {
		w.changed = false
		b := binary.AppendVarint(append([]byte{version}, w.digest[:]...), w.open.StartMS)
		rules := w.rules()
		w.own = append(w.own, task.Change{Value: append(b, rules[:]...)})
	}
	w.own = w.counts.changes(w.own)
	return w.own
}

// Expires implements task.Partitioned: users' days that are closed mean nothing any more.
func (w *Windows) Expires() func(state []byte) bool {
	if !w.expires {
		return nil
	}
	w.expires = false
	oldest := w.oldest
	return func(state []byte) bool {
		user, err := decodeUser(state)
		return err == nil && len(user) > 0 && user[len(user)-1].date < oldest
	}
}

// zonesOfChunk is how many zones share a state of the partition. A fix that counts rewrites one
// such state: some hundred bytes at most, where all of 10,000 zones and six windows are 120 kB.
const zonesOfChunk = 128

// openCounts are the counts of windows that are not closed, in states of the partition by window
// and chunk of zones.
type openCounts struct {
	windows map[int64]map[int32]*chunk // by start in ms, then by number
	changed []chunkKey                 // since the last changes
	removed []chunkKey
}

// chunk is the counts of zones that follow each other.
type chunk struct {
	counts  [zonesOfChunk]uint32
	changed bool
}

type chunkKey struct {
	startMS int64
	number  int32
}

// name is that of the chunk's state: the window's start and the chunk's number, so never empty.
func (k chunkKey) name() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(k.startMS))
	return binary.AppendUvarint(b, uint64(k.number))
}

func (o *openCounts) chunk(k chunkKey) *chunk {
	window := o.windows[k.startMS]
	if window == nil {
		window = map[int32]*chunk{}
		o.windows[k.startMS] = window
	}
	c := window[k.number]
	if c == nil {
		c = new(chunk)
		window[k.number] = c
	}
	return c
}

// countIn counts a user in a zone of a window.
func (o *openCounts) countIn(startMS int64, zone int32) {
	k := chunkKey{startMS, zone / zonesOfChunk}
	c := o.chunk(k)
	c.counts[zone%zonesOfChunk]++
	if !c.changed {
		c.changed = true
		o.changed = append(o.changed, k)
	}
}

// close removes a window and returns its counts, by zone and without zeros.
func (o *openCounts) close(startMS int64) (all []zoneCount) {
	window := o.windows[startMS]
	for _, number := range slices.Sorted(maps.Keys(window)) {
		all = append(all, window[number].list(number*zonesOfChunk)...)
		o.removed = append(o.removed, chunkKey{startMS, number})
	}
	delete(o.windows, startMS)
	return all
}

// list returns the counts that are not zero, of zones from first on.
func (c *chunk) list(first int32) (all []zoneCount) {
	for i, n := range c.counts {
		if n > 0 {
			all = append(all, zoneCount{first + int32(i), int64(n)})
		}
	}
	return all
}

// changes appends the states that have changed since the last call.
func (o *openCounts) changes(dst []task.Change) []task.Change {
	for _, k := range o.changed {
		if c := o.windows[k.startMS][k.number]; c != nil { // else it was closed since
			c.changed = false
			value := appendCounts([]byte{version}, c.list(0))
			dst = append(dst, task.Change{Key: k.name(), Value: value})
		}
	}
	for _, k := range o.removed {
		dst = append(dst, task.Change{Key: k.name()})
	}
	o.changed, o.removed = o.changed[:0], o.removed[:0]
	return dst
}

var errChunk = errors.New("a state of the partition cannot be read")

// restore takes a state that changes wrote.
func (o *openCounts) restore(name, value []byte, zones int) error {
	at, is := readerOf(name), readerOf(value)
	startMS, number := int64(binary.BigEndian.Uint64(at.take(8))), at.Uvarint()
	is.version()
	all := is.counts(zonesOfChunk)
	if at.Short || is.Short || len(at.Rest) > 0 || number > uint64(zones/zonesOfChunk) {
		return errChunk
	}
	c := o.chunk(chunkKey{startMS, int32(number)})
	for _, z := range all {
		c.counts[z.zone] = uint32(z.count)
	}
	return nil
}

// userState is in which windows a user counts, by day, of days that are not closed. It is what
// counts.Counter says of a log in its order, without places. Bytes, as uvarints:
//
//	version 1 | for each day: days since the one before, or 1970 | n |
//	n × index of the window, less the one before it, from -1 on, and less one
type userState []userDay

type userDay struct {
	date    counts.Date
	windows []uint16 // indexes in Plan.Windows, ascending
}

// on returns a day.
func (u *userState) on(date counts.Date) *userDay {
	at, found := slices.BinarySearchFunc(*u, date, func(d userDay, date counts.Date) int {
		return cmp.Compare(d.date, date)
	})
	if !found {
		*u = slices.Insert(*u, at, userDay{date: date})
	}
	return &(*u)[at]
}

// next says whether a fix counts that comes after all others: it is the first one of its window,
// and the day has room for it.
func (d *userDay) next(window uint16, perDay int) (counted bool) {
	at, found := slices.BinarySearch(d.windows, window)
	if found || len(d.windows) >= perDay {
		return false
	}
	d.windows = slices.Insert(d.windows, at, window)
	return true
}

func (u userState) appendTo(b []byte) []byte {
	b = append(b, version)
	date := counts.Date(0)
	for _, d := range u {
		b = binary.AppendUvarint(b, uint64(d.date-date))
		b = binary.AppendUvarint(b, uint64(len(d.windows)))
		before := -1
		for _, window := range d.windows {
			b = binary.AppendUvarint(b, uint64(int(window)-before-1))
			before = int(window)
		}
		date = d.date
	}
	return b
}

var errUser = errors.New("a user's day cannot be read (counts-restart)")

// decodeUser reads a state; no bytes are a user who has not counted.
func decodeUser(b []byte) (u userState, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	r, date := readerOf(b), uint64(0)
	r.version()
	for len(r.Rest) > 0 {
		later, n := r.Uvarint(), r.Uvarint()
		if later == 0 || later > math.MaxInt32-date || n == 0 || n > counts.MaxPerDay {
			return nil, errUser
		}
		date += later
		day, window := userDay{date: counts.Date(date)}, uint64(0)
		for range n {
			window += r.Uvarint() + 1
			if window > counts.MaxPerDay {
				return nil, errUser
			}
			day.windows = append(day.windows, uint16(window-1))
		}
		u = append(u, day)
	}
	if r.Short {
		return nil, errUser
	}
	return u, nil
}

// Eraser is task.Eraser for users' days. An erased user's day stays until it is closed, without a
// place: without it the user would count once more that day. It stays also where an account of ε is
// dropped, because that is no matter of the counts. Windows removes it with the states of all users
// of that day (Partitioned.Expires).
//
// Names have no key: the changelog has ids until a day is closed.
type Eraser struct{}

// erasedLabel comes before the user in what the name of an erased user is the hash of.
const erasedLabel = "geodither erased counted user 1\x00"

// RequestKey returns the changelog's key of a request to erase a user.
func (*Eraser) RequestKey(user []byte) []byte { return erasedName(task.RequestKey, user) }

// Kept implements task.Eraser.
func (*Eraser) Kept(user []byte) []byte { return erasedName(task.KeptKey, user) }

func erasedName(prefix string, user []byte) []byte {
	sum := sha256.Sum256(append([]byte(erasedLabel), user...))
	return append([]byte(prefix), sum[:]...)
}

// Erase implements task.Eraser.
func (*Eraser) Erase(_ task.Request, _ int64, state, kept []byte) (remains []byte, err error) {
	if len(state) > 0 {
		return state, nil
	}
	return kept, nil
}

// Owes implements task.Eraser. There is no account.
func (*Eraser) Owes([]byte) (bool, error) { return false, nil }

// Recall implements task.Eraser.
func (*Eraser) Recall(kept []byte) (state, remains []byte, err error) { return kept, nil, nil }
