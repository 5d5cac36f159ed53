package service_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// countedFleet is a world with two services that count, and what they must publish.
type countedFleet struct {
	w               *servicetest.World
	windows, totals service.Options
	settings        counting.Settings
	fixes           []countedFix
	trust           bool                // the times of producers
	counters        [2]*engine.Counters // of the two services that were started last
}

// countedFix is a fix with the time at which it was appended.
type countedFix struct {
	user              string
	eventMS, appendMS int64
	cell              int
}

// newCountedFleet counts yesterday and today in windows of three hours.
func newCountedFleet(t *testing.T) *countedFleet {
	t.Helper()
	w := servicetest.NewWorld(t, 0)
	plan := planOf(t, "UTC", 3*time.Hour)
	zones, err := counts.Squares(w.Model.Grid)
	servicetest.OK(t, err)
	o := atwork.Options(w, "fleet")
	o.Model, o.Release, o.SessionTimeout = nil, mechanism.Options{}, 2*time.Second
	o.Topics = topics.Set{Raw: "raw", Sanitized: "fleet.out", Create: true}
	f := &countedFleet{w: w, windows: o, totals: o, trust: true, settings: counting.Settings{
		Settings: counts.Settings{Source: "?", Edition: 1, Epsilon: 1, PerDay: 3},
		Plan:     plan, Zones: zones, First: plan.At(time.Now().UnixMilli()).Day - 1,
		Admission: counts.Admission{GraceMS: 600_000, MaxAheadMS: 120_000}, SkewMS: 1000,
	}}
	f.windows.Key = noise.Key{}
	f.windows.Cluster, f.totals.Cluster = o.Counting("", "")
	return f
}

// feed sends fixes of yesterday in two parts: some late, some far ahead. No user is in the last
// partition.
func (f *countedFleet) feed(t *testing.T, fromHour, toHour int) {
	t.Helper()
	start := f.settings.Plan.Windows(f.settings.First)[0].StartMS
	var records []producer.Record
	for minute := fromHour * 60; minute < toHour*60; minute += 7 {
		for n := range 40 {
			user := fmt.Sprintf("user-%02d", n)
			if servicetest.Murmur2Place([]byte(user)) == servicetest.Partitions-1 {
				continue
			}
			event := start + int64(minute)*60_000 + int64(n)
			fix := countedFix{user, event, event + 1000, (n*31 + minute) % f.w.Model.Grid.Cells()}
			switch (n + minute) % 11 {
			case 3:
				fix.eventMS -= 11 * 60_000 // too late, where a window has ended before
			case 5:
				fix.eventMS += 3_600_000 // ahead of the time at which it is appended
			}
			f.fixes = append(f.fixes, fix)
			lat, lon := f.w.Model.Grid.ToDegrees(f.w.Model.Grid.Centre(int32(fix.cell)))
			value, err := f.w.Codec.AppendRaw(nil, schemas.Raw{
				UserID: user, Timestamp: fix.eventMS, Latitude: lat, Longitude: lon,
			})
			servicetest.OK(t, err)
			records = append(records,
				producer.Record{Key: []byte(user), Value: value, Timestamp: fix.appendMS})
		}
	}
	f.w.Send(t, records...)
}

// start starts an instance of both services, which a network can be cut from.
func (f *countedFleet) start(t *testing.T, folder string) (
	*servicetest.Running, *servicetest.Network,
) {
	t.Helper()
	return f.startWith(t, folder, f.common())
}

// common is what both services of an instance have in common.
func (f *countedFleet) common() *service.Counting {
	c := service.NewCounting(f.settings, f.windows.Cluster)
	if f.trust {
		c.TrustProducers()
	}
	return c
}

func (f *countedFleet) startWith(t *testing.T, folder string, common *service.Counting) (
	*servicetest.Running, *servicetest.Network,
) {
	t.Helper()
	log, network := new(servicetest.Log), new(servicetest.Network)
	var run [2]func(context.Context) error
	for i, create := range []func(service.Options, *service.Counting) (*service.Service, error){
		service.NewWindows, service.NewTotals,
	} {
		o := []service.Options{f.windows, f.totals}[i]
		o.StateDir += fmt.Sprint(folder, i)
		f.counters[i] = new(engine.Counters)
		o.Logger, o.Counters = log.Logger(), f.counters[i]
		s, err := create(o, common)
		servicetest.OK(t, err)
		s.SetClient(network.Client(f.w.Addr))
		s.SetGrace(100 * time.Millisecond)
		run[i] = s.Run
	}
	return servicetest.Run(t, log, func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var running sync.WaitGroup
		var errs [2]error
		for i := range run {
			running.Go(func() {
				defer stop()
				errs[i] = run[i](ctx)
			})
		}
		running.Wait()
		return errors.Join(errs[:]...)
	}), network
}

// want computes what must be published of the windows that end before a time: by the fixes, one
// after the other as the log has them, and the key's noise.
func (f *countedFleet) want(t *testing.T, before int64) map[string]string {
	t.Helper()
	ids, err := admin.TopicIDs(t.Context(), f.w.Client, wire.Options{}, "raw",
		f.totals.Topics.Changelog)
	servicetest.OK(t, err)
	s := f.settings.Settings
	s.Source = fmt.Sprintf("%x %x", ids["raw"], ids[f.totals.Topics.Changelog])
	p, err := counts.NewPublisher(noise.NewKeyed(f.totals.Key), f.settings.Zones, s)
	servicetest.OK(t, err)
	codec, err := schemas.NewCodec(schemas.Avro)
	servicetest.OK(t, err)
	used, tally := map[string]map[int64]bool{}, map[int64][]int64{}
	for _, fix := range f.fixes {
		w := f.settings.Plan.At(fix.eventMS)
		if w.Day < f.settings.First ||
			!f.settings.Admission.Admits(w, fix.eventMS, fix.appendMS) {
			continue
		}
		day := fmt.Sprint(fix.user, w.Day)
		if used[day] == nil {
			used[day] = map[int64]bool{}
		}
		if used[day][w.StartMS] || len(used[day]) == s.PerDay {
			continue
		}
		used[day][w.StartMS] = true
		if tally[w.StartMS] == nil {
			tally[w.StartMS] = make([]int64, f.settings.Zones.Count())
		}
		tally[w.StartMS][fix.cell]++
	}
	want := map[string]string{}
	w := f.settings.Plan.Windows(f.settings.First)[0]
	for ; w.EndMS < before; w = f.settings.Plan.At(w.EndMS) {
		n := tally[w.StartMS]
		if n == nil {
			n = make([]int64, f.settings.Zones.Count())
		}
		published, err := p.Publish(w, n, nil)
		servicetest.OK(t, err)
		for zone := range published.Vehicles {
			r := counting.Record(p, f.settings.Zones, s, published, int32(zone))
			value, err := codec.AppendCounts(nil, r)
			servicetest.OK(t, err)
			want[fmt.Sprint(w.StartMS, " ", r.Zone)] = string(value)
		}
	}
	return want
}

// have returns what was published, by window and zone.
func (f *countedFleet) have(t *testing.T, uncommitted bool) map[string][]string {
	t.Helper()
	v := f.w.View(t, f.totals.Topics.Sanitized, uncommitted)
	v.Read(t)
	codec, err := schemas.NewCodec(schemas.Avro)
	servicetest.OK(t, err)
	all := map[string][]string{}
	for _, lines := range v.Lines {
		for _, l := range lines {
			r, err := codec.DecodeCounts([]byte(l.Value))
			servicetest.OK(t, err)
			if r.Zone != l.Key || l.Timestamp != r.WindowEnd+f.settings.Admission.GraceMS {
				t.Errorf("the record of %+v has the key %q, and %d", r, l.Key, l.Timestamp)
			}
			name := fmt.Sprint(r.WindowStart, " ", r.Zone)
			all[name] = append(all[name], l.Value)
		}
	}
	return all
}

// awaitWindows waits until eight windows are published.
func (f *countedFleet) awaitWindows(t *testing.T, r *servicetest.Running) {
	t.Helper()
	servicetest.Await(t, "eight windows are published", func() bool {
		return f.w.Exists(t, f.totals.Topics.Sanitized) &&
			len(f.have(t, false)) >= 8*f.settings.Zones.Count()
	}, r)
}

// TestCounting: two services count a raw topic. An instance is cut off in the middle, another one
// with empty folders takes over, and the first comes back. Every zone of every window is published
// once, with the bytes that counting the fixes again gives. Readers of uncommitted records see no
// other bytes. A partition in which nobody reports, and windows without a fix, hold nothing up.
func TestCounting(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	before := time.Now().UnixMilli() - 3_600_000
	f.feed(t, 0, 9)
	for _, c := range []topics.Cluster{f.windows.Cluster, f.totals.Cluster} {
		servicetest.OK(t, topics.Create(t.Context(), f.w.Client, wire.Options{}, c.Topics))
	}
	partials := f.w.View(t, f.windows.Topics.Sanitized, false)
	a, cut := f.start(t, ".a")
	servicetest.Await(t, "it is in the middle of its work",
		func() bool { return partials.Read(t) > 0 }, a)
	cut.Cut()
	a.Cancel()
	_ = a.Wait(t)
	b, _ := f.start(t, ".b")
	again, _ := f.start(t, ".a")
	want := f.want(t, before)
	servicetest.Await(t, "all windows are published",
		func() bool { return len(f.have(t, false)) >= len(want) }, b, again)
	again.Stop(t)
	b.Stop(t)
	have, seen := f.have(t, false), f.have(t, true)
	counted := 0
	for name, value := range want {
		if len(have[name]) != 1 || have[name][0] != value {
			t.Fatalf("%s was published as %q, want %q", name, have[name], value)
		}
		for _, other := range seen[name] {
			if other != value {
				t.Fatalf("%s was seen as %q, want %q", name, other, value)
			}
		}
		counted++
	}
	if windows := counted / f.settings.Zones.Count(); windows < 7 {
		t.Errorf("only %d windows were compared", windows)
	}
}

// TestCountingVerified: what is published is verified, and each thing that is not as it should be
// is found: for readers of uncommitted records too.
func TestCountingVerified(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.feed(t, 0, 9)
	r, _ := f.start(t, "")
	f.awaitWindows(t, r)
	r.Stop(t)
	verified := func(change func(*counting.Settings)) verify.CountsReport {
		t.Helper()
		g := *f
		change(&g.settings)
		var reports [2]verify.CountsReport
		for days := range reports { // all days at a time, or each by itself
			var err error
			reports[days], err = verify.Counts(t.Context(), verify.CountsOptions{
				Windows: f.windows, Totals: f.totals, Count: g.common(), Days: days,
			})
			servicetest.OK(t, err)
		}
		all, each := reports[0], reports[1]
		if each.Windows != all.Windows || each.Records != all.Records ||
			each.NotCommitted != all.NotCommitted || each.ViolationCount != all.ViolationCount ||
			!maps.Equal(each.Refused, all.Refused) {
			t.Errorf("day by day it is %+v, and at once %+v", each, all)
		}
		return all
	}
	requireKinds := func(what string, report verify.CountsReport, kinds ...string) {
		t.Helper()
		found := map[string]bool{}
		for _, v := range report.Violations {
			found[v.Kind] = true
		}
		for _, kind := range kinds {
			if !found[kind] {
				t.Errorf("%s: %q is not found: %+v", what, kind, report)
			}
		}
		if len(found) != len(kinds) || report.Verified != (len(kinds) == 0) {
			t.Errorf("%s: %+v", what, report)
		}
	}
	same := func(*counting.Settings) {}
	good := verified(same)
	requireKinds("nothing is wrong", good)
	if good.Refused["timestamp_ahead"] == 0 {
		t.Errorf("what does not count is not in %+v", good)
	}
	if good.Windows < 8 || good.Records != good.Windows*int64(f.settings.Zones.Count()) {
		t.Errorf("%+v", good)
	}
	requireKinds("another cap", verified(func(s *counting.Settings) { s.PerDay++ }),
		verify.Different)
	requireKinds("an earlier first day", verified(func(s *counting.Settings) { s.First-- }),
		verify.Missing)
	v := f.w.View(t, f.totals.Topics.Sanitized, false)
	v.Read(t)
	line := v.Lines[0][0]
	other := line
	other.Value = v.Lines[0][1].Value
	f.w.Write(t, false, f.totals.Topics.Sanitized, 0, other)
	requireKinds("another zone's bytes, aborted", verified(same), verify.Different)
	codec, err := schemas.NewCodec(schemas.Avro)
	servicetest.OK(t, err)
	later, err := codec.DecodeCounts([]byte(line.Value))
	servicetest.OK(t, err)
	later.WindowStart += 3 * 24 * 3600_000
	value, err := codec.AppendCounts(nil, later)
	servicetest.OK(t, err)
	days := line
	days.Value = string(value)
	f.w.Write(t, false, f.totals.Topics.Sanitized, 0, days)
	if late := verified(same); late.NotCommitted != 2 || late.ViolationCount != 2 {
		t.Errorf("two records were aborted, one days later: %+v", late)
	}
	f.w.Write(t, true, f.totals.Topics.Sanitized, 0, line)
	requireKinds("a zone twice", verified(same), verify.Different, verify.Duplicate)
	f.w.Write(t, true, f.totals.Topics.Sanitized, 1, servicetest.Line{Value: "x"})
	requireKinds("something else", verified(same), verify.Different, verify.Duplicate, verify.Extra)
}

// uncheckedKeys is a mapping that takes any key.
func uncheckedKeys(t *testing.T) *mapping.Mapping {
	t.Helper()
	m, err := mapping.New(mapping.Options{
		Preset: mapping.OwnTracks, KeyCheck: mapping.KeyCheckOff,
	})
	servicetest.OK(t, err)
	return m
}

// TestCountingRefuses what would break the bound on a user's day, and says what to do.
func TestCountingRefuses(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.feed(t, 0, 1)
	run := func(change func(*countedFleet)) error {
		g := *f
		change(&g)
		log := new(servicetest.Log)
		g.windows.Logger = log.Logger()
		s, err := service.NewWindows(g.windows, g.common())
		if err != nil {
			return err
		}
		err = servicetest.Run(t, log, s.Run).Wait(t)
		if strings.Contains(log.String(), "settings have changed") {
			t.Errorf("what is refused goes on by the log:\n%s", log.String())
		}
		return err
	}
	requireSays := func(err error, words ...string) {
		t.Helper()
		for _, text := range words {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v does not say %q", err, text)
			}
		}
	}
	requireSays(run(func(g *countedFleet) { g.windows.Partitioner = engine.AnyPartitioner }),
		"topics.partitioner: any", "two accounts")
	requireSays(run(func(g *countedFleet) {
		g.windows.Input.Mapping, g.windows.RawEncoding = uncheckedKeys(t), ""
	}), "input.key_check: off", "two accounts")
	requireSays(run(func(g *countedFleet) { g.windows.Key = servicetest.Key }), "no key")
	requireSays(run(func(g *countedFleet) { g.trust = false }), "LogAppendTime",
		"kafka-configs.sh --bootstrap-server")
	requireSays(run(func(g *countedFleet) { g.settings.First -= 31 }), "counts.first",
		"days ago")
	r, _ := f.start(t, ".a")
	published := func() bool {
		return f.w.Exists(t, f.totals.Topics.Sanitized) && len(f.have(t, false)) > 0
	}
	servicetest.Await(t, "a window is published", published, r)
	r.Stop(t)
	for _, change := range []func(s *counting.Settings){
		func(s *counting.Settings) { s.Epsilon = 2 },
		func(s *counting.Settings) { s.PerDay++ },
		func(s *counting.Settings) { s.Edition++ },
		func(s *counting.Settings) { s.Plan = planOf(t, "Pacific/Auckland", time.Hour) },
		func(s *counting.Settings) { s.Plan = planOf(t, "UTC", 2*time.Hour) },
	} {
		requireSays(run(func(g *countedFleet) { change(&g.settings) }), "other settings",
			"(counts-restart)")
	}
	same := func(*countedFleet) {}
	f.w.Alter(t, f.windows.Topics.Sanitized, "cleanup.policy", "compact")
	requireSays(run(same), "cleanup.policy")
	f.w.Alter(t, f.windows.Topics.Sanitized, "cleanup.policy", "delete")
	// A user whose records are in another partition from now on would count again.
	f.grow(t, "raw")
	requireSays(run(same), "(partitions-differ)")
	f.grow(t, f.windows.Topics.Sanitized, f.windows.Topics.Changelog)
	requireSays(run(same), "other settings", "(counts-restart)")
}

func planOf(t *testing.T, zone string, length time.Duration) *counts.Plan {
	t.Helper()
	plan, err := counts.NewPlan(zone, length)
	servicetest.OK(t, err)
	return plan
}

// grow gives topics one more partition.
func (f *countedFleet) grow(t *testing.T, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		res, err := f.w.Client.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{
				{Name: topic, Count: servicetest.Partitions + 1},
			},
		})
		servicetest.OK(t, err)
		servicetest.OK(t, res.Errors[topic])
	}
}

// TestCountingMakesRaw: a raw topic that is made for counts has the times of its brokers.
func TestCountingMakesRaw(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	set := f.windows.Topics
	set.Raw, set.Partitions = "made", 2
	servicetest.OK(t, topics.Create(t.Context(), f.w.Client, wire.Options{}, set))
	cluster := f.windows.Cluster
	cluster.Topics = set
	err := service.CheckAppendTimes(t.Context(), cluster, f.w.Client, time.Second)
	servicetest.OK(t, err)
}

// TestCountingOldTimes: records from before the raw topic got the times of its brokers do not
// count. Where the topic loses them again, the service stops with the command that mends it. After
// that it goes on, without the records of the meantime.
func TestCountingOldTimes(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	before := time.Now().UnixMilli() - 3_600_000
	f.feed(t, 0, 3)
	f.w.Alter(t, "raw", "message.timestamp.type", "LogAppendTime")
	f.trust = false
	r, _ := f.start(t, ".a")
	f.fixes = nil
	f.awaitWindows(t, r)
	have := f.have(t, false)
	for name, value := range f.want(t, before) {
		if len(have[name]) != 1 || have[name][0] != value {
			t.Fatalf("%s was published as %q, want %q", name, have[name], value)
		}
	}
	f.w.Alter(t, "raw", "message.timestamp.type", "CreateTime")
	f.feed(t, 3, 4)
	if err := r.Wait(t); err == nil || task.RemedyOf(err) != task.Fatal ||
		!strings.Contains(err.Error(), "--add-config message.timestamp.type=LogAppendTime") {
		t.Errorf("the topic has producers' times again: %v", err)
	}
	f.w.Alter(t, "raw", "message.timestamp.type", "LogAppendTime")
	r, _ = f.start(t, ".a")
	servicetest.Await(t, "it leaves records out", func() bool {
		return strings.Contains(r.Log.String(), "records that have their producers' times")
	}, r)
	r.Stop(t)
}

// TestCountingAtMidnight: of two instances that start for the first time on both sides of midnight,
// and do not see each other, the later one never publishes under a first day of its own. It says
// which setting differs, also after the earlier one has stopped. Started again, it has the group's
// first day, and every window is published once.
func TestCountingAtMidnight(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	yesterday := f.settings.First
	midnight := time.UnixMilli(f.settings.Plan.Windows(yesterday + 1)[0].StartMS)
	f.feed(t, 0, 9)
	f.settings.First = 0
	for _, c := range []topics.Cluster{f.windows.Cluster, f.totals.Cluster} {
		servicetest.OK(t, topics.Create(t.Context(), f.w.Client, wire.Options{}, c.Topics))
	}
	late := f.common()
	late.StartsAt(midnight.Add(time.Second))
	found, err := late.Settings(t.Context(), f.w.Client, time.Second)
	if err != nil || found.First != yesterday+1 {
		t.Fatalf("the first day is %v, %v", found.First, err)
	}
	early := f.common()
	early.StartsAt(midnight.Add(-time.Second))
	a, _ := f.startWith(t, ".a", early)
	published := func(of *servicetest.Running) {
		servicetest.Await(t, "yesterday is published", func() bool {
			return len(f.have(t, false)) >= 8*f.settings.Zones.Count()
		}, of)
	}
	published(a)
	requireRefused := func(when string) {
		t.Helper()
		b, _ := f.startWith(t, ".b", late)
		if err := b.Wait(t); err == nil || !strings.Contains(err.Error(), "counts.first") &&
			!strings.Contains(err.Error(), "other settings") {
			t.Errorf("%s: %v", when, err)
		}
	}
	requireRefused("beside the earlier one")
	a.Stop(t)
	requireRefused("after the earlier one")
	b, _ := f.start(t, ".b")
	published(b)
	b.Stop(t)
	f.settings.First = yesterday
	have, seen := f.have(t, false), f.have(t, true)
	for name, value := range f.want(t, midnight.UnixMilli()+1) {
		if len(have[name]) != 1 {
			t.Fatalf("%s was published %d times", name, len(have[name]))
		}
		for _, other := range seen[name] {
			if other != value {
				t.Fatalf("%s was seen as %q, want %q", name, other, value)
			}
		}
	}
}

// TestCountingAgain: another group, with a cap of its own, does not publish into the same topic:
// its counts of the same days would be a further ε. It says which keys to set.
func TestCountingAgain(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.feed(t, 0, 1)
	a, _ := f.start(t, ".a")
	f.awaitWindows(t, a)
	a.Stop(t)
	other := *f
	other.windows.Cluster, other.totals.Cluster = topics.Cluster{
		Brokers: f.windows.Brokers, Topics: topics.Set{Raw: "raw", Create: true},
	}.Counting("other", f.totals.Topics.Sanitized)
	other.settings.PerDay++
	b, _ := other.start(t, ".b")
	err := b.Wait(t)
	for _, words := range []string{"counts.group", "topics.counts", "counts.first", "further ε"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("another group publishes the same days: %v", err)
		}
	}
	for name, values := range f.have(t, false) {
		if len(values) != 1 {
			t.Errorf("%s is published %d times", name, len(values))
		}
	}
}

// TestCountsAreGone: either service that counts says that its output is gone.
func TestCountsAreGone(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	r, _ := f.start(t, "gone")
	servicetest.Await(t, "both are at work", func() bool {
		return strings.Count(r.Log.String(), `msg="partitions assigned"`) == 2
	}, r)
	for _, topic := range []string{f.totals.Topics.Sanitized, f.windows.Topics.Sanitized} {
		f.w.DeleteTopic(t, topic, false)
		servicetest.Await(t, "a line", func() bool {
			return strings.Contains(
				r.Log.String(),
				`msg="an output cannot be written: its records `+
					`wait and are not committed" topic=`+topic,
			)
		}, r)
	}
	r.Stop(t)
}

// TestCountingLost: a lost changelog stops a service that counts. The error says how to begin
// again, and no way out that is for accounts of ε.
func TestCountingLost(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.feed(t, 0, 1)
	a, _ := f.start(t, ".a")
	f.awaitWindows(t, a)
	a.Stop(t)
	f.w.DeleteTopic(t, f.windows.Topics.Changelog, false)
	b, _ := f.start(t, ".a")
	err := b.Wait(t)
	if !errors.Is(err, task.ErrLost) || strings.Contains(err.Error(), "--accept=") ||
		!strings.Contains(err.Error(), "Stop all instances, and start with another group") {
		t.Errorf("the error is %v", err)
	}
}

// TestTotalsWait: the service that publishes counts waits for the topic of partial counts. The log
// says who makes it, and does not advise the setting that says how large a raw topic is made.
func TestTotalsWait(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	log, o := new(servicetest.Log), f.totals
	o.Logger = log.Logger()
	s, err := service.NewTotals(o, f.common())
	servicetest.OK(t, err)
	r := servicetest.Run(t, log, s.Run)
	servicetest.Await(t, "a line about waiting", func() bool {
		return strings.Contains(log.String(), "no such topic: "+f.windows.Topics.Sanitized)
	}, r)
	r.Stop(t)
	if said := log.String(); !strings.Contains(said, "the service that writes it makes it") ||
		strings.Contains(said, "topics.partitions") {
		t.Errorf("the log says:\n%s", said)
	}
}
