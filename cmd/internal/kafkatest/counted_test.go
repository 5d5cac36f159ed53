//go:build kafka

package kafkatest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// countedFix is a raw fix with the time at which its broker appended it.
type countedFix struct {
	schemas.Raw
	appended int64
}

// countedRecord is a published record of a window and zone.
type countedRecord struct {
	name, value      string
	appended, closes int64 // times: of the broker, and before which nobody may publish
}

// countedWorld is a raw topic whose fixes two instances of "geodither counts" count.
type countedWorld struct {
	*harness
	config.Counting
	raw    string
	codec  *schemas.Codec
	feeder *producer.Idempotent
}

const countedPartitions = 3

// newCountedWorld makes the topics and the instances. What is published has its brokers' times.
func newCountedWorld(t *testing.T) (w *countedWorld, instances []*supervised) {
	t.Helper()
	h := newHarness(t)
	times := map[string]string{"message.timestamp.type": "LogAppendTime"}
	w = &countedWorld{harness: h, raw: h.topic("raw", countedPartitions, times)}
	counted, dir := h.topic("counted", countedPartitions, times), t.TempDir()
	h.ok(os.WriteFile(filepath.Join(dir, "noise.key"), []byte(testKey.Reveal()+"\n"), 0o600))
	binary, err := built()
	h.ok(err)
	today := time.Now().UTC().Format(time.DateOnly)
	for n := range 2 {
		i := &supervised{name: fmt.Sprint("counts-", n+1), binary: binary, command: "counts"}
		i.config, i.stateDir = filepath.Join(dir, i.name+".yml"), filepath.Join(dir, i.name)
		h.ok(os.WriteFile(i.config, fmt.Appendf(nil, `brokers: [%s]
group: %scounts
topics: {raw: %s, counts: %s}
key_file: noise.key
state_dir: %s/state
session_timeout: %v
transaction: {timeout: %v}
counts: {epsilon: 1, per_day: 2, zone: 4km, box: "51.40,-0.20,51.46,-0.10", window: 1m,
  grace: 3s, skew: 10s, first: %s}
`, strings.Join(h.brokers, ","), h.prefix, w.raw, counted, i.stateDir, sessionTimeout,
			transactionTimeout, today), 0o600))
		instances = append(instances, i)
	}
	w.Counting, _, err = config.ReadCounting(instances[0].config)
	h.ok(err)
	w.codec, err = schemas.NewCodec(schemas.Avro)
	h.ok(err)
	w.feeder, err = producer.NewIdempotent(h.client, producer.Options{RetryTimeout: patience})
	h.ok(err)
	for _, c := range []topics.Set{w.Windows.Topics, w.Totals.Topics} {
		h.ok(topics.Create(t.Context(), h.client, wire.Options{}, c))
	}
	return w, instances
}

// start starts an instance until the test ends.
func (w *countedWorld) start(i *supervised) {
	w.Helper()
	_, err := launch(i)
	w.ok(err)
	w.Cleanup(func() {
		if err := i.kill(); err != nil {
			w.Error(err)
		}
		if text, err := os.ReadFile(i.log.Name()); w.Failed() && err == nil {
			w.Logf("%s's log:\n%s", i.name, text)
		}
	})
}

// feed sends fixes of now until a time, of other vehicles again and again: some fixes are late, and
// some lie ahead.
func (w *countedWorld) feed(ctx context.Context, until time.Time) error {
	const vehicles, further = 8, 3
	for i := 0; time.Now().Before(until); i++ {
		var records []producer.Record
		for n := i * further; n < i*further+vehicles; n++ {
			fix := schemas.Raw{
				UserID: fmt.Sprintf("vehicle-%04d", n), Timestamp: time.Now().UnixMilli(),
				Latitude:  51.39 + float64(n*37%80)/1000,
				Longitude: -.21 + float64((n+i)*53%120)/1000,
			}
			switch (n + i) % 7 {
			case 0:
				fix.Timestamp -= 1500
			case 1:
				fix.Timestamp -= 20_000
			case 2:
				fix.Timestamp += 50_000
			}
			value, err := w.codec.AppendRaw(nil, fix)
			if err != nil {
				return err
			}
			records = append(records, producer.Record{
				Key: []byte(fix.UserID), Value: value, Timestamp: fix.Timestamp,
			})
		}
		if _, err := w.feeder.Send(ctx, w.raw, countedPartitions, records); err != nil {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// closes is the time at which a window may be published.
func (w *countedWorld) closes(endMS int64) int64 {
	return endMS + w.Settings.Admission.GraceMS + w.Settings.SkewMS
}

// published are the records of the windows, with the last window's end.
func (w *countedWorld) published(uncommitted bool) (all []countedRecord, endMS int64) {
	w.Helper()
	codec, err := schemas.NewCodec(w.Totals.WithDefaults().SanitizedEncoding)
	w.ok(err)
	for p := range int32(countedPartitions) {
		w.scan(w.Totals.Topics.Sanitized, p, uncommitted, func(rec consumer.Record) {
			r, err := codec.DecodeCounts(rec.Value)
			w.ok(err)
			endMS = max(endMS, r.WindowEnd)
			all = append(all, countedRecord{
				name: fmt.Sprint(r.WindowStart, " ", r.Zone), value: string(rec.Value),
				appended: rec.Timestamp, closes: w.closes(r.WindowEnd),
			})
		})
	}
	return all, endMS
}

// fixes are the raw topic's: each user's in the order of the log.
func (w *countedWorld) fixes() (all []countedFix) {
	w.Helper()
	for p := range int32(countedPartitions) {
		w.scan(w.raw, p, false, func(rec consumer.Record) {
			fix, err := w.codec.DecodeRaw(rec.Value)
			w.ok(err)
			all = append(all, countedFix{fix, rec.Timestamp})
		})
	}
	return all
}

// admitted reports whether a fix can count in a window.
func (w *countedWorld) admitted(f countedFix) (window counts.Window, ok bool) {
	window = w.Settings.Plan.At(f.Timestamp)
	return window, window.Day >= w.Settings.First &&
		w.Settings.Admission.Admits(window, f.Timestamp, f.appended)
}

// recount computes all records of the windows that end by a time.
func (w *countedWorld) recount(fixes []countedFix, endMS int64) map[string]string {
	w.Helper()
	s := w.Settings // a copy
	ids, err := admin.TopicIDs(w.Context(), w.client, wire.Options{}, w.raw,
		w.Totals.Topics.Changelog)
	w.ok(err)
	s.Source = fmt.Sprintf("%x %x", ids[w.raw], ids[w.Totals.Topics.Changelog])
	p, err := counts.NewPublisher(noise.NewKeyed(testKey), s.Zones, s.Settings)
	w.ok(err)
	codec, err := schemas.NewCodec(w.Totals.WithDefaults().SanitizedEncoding)
	w.ok(err)
	days := map[counts.Date]map[string]*counts.Counter{}
	for _, f := range fixes {
		window, ok := w.admitted(f)
		if !ok {
			continue
		}
		if days[window.Day] == nil {
			days[window.Day] = map[string]*counts.Counter{}
		}
		user := days[window.Day][f.UserID]
		if user == nil {
			user = new(counts.Counter)
			days[window.Day][f.UserID] = user
		}
		user.Next(uint16(slices.Index(s.Plan.Windows(window.Day), window)),
			s.Zones.Of(f.Latitude, f.Longitude), s.PerDay)
	}
	want := map[string]string{}
	for day := s.First; day <= s.Plan.At(endMS).Day; day++ {
		windows := s.Plan.Windows(day)
		tally := counts.Tally(len(windows), s.Zones.Count(), maps.Values(days[day]))
		for i, window := range windows {
			if window.EndMS > endMS {
				break
			}
			published, err := p.Publish(window, tally[i], nil)
			w.ok(err)
			for zone := range published.Vehicles {
				r := counting.Record(p, s.Zones, s.Settings, published, int32(zone))
				value, err := codec.AppendCounts(nil, r)
				w.ok(err)
				want[fmt.Sprint(r.WindowStart, " ", r.Zone)] = string(value)
			}
		}
	}
	return want
}

// wrongCounts says where records are not as wanted: each once, none of other bytes, also for a
// reader of uncommitted records, and none too early.
func wrongCounts(want map[string]string, committed, all []countedRecord) (wrong []string) {
	times := map[string]int{}
	for _, r := range committed {
		times[r.name]++
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if times[name] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s was published %d times", name, times[name]))
		}
	}
	for _, r := range slices.Concat(committed, all) {
		if r.value != want[r.name] {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", r.name, r.value, want[r.name]))
		}
		if r.appended < r.closes {
			wrong = append(wrong, fmt.Sprintf("%s was published %d ms early", r.name,
				r.closes-r.appended))
		}
	}
	return wrong
}

// TestCountedUnderFaults kills and freezes two instances of "geodither counts": in the first
// windows, those of the day so far, and while a window of the feed closes. One loses its disk.
// Every zone of each window must be published once, with the bytes that counting the raw topic
// again gives, and no window before its end, counts.grace and counts.skew. That a user's fixes are
// left out of the recount has to be found.
func TestCountedUnderFaults(t *testing.T) {
	t.Parallel()
	w, instances := newCountedWorld(t)
	for _, i := range instances {
		w.start(i)
	}
	w.eventually("a window is published", func() bool {
		all, _ := w.published(false)
		return len(all) > 0
	})
	const least = 5 * time.Second // the freeze has ended when the window closes
	last := w.Settings.Plan.At(time.Now().Add(least).UnixMilli()).EndMS
	closes := time.UnixMilli(w.closes(last))
	b := &breaker{
		instances: instances, note: t.Logf, feeding: func() bool { return true },
		began: time.Now(), counts: map[kind]int{},
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error { return w.feed(ctx, time.UnixMilli(last).Add(5*time.Second)) })
	group.Go(func() error {
		atClose := time.Until(closes) - 50*time.Millisecond
		return b.strikeAll(ctx, []fault{
			{kind: instanceWipe, target: 0},
			{kind: instanceFreeze, target: 1, lasts: sessionTimeout + time.Second},
			{kind: instanceKill, target: 0, at: atClose},
			{kind: instanceKill, target: 1, at: atClose},
		})
	})
	w.ok(group.Wait())
	w.eventually("the windows of the feed are published", func() bool {
		time.Sleep(time.Second)
		all, _ := w.published(false)
		return len(all) >= len(w.recount(nil, last))
	})
	for _, i := range instances {
		w.ok(i.terminate())
		deaths, _, err := i.close()
		w.ok(err)
		if len(deaths) > 0 {
			t.Errorf("an instance exited by itself: %v", deaths)
		}
	}
	for p := range int32(countedPartitions) {
		w.settled(w.Totals.Topics.Sanitized, p)
	}
	committed, end := w.published(false)
	all, _ := w.published(true)
	end = max(end, last)
	fixes := w.fixes()
	want := w.recount(fixes, end)
	wrong := wrongCounts(want, committed, all)
	for _, found := range wrong[:min(len(wrong), 20)] {
		t.Error(found)
	}
	late, counted := 0, ""
	for _, f := range fixes {
		switch window, ok := w.admitted(f); {
		case !ok:
			late++
		case window.EndMS <= end:
			counted = f.UserID
		}
	}
	others := slices.DeleteFunc(slices.Clone(fixes),
		func(f countedFix) bool { return f.UserID == counted })
	if late == 0 || len(wrongCounts(w.recount(others, end), committed, all)) == 0 {
		t.Errorf("%d of %d fixes come too late; a user who is left out is not found", late,
			len(fixes))
	}
	t.Logf("%d fixes, %d too late; %d records, an uncommitted reader sees %d more", len(fixes),
		late, len(committed), len(all)-len(committed))
}

// TestCountedIsCompared plants what a service that counts must not publish.
func TestCountedIsCompared(t *testing.T) {
	want := map[string]string{"1 a": "5", "1 b": "7"}
	good := []countedRecord{{"1 a", "5", 9, 9}, {"1 b", "7", 9, 9}}
	for name, plant := range map[string]struct {
		committed, aborted []countedRecord
		found              int
	}{
		"nothing":               {good, nil, 0},
		"aborted":               {good, good[:1], 0},
		"a zone is missing":     {good[:1], nil, 1},
		"twice":                 {append(slices.Clone(good), good[0]), nil, 1},
		"other bytes":           {[]countedRecord{good[0], {"1 b", "8", 9, 9}}, nil, 2},
		"early":                 {[]countedRecord{good[0], {"1 b", "7", 8, 9}}, nil, 2},
		"another version":       {good, []countedRecord{{"1 a", "6", 9, 9}}, 1},
		"no window of the plan": {good, []countedRecord{{"2 a", "5", 9, 9}}, 1},
	} {
		wrong := wrongCounts(want, plant.committed, slices.Concat(plant.committed, plant.aborted))
		if len(wrong) != plant.found {
			t.Errorf("%s: %q, want %d", name, wrong, plant.found)
		}
	}
}
