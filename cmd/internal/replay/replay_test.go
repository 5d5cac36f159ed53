package replay_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestReplayIsTheFirstRelease: with one instance and with three, twice, the whole
// topic gives the records of the first release, in each partition and in order.
func TestReplayIsTheFirstRelease(t *testing.T) {
	w := atwork.Served(t, 40, 15)
	first := w.Answers(t, "first")
	first.Read(t)
	o := atwork.Options(w, "first")

	var told int64
	plan := atwork.Replay(t, o,
		replay.Options{Output: "alone", Progress: func(done, total int64) { told = done - total }})
	if !plan.Identical || plan.Cost != (replay.Cost{}) || plan.Read+plan.Publish != 0 ||
		told != 0 {
		t.Errorf("the plan of a replay of %d records is %+v; told %d", w.Fed, plan, told)
	}
	alone := atwork.Replayed(t, w, plan)
	servicetest.RequireSame(t, first.Out, alone.Out)
	servicetest.RequireSame(t, first.Dead, alone.Dead)

	// Once more does nothing: it is done.
	if again := atwork.Replay(t, o, replay.Options{Output: "alone"}); !again.Begun ||
		atwork.Replayed(t, w, again).Out.Lines[0] == nil {
		t.Errorf("once more: %+v", again)
	}
	servicetest.RequireSame(t, first.Out, atwork.Replayed(t, w, plan).Out)

	var wait sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		wait.Go(func() {
			atwork.Replay(t, o,
				replay.Options{Output: "three", StateDir: filepath.Join(w.Dir, "three", name)})
		})
	}
	wait.Wait()
	plan.Output, plan.DeadLetters = "three", "first.replay.three-dead-letters"
	three := atwork.Replayed(t, w, plan)
	servicetest.RequireSame(t, first.Out, three.Out)
	servicetest.RequireSame(t, first.Dead, three.Dead)
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("after replays the first release does not verify: %+v", report)
	}
}

// TestPlanNeedsTheCoordinator: a plan ends as the replay would if the group's coordinator cannot be
// found.
func TestPlanNeedsTheCoordinator(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(time.Second))
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	w := servicetest.NewWorldAt(t, cluster.ListenAddrs()[0], 3)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 2)
	_, err = replay.NewPlan(t.Context(), o, replay.Options{Output: "again"})
	servicetest.OK(t, err)
	cluster.ControlKey(int16(kmsg.FindCoordinator),
		func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			response := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
			response.ErrorCode = int16(kafka.GroupCoordinatorNotAvailable)
			return response, nil, true
		})
	if _, err := replay.NewPlan(t.Context(), o, replay.Options{Output: "again"}); !errors.Is(err,
		kafka.GroupCoordinatorNotAvailable) {
		t.Errorf("without a coordinator the plan ends with %v", err)
	}
}

// TestReplaySmoothed: a replay that is stopped before it smooths its output and run again by two
// instances gives for each record of the output, the last ones of each user included, what files
// say of them. A topic with other records is refused.
func TestReplaySmoothed(t *testing.T) {
	w := atwork.Served(t, 12, 30)
	o := atwork.Options(w, "first")
	o.Release.ReleaseInterval = 4 // a second release, then
	r := replay.Options{
		Output: "again", SpendAgain: true,
		Smooth: &engine.SmoothSettings{Model: o.Model, Release: o.Release, LagSteps: 4},
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.Progress = func(done, total int64) {
		if done == total {
			cancel()
		}
	}
	if plan, err := replay.Run(ctx, o, r); err != nil || plan.Done ||
		plan.Smoothed != "again.smoothed" {
		t.Fatalf("stopped before it smooths, the plan is %+v, %v", plan, err)
	}
	r.Progress = nil
	left := func() int64 {
		plan, err := replay.NewPlan(t.Context(), o, r)
		if err != nil || !plan.Done {
			t.Fatalf("the plan is %+v, %v", plan, err)
		}
		return plan.ToSmooth
	}
	if n := left(); n < 12*30 {
		t.Errorf("%d offsets are to be smoothed", n)
	}
	var mu sync.Mutex
	var found, searched int64
	r.Ending = func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		found, searched = done, total
	}
	var wait sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wait.Go(func() {
			beside := r
			beside.StateDir = filepath.Join(w.Dir, "again", name)
			atwork.Replay(t, o, beside)
		})
	}
	wait.Wait()
	if n := left(); n != 0 {
		t.Errorf("%d offsets are still to be smoothed", n)
	}
	codec := servicetest.NewCodec(t, schemas.Avro)
	type fix struct {
		user string
		time int64
	}
	want := map[fix]schemas.Sanitized{}
	type kept struct {
		at     fix
		record schemas.Sanitized
	}
	files, err := aggregate.NewSmoothing(aggregate.SmoothOptions{
		Read:     aggregate.ReadOptions{Models: aggregate.Models{o.Model}, Release: o.Release},
		LagSteps: r.Smooth.LagSteps,
	}, func(k kept, past *aggregate.Past) error {
		engine.SetPast(&k.record, past)
		want[k.at] = k.record
		return nil
	})
	servicetest.OK(t, err)
	defer files.Close()
	read := func(topic string, visit func(kept)) (all map[fix]schemas.Sanitized, n int64) {
		all = map[fix]schemas.Sanitized{}
		view := w.View(t, topic, false)
		n = view.Read(t)
		for _, l := range slices.Concat(view.Lines...) {
			record, err := codec.DecodeSanitized([]byte(l.Value))
			servicetest.OK(t, err)
			at := fix{l.Key, l.Timestamp}
			all[at] = record
			visit(kept{at, record})
		}
		return all, n
	}
	records, n := read("again", func(k kept) {
		servicetest.OK(t, files.Add(engine.Published(k.record, ""), k))
	})
	_, err = files.Finish()
	servicetest.OK(t, err)
	smoothed, m := read("again.smoothed", func(kept) {})
	if found < n || found != searched {
		t.Errorf("the search for last records has come to %d of %d, in %d", found, searched, n)
	}
	if n == 0 || m != n || len(smoothed) != len(records) {
		t.Fatalf("%d records, %d of them different, and %d smoothed, %d of them different", n,
			len(records), m, len(smoothed))
	}
	moved := 0
	for at, record := range smoothed {
		if !schemas.HasNote(record.Mechanism, schemas.Smoothed) ||
			!schemas.HasNote(record.Mechanism, schemas.SecondRelease) {
			t.Fatalf("a record is by %s", record.Mechanism)
		}
		if record != want[at] {
			t.Fatalf("%v:\n%+v, files\n%+v", at, record, want[at])
		}
		if records[at].Latitude != record.Latitude {
			moved++
		}
	}
	if moved < len(records)/4 {
		t.Errorf("smoothing has changed %d of %d estimates", moved, len(records))
	}

	// Another replay would write to a topic that has records.
	r.Output = "third"
	servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{}, topics.Set{
		Raw: "raw", Sanitized: "third.smoothed", Changelog: "third.log", DeadLetters: "third.dead",
		Create: true,
	}))
	w.Write(t, true, "third.smoothed", 0,
		servicetest.Line{Key: "vehicle-000", Value: "other", Timestamp: servicetest.StartMS})
	if _, err := replay.NewPlan(t.Context(), o, r); err == nil ||
		!strings.Contains(err.Error(), "topic third.smoothed holds records already") {
		t.Errorf("a smoothed topic with other records: %v", err)
	}
}

// TestReplaySmoothedOnce: what is smoothed is not smoothed again with another end or other
// settings, and nothing that begins in the middle. The end is known when no transaction is open.
func TestReplaySmoothedOnce(t *testing.T) {
	w := atwork.Served(t, 12, 30)
	o := atwork.Options(w, "first")
	smooth := &engine.SmoothSettings{Model: o.Model, Release: o.Release, LagSteps: 4}
	r := replay.Options{
		Output: "again", Smooth: smooth, To: topics.Bound{IsOffset: true, Offset: 40},
	}
	for range 2 {
		if plan := atwork.Replay(t, o, r); plan.Smoothed != "again.smoothed" || !plan.Identical {
			t.Fatalf("the plan is %+v", plan)
		}
	}
	view := w.View(t, "again.smoothed", false)
	n := view.Read(t)

	longer, lag := r, r
	longer.To = topics.Bound{}
	other := *smooth
	other.LagSteps = 8
	lag.Smooth = &other
	for name, r := range map[string]replay.Options{"a longer one": longer, "smooth.lag": lag} {
		_, planned := replay.NewPlan(t.Context(), o, r)
		_, err := replay.Run(t.Context(), o, r)
		for _, err := range []error{planned, err} {
			if err == nil || !strings.Contains(err.Error(), "again was smoothed already") ||
				!strings.Contains(err.Error(), "name a new --output-topic") ||
				name == "smooth.lag" && !strings.Contains(err.Error(), "different: smooth.lag)") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if view.Read(t) != n || n == 0 {
		t.Errorf("of %d smoothed records there are more now", n)
	}

	middle := r
	middle.Output, middle.From = "middle", topics.Bound{IsOffset: true, Offset: 20}
	const why = "smoothing needs a replay from the beginning, without --from"
	for range 2 {
		if plan := atwork.Replay(t, o, middle); plan.Smoothed != "" || plan.NotSmoothed != why {
			t.Errorf("with --from the plan is %+v", plan)
		}
	}
	if w.Exists(t, "middle.smoothed") {
		t.Error("a replay that begins in the middle was smoothed")
	}

	taken := longer
	taken.Output, taken.Taken = "x", []string{"x.smoothed"}
	if _, err := replay.NewPlan(t.Context(), o, taken); err == nil ||
		!strings.Contains(err.Error(), "uses topic x.smoothed: name another --output-topic") {
		t.Errorf("a smoothed topic of the service: %v", err)
	}

	tx, err := producer.NewTransactional(w.Client, "open", producer.Options{})
	servicetest.OK(t, err)
	servicetest.OK(t, tx.Init(t.Context()))
	batch := producer.Batch{TopicPartition: producer.TopicPartition{Topic: "again"}}
	batch.Records = []producer.Record{{Value: []byte("other"), Timestamp: servicetest.StartMS}}
	_, err = tx.Produce(t.Context(), batch)
	servicetest.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := replay.NewPlan(ctx, o, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with an open transaction the end is taken for known: %v", err)
	}
	servicetest.OK(t, tx.Abort(t.Context()))
	if plan := atwork.Replay(t, o, r); !plan.Done {
		t.Errorf("after it the plan is %+v", plan)
	}
	w.DeleteTopic(t, "again.smoothed", false)
	if _, err := replay.Run(t.Context(), o, r); err == nil ||
		!strings.Contains(err.Error(), "again.smoothed is gone") {
		t.Errorf("a smoothed topic that is gone: %v", err)
	}
}

// TestReplayDoneAfterRetention: a replay that is done stays so when its raw records are gone.
func TestReplayDoneAfterRetention(t *testing.T) {
	w := atwork.Served(t, 10, 4)
	o := atwork.Options(w, "first")
	r := replay.Options{Output: "again"}
	atwork.Replay(t, o, r)
	for p := range int32(servicetest.Partitions) {
		w.DeleteRecords(t, "raw", p, -1) // all there are
	}
	r.Planning = func(int64, int64) { t.Error("a replay that is done is worked out again") }
	if plan, err := replay.NewPlan(t.Context(), o, r); err != nil || !plan.Done ||
		!plan.Identical {
		t.Errorf("planned again, it is %+v, %v", plan, err)
	}
	if plan := atwork.Replay(t, o, r); !plan.Identical {
		t.Errorf("run again, it is %+v", plan)
	}
}

// TestReplayWithoutRelease: settings under which only the release is left out of the records give
// the first releases again, at no cost.
func TestReplayWithoutRelease(t *testing.T) {
	w := atwork.Served(t, 10, 4)
	o := atwork.Options(w, "first")
	first := w.Answers(t, "first")
	first.Read(t)
	o.Publish.OmitRelease = true
	plan := atwork.Replay(t, o, replay.Options{Output: "bare"})
	if !plan.Identical || plan.Cost != (replay.Cost{}) || plan.Spent != (replay.Cost{}) {
		t.Errorf("the plan is %+v", plan)
	}
	codec, releases := servicetest.NewCodec(t, schemas.Avro), 0
	decoded := func(l servicetest.Line) schemas.Sanitized {
		record, err := codec.DecodeSanitized([]byte(l.Value))
		servicetest.OK(t, err)
		return record
	}
	bare := atwork.Replayed(t, w, plan)
	servicetest.RequireSame(t, first.Dead, bare.Dead)
	for p, lines := range bare.Out.Lines {
		if len(lines) != len(first.Out.Lines[p]) {
			t.Fatalf("partition %d has %d records, want %d", p, len(lines), len(first.Out.Lines[p]))
		}
		for i, l := range lines {
			want := decoded(first.Out.Lines[p][i])
			if want.ReleaseLatitude.Known {
				releases++
			}
			want.ReleaseLatitude, want.ReleaseLongitude = schemas.Sanitized{}.ReleaseLatitude,
				schemas.Sanitized{}.ReleaseLongitude
			if is := decoded(l); is != want {
				t.Fatalf("the replay has %+v, want %+v", is, want)
			}
		}
	}
	if releases == 0 {
		t.Error("the first records have no release: the test shows nothing")
	}
}

// TestReplayCountsRecords: transaction markers and aborted records are no raw records.
func TestReplayCountsRecords(t *testing.T) {
	w := servicetest.NewWorld(t, 8)
	o := atwork.Options(w, "first")
	line := servicetest.Line{Key: "vehicle-000", Value: "no fix", Timestamp: servicetest.StartMS}
	for n := range int32(servicetest.Partitions) {
		w.Write(t, true, "raw", n, line)
		w.Write(t, false, "raw", n, line, line)
		w.Fed++
	}
	w.Feed(t)
	published := w.Answers(t, "first")
	running := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, running)
	running.Stop(t)
	var done, total, ends int64
	r := replay.Options{Output: "again", Planning: func(d, n int64) { done, total = d, n }}
	plan, err := replay.NewPlan(t.Context(), o, r)
	if err != nil || plan.Read != w.Fed || plan.Publish != w.Fed {
		t.Errorf("of %d records %d are read and %d published, %v", w.Fed, plan.Read, plan.Publish,
			err)
	}
	for _, p := range plan.Partitions {
		ends += p.To
	}
	if done != ends || total != ends {
		t.Errorf("counting has come to %d of %d raw offsets, want %d", done, total, ends)
	}
}

// TestReplayRange: of a range by offset or by time, just the answers to its
// records are published, and they are those of the first release.
func TestReplayRange(t *testing.T) {
	w := atwork.Served(t, 40, 15)
	first := w.Answers(t, "first")
	first.Read(t)
	refused := make([]map[int64]bool, servicetest.Partitions)
	for p, lines := range first.Dead.Lines {
		refused[p] = map[int64]bool{}
		for _, l := range lines {
			letter, err := servicetest.NewCodec(t, schemas.Avro).DecodeDeadLetter([]byte(l.Value))
			servicetest.OK(t, err)
			refused[p][letter.Offset] = true
		}
	}
	middle := time.UnixMilli(servicetest.StartMS + 7*60_000)
	for name, r := range map[string]replay.Options{
		"offsets": {
			From: topics.Bound{IsOffset: true, Offset: 21},
			To:   topics.Bound{IsOffset: true, Offset: 47},
		},
		"from": {From: topics.Bound{IsOffset: true, Offset: 30}},
		"to":   {To: topics.Bound{IsOffset: true, Offset: 30}},
		"times": {
			From: topics.Bound{Time: middle}, To: topics.Bound{Time: middle.Add(3 * time.Minute)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.Output = "range-" + name
			plan := atwork.Replay(t, atwork.Options(w, "first"), r)
			got := atwork.Replayed(t, w, plan)
			for p, part := range plan.Partitions {
				if name == "times" && part.To-part.From < 10 || part.From >= part.To {
					t.Fatalf("partition %d is planned from %d to %d", p, part.From, part.To)
				}
				var before, within int
				for offset := range part.To {
					switch {
					case refused[p][offset]:
					case offset < part.From:
						before++
					default:
						within++
					}
				}
				if want := first.Out.Lines[p][before : before+
					within]; !slices.Equal(want, got.Out.Lines[p]) {
					t.Errorf("partition %d: %d records, not the %d of raw offsets %d to %d",
						p, len(got.Out.Lines[p]), within, part.From, part.To)
				}
				if n := int64(
					len(got.Out.Lines[p]) + len(got.Dead.Lines[p])); n != part.To-part.From {
					t.Errorf("partition %d: %d answers, want %d", p, n, part.To-part.From)
				}
			}
			other := r
			other.From = topics.Bound{IsOffset: true, Offset: 22}
			if _, err := replay.Run(t.Context(), atwork.Options(w, "first"), other); err == nil ||
				!strings.Contains(err.Error(), "another replay") {
				t.Errorf("another beginning into the same topic: %v", err)
			}
		})
	}
}

// TestReplayThatSpends: whatever makes the result another one is refused, with
// the reason and the cost, and goes with SpendAgain.
func TestReplayThatSpends(t *testing.T) {
	w := atwork.Served(t, 20, 8)
	o := atwork.Options(w, "first")
	refuse := func(o service.Options, words ...string) {
		t.Helper()
		before := w.TopicNames(t)
		plan, err := replay.Run(t.Context(), o, replay.Options{Output: "spent"})
		if !errors.Is(err, replay.ErrSpend) || plan.Identical || plan.Cost.Epsilon <= 0 ||
			plan.Cost.Epsilon > float64(w.Fed)*o.Release.Epsilon {
			t.Errorf("%v; the plan is %+v", err, plan)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
		if after := w.TopicNames(t); !slices.Equal(before, after) {
			t.Errorf("a refused replay has made topics: %v, before there were %v", after, before)
		}
	}
	dearer := o
	dearer.Release.Epsilon = 2
	refuse(dearer, "settings are not those", "Different: release.epsilon;", "at ε = 2 a release")
	other := o
	other.Key = noise.KeyFromSeed(2)
	refuse(other, "settings are not those", "Different: key_file;")

	plan, err := replay.Run(t.Context(), dearer, replay.Options{Output: "spent", SpendAgain: true})
	servicetest.OK(t, err)
	if !plan.Done || plan.Identical {
		t.Errorf("the plan is %+v", plan)
	}
	first := w.Answers(t, "first")
	first.Read(t)
	spent := atwork.Replayed(t, w, plan)
	for p, lines := range spent.Out.Lines {
		if len(lines) != len(first.Out.Lines[p]) || slices.Equal(lines, first.Out.Lines[p]) {
			t.Errorf("partition %d: %d records, want %d others",
				p, len(lines), len(first.Out.Lines[p]))
		}
	}
	if _, err := replay.Run(t.Context(), o, replay.Options{Output: "spent"}); err == nil ||
		!strings.Contains(err.Error(), "another replay") {
		t.Errorf("other settings into the same topic: %v", err)
	}

	// What the service has not come to yet would be released before its time.
	for range 2 {
		w.Feed(t)
	}
	beyond := replay.Options{Output: "beyond", To: topics.Bound{IsOffset: true, Offset: 1 << 40}}
	if _, err := replay.Run(t.Context(), o, beyond); !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "leave --to out") {
		t.Errorf("beyond the service's offset: %v", err)
	}
	beyond.To = topics.Bound{}
	if plan, err := replay.NewPlan(t.Context(), o, beyond); err != nil || !plan.Identical {
		t.Errorf("up to the service's offset: %v, %+v", err, plan)
	}
	w.DeleteRecords(t, "raw", 2, 4)
	if _, err := replay.Run(t.Context(), o, beyond); !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "partition 2: retention") {
		t.Errorf("after retention: %v", err)
	}
}

// TestReplayRefusals: nothing of the service's own is written to, nor a topic
// that holds something else.
func TestReplayRefusals(t *testing.T) {
	w := atwork.Served(t, 10, 3)
	o := atwork.Options(w, "first")
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "calendar", Partitions: 1}))
	w.Write(t, true, "calendar", 0, servicetest.Line{Key: "monday", Value: "dentist"})
	for want, r := range map[string]replay.Options{
		"--output-topic":             {},
		`topics.sanitized: "raw"`:    {Output: "raw"},
		"uses topic first.out":       {Output: "first.out"},
		"uses topic first.log":       {Output: "first.log"},
		"service's own, and its off": {Output: "x", Group: "first"},
		"is the service's own":       {Output: "x", StateDir: o.StateDir},
		"holds nothing": {
			Output: "x", From: topics.Bound{IsOffset: true, Offset: 5},
			To: topics.Bound{IsOffset: true, Offset: 5},
		},
		"holds records already": {Output: "calendar"},
	} {
		if _, err := replay.NewPlan(t.Context(), o, r); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
	}
	nobody := atwork.Options(w, "nobody")
	if _, err := replay.Run(t.Context(), nobody,
		replay.Options{Output: "x"}); !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "not released these fixes yet") {
		t.Errorf("of a service that never ran: %v", err)
	}
}
