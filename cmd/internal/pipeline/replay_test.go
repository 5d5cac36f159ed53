package pipeline

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

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// replay runs one instance of a replay to its end.
func replay(tb testing.TB, o Options, r ReplayOptions) ReplayPlan {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	plan, err := Replay(ctx, o, r)
	ok(tb, err)
	if !plan.Done {
		tb.Fatalf("the replay has not ended: %+v", plan)
	}
	return plan
}

// replayed reads what a replay has published.
func (w *world) replayed(tb testing.TB, plan ReplayPlan) answers {
	tb.Helper()
	a := answers{w.view(tb, plan.Output, false), w.view(tb, plan.DeadLetters, false)}
	a.read(tb)
	return a
}

// TestReplayIsTheFirstRelease: with one instance and with three, twice, the whole
// topic gives the records of the first release, in each partition and in order.
func TestReplayIsTheFirstRelease(t *testing.T) {
	w := served(t, 40, 15)
	first := w.answers(t, "first")
	first.read(t)
	o := w.options("first")

	var told int64
	plan := replay(t, o, ReplayOptions{Output: "alone", Progress: func(done, total int64) { told = done - total }})
	if !plan.Identical || plan.Cost != (ReplayCost{}) || plan.Publish != w.fed || plan.Read != w.fed || told != 0 {
		t.Errorf("the plan of a replay of %d records is %+v; told %d", w.fed, plan, told)
	}
	alone := w.replayed(t, plan)
	requireSame(t, first.out, alone.out)
	requireSame(t, first.dead, alone.dead)

	// Once more does nothing: it is done.
	if again := replay(t, o, ReplayOptions{Output: "alone"}); !again.Begun || w.replayed(t, again).out.lines[0] == nil {
		t.Errorf("once more: %+v", again)
	}
	requireSame(t, first.out, w.replayed(t, plan).out)

	var wait sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		wait.Go(func() { replay(t, o, ReplayOptions{Output: "three", StateDir: filepath.Join(w.dir, "three", name)}) })
	}
	wait.Wait()
	plan.Output, plan.DeadLetters = "three", "first.replay.three-dead-letters"
	three := w.replayed(t, plan)
	requireSame(t, first.out, three.out)
	requireSame(t, first.dead, three.dead)
	if report := verify(t, o); !report.Verified {
		t.Errorf("after replays the first release does not verify: %+v", report)
	}
}

// TestReplayRange: of a range by offset or by time, just the answers to its
// records are published, and they are those of the first release.
func TestReplayRange(t *testing.T) {
	w := served(t, 40, 15)
	first := w.answers(t, "first")
	first.read(t)
	refused := make([]map[int64]bool, partitions)
	for p, lines := range first.dead.lines {
		refused[p] = map[int64]bool{}
		for _, l := range lines {
			letter, err := newTestCodec(t, schemas.Avro).DecodeDeadLetter([]byte(l.value))
			ok(t, err)
			refused[p][letter.Offset] = true
		}
	}
	middle := time.UnixMilli(startMS + 7*60_000)
	for name, r := range map[string]ReplayOptions{
		"offsets": {From: topics.Bound{IsOffset: true, Offset: 21}, To: topics.Bound{IsOffset: true, Offset: 47}},
		"from":    {From: topics.Bound{IsOffset: true, Offset: 30}},
		"to":      {To: topics.Bound{IsOffset: true, Offset: 30}},
		"times":   {From: topics.Bound{Time: middle}, To: topics.Bound{Time: middle.Add(3 * time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			r.Output = "range-" + name
			plan := replay(t, w.options("first"), r)
			got := w.replayed(t, plan)
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
				if want := first.out.lines[p][before : before+within]; !slices.Equal(want, got.out.lines[p]) {
					t.Errorf("partition %d: %d records, not the %d of raw offsets %d to %d", p, len(got.out.lines[p]), within, part.From, part.To)
				}
				if n := int64(len(got.out.lines[p]) + len(got.dead.lines[p])); n != part.To-part.From {
					t.Errorf("partition %d: %d answers, want %d", p, n, part.To-part.From)
				}
			}
			other := r
			other.From = topics.Bound{IsOffset: true, Offset: 22}
			if _, err := Replay(t.Context(), w.options("first"), other); err == nil || !strings.Contains(err.Error(), "another --from") {
				t.Errorf("another beginning into the same topic: %v", err)
			}
		})
	}
}

// TestReplayThatSpends: whatever makes the result another one is refused, with
// the reason and the cost, and goes with SpendAgain.
func TestReplayThatSpends(t *testing.T) {
	w := served(t, 20, 8)
	o := w.options("first")
	refuse := func(o Options, words ...string) {
		t.Helper()
		before := w.topicNames(t)
		plan, err := Replay(t.Context(), o, ReplayOptions{Output: "spent"})
		if !errors.Is(err, ErrSpend) || plan.Identical || plan.Cost.Epsilon <= 0 || plan.Cost.Epsilon > float64(w.fed)*o.Release.Epsilon {
			t.Errorf("%v; the plan is %+v", err, plan)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
		if after := w.topicNames(t); !slices.Equal(before, after) {
			t.Errorf("a refused replay has made topics: %v, before there were %v", after, before)
		}
	}
	dearer := o
	dearer.Release.Epsilon = 2
	refuse(dearer, "settings are not those", "Different: release.epsilon;", "at ε = 2 a release")
	other := o
	other.Key = noise.KeyFromSeed(2)
	refuse(other, "settings are not those", "Different: key_file;")

	plan, err := Replay(t.Context(), dearer, ReplayOptions{Output: "spent", SpendAgain: true})
	ok(t, err)
	if !plan.Done || plan.Identical {
		t.Errorf("the plan is %+v", plan)
	}
	first := w.answers(t, "first")
	first.read(t)
	spent := w.replayed(t, plan)
	for p, lines := range spent.out.lines {
		if len(lines) != len(first.out.lines[p]) || slices.Equal(lines, first.out.lines[p]) {
			t.Errorf("partition %d: %d records, want %d others", p, len(lines), len(first.out.lines[p]))
		}
	}
	if _, err := Replay(t.Context(), o, ReplayOptions{Output: "spent"}); err == nil || !strings.Contains(err.Error(), "under other settings") {
		t.Errorf("other settings into the same topic: %v", err)
	}

	// What the service has not come to yet would be released before its time.
	for range 2 {
		w.feed(t)
	}
	beyond := ReplayOptions{Output: "beyond", To: topics.Bound{IsOffset: true, Offset: 1 << 40}}
	if _, err := Replay(t.Context(), o, beyond); !errors.Is(err, ErrSpend) || !strings.Contains(err.Error(), "leave --to out") {
		t.Errorf("beyond the service's offset: %v", err)
	}
	beyond.To = topics.Bound{}
	if plan, err := PlanReplay(t.Context(), o, beyond); err != nil || !plan.Identical {
		t.Errorf("up to the service's offset: %v, %+v", err, plan)
	}
	w.deleteRecords(t, "raw", 2, 4)
	if _, err := Replay(t.Context(), o, beyond); !errors.Is(err, ErrSpend) || !strings.Contains(err.Error(), "partition 2: retention") {
		t.Errorf("after retention: %v", err)
	}
}

// TestReplayRefusals: nothing of the service's own is written to, nor a topic
// that holds something else.
func TestReplayRefusals(t *testing.T) {
	w := served(t, 10, 3)
	o := w.options("first")
	ok(t, admin.CreateTopics(t.Context(), w.client, wire.Options{}, admin.Topic{Name: "calendar", Partitions: 1}))
	w.write(t, true, "calendar", 0, line{key: "monday", value: "dentist"})
	for want, r := range map[string]ReplayOptions{
		"--output-topic":             {},
		`topics.sanitized: "raw"`:    {Output: "raw"},
		"uses topic first.out":       {Output: "first.out"},
		"uses topic first.log":       {Output: "first.log"},
		"service's own, and its off": {Output: "x", Group: "first"},
		"is the service's own":       {Output: "x", StateDir: o.StateDir},
		"holds nothing":              {Output: "x", From: topics.Bound{IsOffset: true, Offset: 5}, To: topics.Bound{IsOffset: true, Offset: 5}},
		"holds records already":      {Output: "calendar"},
	} {
		if _, err := PlanReplay(t.Context(), o, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
	}
	nobody := w.options("nobody")
	if _, err := Replay(t.Context(), nobody, ReplayOptions{Output: "x"}); !errors.Is(err, ErrSpend) || !strings.Contains(err.Error(), "not released these fixes yet") {
		t.Errorf("of a service that never ran: %v", err)
	}
}

// topicNames lists the broker's topics.
func (w *world) topicNames(tb testing.TB) []string {
	tb.Helper()
	// A client of its own: the world's remembers for some seconds what there was.
	res, err := kafkaconn.NewClient([]string{w.addr}).Metadata(tb.Context(), &kafka.MetadataRequest{})
	ok(tb, err)
	var names []string
	for _, t := range res.Topics {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}
