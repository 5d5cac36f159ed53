package counting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

const partitions = 3

// testSettings are of two days around the hour that London's clocks show twice.
func testSettings(t testing.TB) Settings {
	t.Helper()
	plan, err := counts.NewPlan("Europe/London", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	square := func(west float64) [][][][2]float64 {
		return [][][][2]float64{{{
			{west, 51}, {west + 1, 51}, {west + 1, 52}, {west, 52}, {west, 51},
		}}}
	}
	zones, err := counts.Polygons([]counts.Area{
		{Name: "west", Polygons: square(-2)}, {Name: "east", Polygons: square(-1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := counts.ParseDate("2026-10-24")
	if err != nil {
		t.Fatal(err)
	}
	return Settings{
		Settings: counts.Settings{Source: "raw", Edition: 1, Epsilon: 1, PerDay: 3},
		Plan:     plan, Zones: zones, First: first,
		Admission: counts.Admission{GraceMS: 600_000, MaxAheadMS: 60_000},
		SkewMS:    120_000, Partitions: partitions,
	}
}

// fix is one raw record of a user, appended some time after the event.
type fix struct {
	user            string
	eventMS, append int64
	longitude       float64
}

// name is that of a user whose records lie in partition 0 if the number is even, else in 1.
func name(user int) string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("user %d.%d", user, n)
		home, _ := engine.Murmur2.Partition([]byte(name), partitions)
		if int(home) == user%2 {
			return name
		}
	}
}

// fixesOf draws the log of two days: some fixes come late, some lie ahead, and append times go back
// by as much as they may.
func fixesOf(s Settings, seed uint64) (all []fix) {
	rng := rand.New(rand.NewPCG(seed, 1))
	at := s.Plan.Windows(s.First)[0].StartMS
	for at < s.Plan.Windows(s.First + 2)[0].StartMS {
		late := []int64{0, 0, 1000, 300_000, 4_500_000, -30_000, -90_000}[rng.IntN(7)]
		all = append(all, fix{
			user: name(rng.IntN(6)), eventMS: at - late, append: at - rng.Int64N(s.SkewMS),
			longitude: -2.5 + 3*rng.Float64(),
		})
		at += rng.Int64N(1_200_000)
	}
	return all
}

// worker is a task without Kafka: states by key, and what was written.
type worker struct {
	states map[string][]byte
	output []task.Message
	fx     task.Effects
}

func (w *worker) process(t *testing.T, p task.Processor, key []byte, rec task.Record) error {
	t.Helper()
	w.fx = task.Effects{}
	if err := p.Process(rec, w.states[string(key)], &w.fx); err != nil {
		return err
	}
	if len(w.fx.State) > 0 {
		w.states[string(key)] = slices.Clone(w.fx.State)
	}
	for _, m := range w.fx.Output { // as a task does
		m.Key, m.Value = slices.Clone(m.Key), slices.Clone(m.Value)
		w.output = append(w.output, m)
	}
	return nil
}

// states are those of a partition, by name.
type states map[string][]byte

func (s states) take(changes []task.Change) {
	for _, c := range changes {
		if s[string(c.Key)] = slices.Clone(c.Value); len(c.Value) == 0 {
			delete(s, string(c.Key))
		}
	}
}

func (s states) list() (all []task.Change) {
	for name, value := range s {
		all = append(all, task.Change{Key: []byte(name), Value: value})
	}
	return all
}

// read reads a partial that must be one.
func read(t *testing.T, value []byte) partial {
	t.Helper()
	p, err := decodePartial(value)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// passed is the time that is passed before the rest of a log.
type passed func(rest []fix) int64

// soon passes all times that nothing in the rest is earlier than.
func soon(rest []fix) int64 {
	ms := rest[0].append
	for _, f := range rest {
		ms = min(ms, f.append)
	}
	return ms
}

// partialsOf runs a raw partition over its log, to the end of the third day. Each restart hands the
// state back from its bytes. harm changes states before a record, as a planted fault.
func partialsOf(
	t *testing.T, s Settings, at int32, log []fix, when passed, restarts bool,
	harm func(i int, w *worker),
) []task.Message {
	t.Helper()
	source := engine.Source{Encoding: schemas.JSON, MaxAhead: engine.DefaultMaxAhead}
	p, err := NewWindows(s, source, engine.Murmur2, engine.Partition{Number: at, Of: partitions}, 5)
	if err != nil {
		t.Fatal(err)
	}
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{states: map[string][]byte{}}
	if err := p.Restored(nil); err != nil {
		t.Fatal(err)
	}
	pass := func(until int64) {
		for deadline, _ := p.Deadline(); deadline < until; deadline, _ = p.Deadline() {
			w.fx = task.Effects{}
			if err := p.Passed(deadline, &w.fx); err != nil {
				t.Fatal(err)
			}
			w.output = append(w.output, w.fx.Output...)
		}
	}
	own := states{}
	for i, f := range log {
		pass(when(log[i:]))
		if harm != nil {
			harm(i, w)
		}
		value, err := codec.AppendRaw(nil, schemas.Raw{
			UserID: f.user, Timestamp: f.eventMS, Latitude: 51.5, Longitude: f.longitude,
		})
		if err != nil {
			t.Fatal(err)
		}
		rec := task.Record{
			Offset: int64(i), Timestamp: f.append, Key: []byte(f.user), Value: value,
		}
		if err := w.process(t, p, rec.Key, rec); err != nil {
			t.Fatal(err)
		}
		own.take(p.Changes())
		if restarts && i%7 == 0 {
			if err := p.Restored(own.list()); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass(s.Plan.Windows(s.First + 2)[1].StartMS + s.Admission.GraceMS + 1)
	return w.output
}

// byPartition gives each user's fixes to one partition; the last one has none.
func byPartition(log []fix) (parts [partitions][]fix) {
	for _, f := range log {
		at, _ := engine.Murmur2.Partition([]byte(f.user), partitions)
		parts[at] = append(parts[at], f)
	}
	return parts
}

// sums are the true counts of each window, from the bytes of all partials.
func sums(t *testing.T, s Settings, log []fix, harm func(int, *worker)) map[int64][]int64 {
	t.Helper()
	all := map[int64][]int64{}
	for at, part := range byPartition(log) {
		for _, m := range partialsOf(t, s, int32(at), part, soon, false, harm) {
			p := read(t, m.Value)
			if all[p.startMS] == nil {
				all[p.startMS] = make([]int64, s.Zones.Count())
			}
			for _, c := range p.counts {
				all[p.startMS][c.zone] += c.count
			}
		}
	}
	return all
}

// TestWhenClosed: whenever a window is closed, as soon as it may be or after a backlog, the
// partials are the same bytes. There is one for each window, also in a partition without a record.
func TestWhenClosed(t *testing.T) {
	s := testSettings(t)
	windows := 24 + 25 + 1 // the second day has an hour twice
	for seed := range uint64(20) {
		for at, log := range byPartition(fixesOf(s, seed)) {
			all := partialsOf(t, s, int32(at), log, soon, false, nil)
			for _, left := range []int{len(log) / 2, 0} {
				later := partialsOf(t, s, int32(at), log, func(rest []fix) int64 {
					if len(rest) > left {
						return 0
					}
					return soon(rest)
				}, true, nil)
				if len(all) != windows || !reflect.DeepEqual(all, later) {
					t.Fatalf("seed %d, partition %d: %d partials, want %d, and the same %d:\n%v\n"+
						"%v", seed, at, len(all), windows, len(later), all, later)
				}
			}
			for _, m := range all {
				deadline := s.deadline(s.Plan.At(read(t, m.Value).startMS))
				if m.To.Partition(9) >= 5 || m.Timestamp != deadline {
					t.Fatalf("a partial goes to partition %d of 5, at %d, want %d",
						m.To.Partition(9), m.Timestamp, deadline)
				}
			}
		}
	}
}

// TestDeadline: a fix counts up to the last moment of its window's grace, also behind a record of
// a broker whose clock is ahead.
func TestDeadline(t *testing.T) {
	s := testSettings(t)
	window := s.Plan.Windows(s.First)[0]
	last, deadline := window.EndMS-1, s.deadline(window)
	for _, test := range []struct {
		name    string
		appends []int64
		want    int64
	}{
		{"in time", []int64{deadline}, 1},
		{"too late", []int64{deadline + 1}, 0},
		{"after another in time", []int64{deadline, deadline}, 2},
		{"after a clock went back", []int64{deadline + s.SkewMS, deadline}, 1},
		{"after a clock that was years ahead", []int64{deadline + 1<<40, deadline}, 1},
	} {
		var log []fix
		for i, at := range test.appends {
			log = append(log, fix{name(2 * i), last, at, 0})
		}
		later := deadline + s.Plan.Length().Milliseconds()
		log = append(log, fix{name(8), later - s.Admission.GraceMS - 1, later, 0})
		got := int64(-1) // the later one, which always counts
		all := sums(t, s, log, nil)
		for _, zones := range all {
			for _, n := range zones {
				got += n
			}
		}
		if got != test.want || len(all) != 50 {
			t.Errorf("%s: %d count in %d windows, want %d in 50", test.name, got, len(all),
				test.want)
		}
	}
}

// TestLate: a fix that comes after its window was closed does not count, and does not stop the
// service. The user's day has room for another one. Where its transaction is aborted, it comes
// again, and is told once.
func TestLate(t *testing.T) {
	s := testSettings(t)
	s.PerDay = 1
	window := s.Plan.Windows(s.First)[0]
	w, err := NewWindows(s, engine.Source{Encoding: schemas.JSON, MaxAhead: time.Minute},
		engine.Murmur2, engine.Partition{Of: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Restored(nil); err != nil {
		t.Fatal(err)
	}
	deadline, fx := s.deadline(window), new(task.Effects)
	if err := w.Passed(deadline, fx); err != nil || len(fx.Output) != 1 {
		t.Fatal(err, fx)
	}
	for late, eventMS := range []int64{window.EndMS, window.EndMS - 1} {
		value := fmt.Appendf(nil,
			`{"user_id":"u","timestamp":%d,"latitude":51.5,"longitude":-1.5}`, eventMS)
		rec, fx := task.Record{Timestamp: deadline, Key: []byte("u"), Value: value}, task.Effects{}
		if err := w.Process(rec, nil, &fx); err != nil {
			t.Fatal(err)
		}
		if w.tally.Late != int64(late) || (fx.State == nil) != (late > 0) || len(fx.Output) > 0 {
			t.Errorf("%d: %+v, and %d are late", eventMS, fx, w.tally.Late)
		}
	}
	own := states{}
	own.take(w.Changes())
	if n, more := w.Take().Late, w.Take().Late; n != 1 || more != 0 {
		t.Errorf("%d and then %d are late", n, more)
	}
	w.tally.Late = 1 // of a transaction that is aborted
	if err := w.Restored(own.list()); err != nil || w.Take().Late != 0 {
		t.Error("what was dropped is late:", err)
	}
}

// TestOtherRules: a program whose rules of a time zone have other windows on open days, or on the
// day after, does not go on: one of its windows would overlap one that was published, or a user's
// day another one. In a backlog a day that was counted on is open, however far ahead. Rules of
// other days may change. Lagos has London's time in summer.
func TestOtherRules(t *testing.T) {
	s := testSettings(t) // London's clocks change on the second day
	first := s.First
	in := func(zone string) *Windows {
		var err error
		if s.Plan, err = counts.NewPlan(zone, time.Hour); err != nil {
			t.Fatal(err)
		}
		w, err := NewWindows(s, engine.Source{Encoding: schemas.JSON}, engine.Murmur2,
			engine.Partition{Of: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.digest = digest{1} // the two are one zone
		return w
	}
	for i := range counts.Date(10) {
		day, backlog := i%5, i >= 5
		s.First = first - 2 + day
		own, before := states{}, in("Europe/London")
		if err := before.Restored(nil); err != nil {
			t.Fatal(err)
		}
		own.take(before.Changes())
		if backlog {
			at := s.Plan.Windows(s.First + 4)[0].StartMS
			rec := task.Record{Timestamp: at, Key: []byte("u"), Value: fmt.Appendf(nil,
				`{"user_id":"u","timestamp":%d,"latitude":51.5,"longitude":-1.5}`, at)}
			if err := before.Process(rec, nil, new(task.Effects)); err != nil {
				t.Fatal(err)
			}
			own.take(before.Changes())
		}
		for zone, want := range map[string]error{"Europe/London": nil, "Africa/Lagos": errRules} {
			if day < 2 && !backlog { // both rules give the same windows then, and on the next day
				want = nil
			}
			if err := in(zone).Restored(own.list()); !errors.Is(err, want) {
				t.Errorf("day %d, backlog %v, then by the rules of %s: %v, want %v", day, backlog,
					zone, err, want)
			}
		}
	}
	w := in("Europe/London")
	value := binary.AppendVarint(append([]byte{version}, w.digest[:]...), 1)
	err := w.Restored([]task.Change{{Value: append(value, make([]byte, len(w.digest))...)}})
	if !errors.Is(err, errRules) {
		t.Errorf("a window that begins elsewhere: %v", err)
	}
}

// TestOtherSettings: neither processor goes on from what was counted under other settings, and a
// partition that was added later does not publish a window again.
func TestOtherSettings(t *testing.T) {
	s := testSettings(t)
	other := s
	other.PerDay = 1
	at, source := engine.Partition{Of: 1}, engine.Source{Encoding: schemas.JSON}
	if _, err := NewWindows(s, source, engine.AnyPartitioner,
		engine.Partition{Number: 0, Of: 2}, 1); err == nil {
		t.Error("any partitioner is taken")
	}
	own := states{}
	for i, of := range []Settings{s, other} {
		w, err := NewWindows(of, source, engine.Murmur2, at, 1)
		if err != nil {
			t.Fatal(err)
		}
		err = w.Restored(own.list())
		if (err == nil) != (i == 0) {
			t.Fatalf("settings %d: %v", i, err)
		}
		if err == nil {
			deadline, _ := w.Deadline()
			if err := w.Passed(deadline, new(task.Effects)); err != nil {
				t.Fatal(err)
			}
			own.take(w.Changes())
		}
	}
	start := s.Plan.Windows(s.First)[0].StartMS
	encode := func(dst []byte, _ schemas.Counts) ([]byte, error) { return dst, nil }
	var state []byte
	for _, step := range []struct {
		settings   Settings
		partitions int32
		from       int32
		refused    bool
	}{{s, 1, 0, false}, {s, 2, 1, true}, {other, 1, 0, true}} {
		step.settings.Partitions = step.partitions
		totals, err := NewTotals(step.settings, noise.NewKey(), encode)
		if err != nil {
			t.Fatal(err)
		}
		if err := totals.Restored(nil); err != nil {
			t.Fatal(err)
		}
		by := step.settings.digest().ofWindows(s.Plan.At(start))
		value := partial{by, step.from, start, nil}.appendTo(nil)
		var fx task.Effects
		err = totals.Process(task.Record{Key: windowKey(start), Value: value}, state, &fx)
		if (err != nil) != step.refused {
			t.Errorf("%+v: %v", step, err)
		}
		if err == nil {
			state = slices.Clone(fx.State)
		}
	}
}

// TestTotals: what is published is what counting the same fixes from a file gives, and each window
// once, when all partials are there.
func TestTotals(t *testing.T) {
	s := testSettings(t)
	key := noise.KeyFromSeed(1)
	encode := func(dst []byte, r schemas.Counts) ([]byte, error) {
		return fmt.Appendf(dst, "%+v", r), nil
	}
	p, err := NewTotals(s, key, encode)
	if err != nil {
		t.Fatal(err)
	}
	if latitude := Record(p.publisher, s.Zones, s.Settings, counts.Published{
		Vehicles: []int64{1, 2, 3}, Estimates: []float64{1, 2, 3},
	}, 1).Latitude; latitude != schemas.Some(51.5) {
		t.Errorf("a zone has its middle at %v", latitude)
	}
	if err := p.Restored(nil); err != nil {
		t.Fatal(err)
	}
	log := fixesOf(s, 3)
	w := &worker{states: map[string][]byte{}}
	var records []task.Record
	for at, part := range byPartition(log) {
		for _, m := range partialsOf(t, s, int32(at), part, soon, false, nil) {
			records = append(records, task.Record{Key: m.Key, Value: m.Value})
		}
	}
	own, newest := states{}, int64(0)
	for _, rec := range records {
		before := len(w.output)
		if err := w.process(t, p, rec.Key, rec); err != nil {
			t.Fatal(err)
		}
		if len(w.output) > before {
			newest = s.Plan.At(read(t, rec.Value).startMS).EndMS
		}
		if p.PublishedMS() != newest {
			t.Fatalf("published until %d, and is said to be until %d", newest, p.PublishedMS())
		}
		own.take(p.Changes())
	}
	if err := p.Restored(own.list()); err != nil || p.PublishedMS() != newest {
		t.Errorf("after a restart it is %d, not %d: %v", p.PublishedMS(), newest, err)
	}
	if got, want := published(w), fromFile(t, s, key, log, encode); !maps.Equal(got, want) {
		t.Errorf("published %.400v\nfrom a file %.400v", got, want)
	}
	before, states := len(w.output), fmt.Sprint(w.states)
	for _, rec := range records {
		if err := w.process(t, p, rec.Key, rec); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.output) != before || fmt.Sprint(w.states) != states {
		t.Error("equal partials that come again change something")
	}
	refused(t, s, p, w, records[0])
}

// TestNothingButNoisyNumbers: the records of a window, with their keys and times, follow from its
// noisy numbers and not from the true counts.
func TestNothingButNoisyNumbers(t *testing.T) {
	s := testSettings(t)
	s.PerDay = 1
	window := s.Plan.Windows(s.First)[0]
	of, behind, compared := map[string]string{}, map[string]int64{}, 0
	for seed := range uint64(600) {
		truth := 5 + int64(seed%2)
		numbers := ""
		p, err := NewTotals(s, noise.KeyFromSeed(seed), func(dst []byte, r schemas.Counts) ([]byte,
			error,
		) {
			numbers += fmt.Sprint(r.Vehicles, " ")
			return fmt.Appendf(dst, "%+v", r), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Restored(nil); err != nil {
			t.Fatal(err)
		}
		w := &worker{states: map[string][]byte{}}
		for at := range int32(partitions) {
			counted := partial{
				s.digest().ofWindows(window), at, window.StartMS, []zoneCount{{1, 3}},
			}
			if at == 0 {
				counted.counts = []zoneCount{{0, truth}}
			}
			key := windowKey(window.StartMS)
			err := w.process(t, p, key, task.Record{Key: key, Value: counted.appendTo(nil)})
			if err != nil {
				t.Fatal(err)
			}
		}
		all := fmt.Sprintf("%v", w.output)
		if of[numbers] == "" {
			of[numbers], behind[numbers] = all, truth
		}
		if all != of[numbers] {
			t.Fatalf(
				"with %d users %.300s is published, with %d %.300s",
				truth,
				all,
				behind[numbers],
				of[numbers],
			)
		}
		if behind[numbers] != truth {
			compared++
		}
	}
	if compared < 20 {
		t.Errorf("other counts had the same noisy numbers %d times", compared)
	}
}

// TestDue: a partition's next window is due when it is closed, of the windows that are its own: the
// first one that ends after a time and does not lie before the first day.
func TestDue(t *testing.T) {
	s := testSettings(t)
	first := s.Plan.Windows(s.First)[0]
	const hour = 3_600_000
	for after := first.StartMS - 9*hour; after < first.StartMS+50*hour; after += hour/2 - 1 {
		for target := range int32(partitions) {
			want := first
			for want.EndMS <= after || s.Target(want.StartMS, partitions) != target {
				want = s.Plan.At(want.EndMS)
			}
			if due := s.DueMS(after, target, partitions); due != want.EndMS+600_000+120_000 {
				t.Fatalf("after %d, partition %d: %d, want that of %+v", after, target, due, want)
			}
		}
	}
}

// refused changes a partial in every way that must stop the processor.
func refused(t *testing.T, s Settings, p *Totals, w *worker, rec task.Record) {
	t.Helper()
	other := s
	other.PerDay++
	for name, change := range map[string]func(*partial){
		"one count more": func(p *partial) { p.counts = []zoneCount{{0, 9}} },
		"a zone more":    func(p *partial) { p.counts = []zoneCount{{9, 1}} },
		"other settings": func(p *partial) {
			p.settings = other.digest().ofWindows(s.Plan.At(p.startMS))
		},
		"a window that ends elsewhere": func(p *partial) {
			w := s.Plan.At(p.startMS)
			w.EndMS++
			p.settings = s.digest().ofWindows(w)
		},
		"no window": func(p *partial) { p.startMS++ },
	} {
		changed := read(t, rec.Value)
		change(&changed)
		err := w.process(t, p, rec.Key, task.Record{
			Key: windowKey(changed.startMS), Value: changed.appendTo(nil),
		})
		if !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []task.Record{
		{Key: rec.Key, Value: []byte("{")}, {Key: []byte("1"), Value: rec.Value},
	} {
		if err := w.process(t, p, bad.Key, bad); err == nil {
			t.Errorf("%q is taken", bad.Value)
		}
	}
}

func published(w *worker) map[string]int {
	values := map[string]int{}
	for _, m := range w.output {
		values[string(m.Value)]++
	}
	return values
}

// fromFile counts the fixes that are admitted as the command does for files.
func fromFile(
	t *testing.T, s Settings, key noise.Key, log []fix, encode Encode,
) map[string]int {
	t.Helper()
	p, err := counts.NewPublisher(noise.NewKeyed(key), s.Zones, s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int{}
	for day := s.First; day <= s.First+2; day++ {
		windows, users := s.Plan.Windows(day), map[string]*counts.Counter{}
		for _, f := range log {
			at := slices.IndexFunc(windows, func(w counts.Window) bool {
				return s.Admission.Admits(w, f.eventMS, f.append)
			})
			if at < 0 {
				continue
			}
			if users[f.user] == nil {
				users[f.user] = &counts.Counter{}
			}
			users[f.user].Next(uint16(at), s.Zones.Of(51.5, f.longitude), s.PerDay)
		}
		tally := counts.Tally(len(windows), s.Zones.Count(), maps.Values(users))
		if day == s.First+2 {
			windows = windows[:1]
		}
		for i, window := range windows {
			out, err := p.Publish(window, tally[i], nil)
			if err != nil {
				t.Fatal(err)
			}
			for zone := range out.Vehicles {
				value, err := encode(nil, Record(p, s.Zones, s.Settings, out, int32(zone)))
				if err != nil {
					t.Fatal(err)
				}
				values[string(value)]++
			}
		}
	}
	return values
}

// TestKeepDays: a published window is known for 31 days. An equal partial changes nothing until
// then and is refused afterwards, also by a processor that was restored. A window that waits for a
// partial is kept, however old it is.
func TestKeepDays(t *testing.T) {
	s := testSettings(t)
	var p *Totals
	own, w := states{}, &worker{states: map[string][]byte{}}
	give := func(window counts.Window, partition int32) error {
		key := windowKey(window.StartMS)
		by := s.digest().ofWindows(window)
		value := partial{by, partition, window.StartMS, nil}.appendTo(nil)
		err := w.process(t, p, key, task.Record{Key: key, Value: value})
		own.take(p.Changes())
		return err
	}
	restart := func() {
		var err error
		if p, err = NewTotals(s, noise.KeyFromSeed(1), encodeText); err != nil {
			t.Fatal(err)
		}
		if give(counts.Window{}, 0) == nil {
			t.Error("a processor works without the partition's states")
		}
		if err := p.Restored(own.list()); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	first := s.Plan.Windows(s.First)[0]
	waits, window := s.after(first), first
	for day := s.Plan.At(first.StartMS).Day; window.Day < day+KeepDays+2; window = s.after(window) {
		for partition := range int32(partitions) {
			if window == waits && partition == 2 {
				continue
			}
			if err := give(window, partition); err != nil {
				t.Fatal(err)
			}
		}
	}
	expired := p.Expires()
	for key, state := range w.states {
		if expired(state) {
			delete(w.states, key)
		}
	}
	if got := w.states[string(windowKey(first.StartMS))]; got != nil || p.Expires() != nil {
		t.Errorf("the first window is still known: %x", got)
	}
	restart()
	published := len(w.output)
	if err := give(first, 0); err == nil || !strings.Contains(err.Error(), "31 days") {
		t.Errorf("a window that is not known any more: %v", err)
	}
	known := first
	for w.states[string(windowKey(known.StartMS))] == nil || known == waits {
		known = s.after(known)
	}
	if far := window.StartMS - known.StartMS; far < KeepDays*24*3600_000 {
		t.Errorf("the oldest window that is known is %d ms old", far)
	}
	if err := give(known, 1); err != nil || len(w.output) != published {
		t.Errorf("an equal partial: %v, %d more are published", err, len(w.output)-published)
	}
	if err := give(waits, 2); err != nil || len(w.output) != published+s.Zones.Count() {
		t.Errorf("a partial that was missing: %v, %d are published", err, len(w.output)-published)
	}
}

// TestBacklogMemory: the counts of a backlog take 0.6 kB a window and chunk of zones.
func TestBacklogMemory(t *testing.T) {
	const windows, zones = 744, 1280
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	open := openCounts{windows: map[int64]map[int32]*chunk{}}
	for window := range int64(windows) {
		for zone := range int32(zones) {
			open.countIn(window, zone)
		}
		open.changed = nil // as after each transaction
	}
	per := float64(used()-before) / (windows * zones / zonesOfChunk)
	if per < 400 || per > 700 {
		t.Errorf("a chunk takes %.0f bytes", per)
	}
	runtime.KeepAlive(open)
}
