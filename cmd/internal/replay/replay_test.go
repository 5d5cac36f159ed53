package replay_test

import (
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

	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/noise"
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
	if !plan.Identical || plan.Cost != nil || told != 0 {
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
	if !plan.Identical || plan.Cost != nil {
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
		if !errors.Is(err, replay.ErrSpend) || plan.Identical || plan.Cost == nil {
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
	refuse(dearer, "settings are not those", "Different: release.epsilon;",
		"without a bound: release.budget is none")
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
