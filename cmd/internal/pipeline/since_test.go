package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
)

// abortedFirst begins each partition of the raw topic with two aborted transactions of
// five records each, 12 offsets with their markers. Each is as large as one fetch (1 MiB),
// so that the first answers to a service hold no record.
func (w *world) abortedFirst(tb testing.TB) {
	tb.Helper()
	lines := slices.Repeat(
		[]line{{key: "vehicle-000", value: strings.Repeat("x", 200_000), timestamp: startMS}}, 5)
	for p := range int32(partitions) {
		w.write(tb, false, "raw", p, lines...)
		w.write(tb, false, "raw", p, lines...)
	}
}

// requireFirstRelease requires that the whole of a service's output verifies, and that its
// replay is the first release again.
func requireFirstRelease(tb testing.TB, o Options, output string) {
	tb.Helper()
	if report := verify(tb, o); !report.Verified {
		tb.Errorf("the service's output does not verify: %+v", report)
	}
	plan, err := PlanReplay(tb.Context(), o, ReplayOptions{Output: output})
	ok(tb, err)
	if !plan.Identical {
		tb.Errorf("a replay under the same settings is not the first release: %+v", plan.Partitions)
	}
}

// TestAbortedFirst: a raw topic that begins with aborted transactions is like any other,
// in what a service writes, for a verification and for a replay.
func TestAbortedFirst(t *testing.T) {
	w := newWorld(t, 20)
	w.abortedFirst(t)
	o := w.options("first")
	w.serve(t, o, 6)
	topic := o.Topics.Changelog
	for p := range int32(partitions) {
		mark, found, err := topics.LastMark(t.Context(), w.client, topic, p)
		if err != nil || !found || mark.Origin != 0 || mark.Since != 0 || mark.Open ||
			mark.Input <= 12 {
			t.Errorf("partition %d: the mark is %+v, %v; want one from 0 and since 0", p, mark, err)
		}
	}
	requireFirstRelease(t, o, "again")
	first := w.answers(t, "first")
	first.read(t)
	again := w.replayed(t, replay(t, o, ReplayOptions{Output: "again"}))
	requireSame(t, first.out, again.out)
	requireSame(t, first.dead, again.dead)
}

// TestMarksBehindAbortedRecords: changelogs hold marks of earlier versions that say since
// 12 where nothing before 12 can be read. The raw topic proves that no settings changed.
// Where it has a record there, or has lost one, it proves nothing.
func TestMarksBehindAbortedRecords(t *testing.T) {
	w := newWorld(t, 20)
	w.abortedFirst(t)
	o := w.options("first")
	w.serve(t, o, 6)
	since := func(offset int64) {
		for p := range int32(partitions) {
			mark, _, err := topics.LastMark(t.Context(), w.client, o.Topics.Changelog, p)
			ok(t, err)
			mark.Since = offset
			value := string(task.AppendMark(nil, mark))
			w.write(t, true, o.Topics.Changelog, p,
				line{key: task.MarkKey, value: value, timestamp: startMS})
		}
	}
	refused := func(why string) {
		t.Helper()
		for _, p := range verify(t, o).Partitions {
			if p.Verified || len(p.NotVerified) != 1 || !strings.Contains(p.NotVerified[0], why) {
				t.Errorf("%s: partition %d is verified: %t, %v", why, p.Partition, p.Verified,
					p.NotVerified)
			}
		}
		if plan, err := PlanReplay(t.Context(), o, ReplayOptions{Output: "again"}); err != nil ||
			plan.Identical {
			t.Errorf("%s: the replay passes for the first release: %v", why, err)
		}
	}
	since(12)
	requireFirstRelease(t, o, "again")
	since(13) // behind the first record
	refused("the settings changed at raw offset 13")
	since(12)
	w.alter(t, "raw", "cleanup.policy", "compact")
	refused("it cannot be proved that the settings did not change at raw offset 12")
	w.alter(t, "raw", "cleanup.policy", "delete")
	for p := range int32(partitions) {
		w.deleteRecords(t, "raw", p, 3)
	}
	refused("retention has removed")
}
