package service_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
)

// abortedFirst begins each partition of the raw topic with two aborted transactions of
// five records each, 12 offsets with their markers. Each is as large as one fetch (1 MiB),
// so that the first answers to a service hold no record.
func abortedFirst(tb testing.TB, w *servicetest.World) {
	tb.Helper()
	large := servicetest.Line{
		Key: "vehicle-000", Value: strings.Repeat("x", 200_000), Timestamp: servicetest.StartMS,
	}
	lines := slices.Repeat([]servicetest.Line{large}, 5)
	for p := range int32(servicetest.Partitions) {
		w.Write(tb, false, "raw", p, lines...)
		w.Write(tb, false, "raw", p, lines...)
	}
}

// requireFirstRelease requires that the whole of a service's output verifies, and that its
// replay is the first release again.
func requireFirstRelease(tb testing.TB, o service.Options, output string) {
	tb.Helper()
	if report := atwork.Verify(tb, o); !report.Verified {
		tb.Errorf("the service's output does not verify: %+v", report)
	}
	plan, err := replay.NewPlan(tb.Context(), o, replay.Options{Output: output})
	servicetest.OK(tb, err)
	if !plan.Identical {
		tb.Errorf("a replay under the same settings is not the first release: %+v", plan.Partitions)
	}
}

// TestAbortedFirst: a raw topic that begins with aborted transactions is like any other,
// in what a service writes, for a verification and for a replay.
func TestAbortedFirst(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 20)
	abortedFirst(t, w)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 6)
	topic := o.Topics.Changelog
	for p := range int32(servicetest.Partitions) {
		mark, found, err := topics.LastMark(t.Context(), w.Client, topic, p)
		if err != nil || !found || mark.Origin != 0 || mark.Since != 0 || mark.Open ||
			mark.Input <= 12 {
			t.Errorf("partition %d: the mark is %+v, %v; want one from 0 and since 0", p, mark, err)
		}
	}
	requireFirstRelease(t, o, "again")
	first := w.Answers(t, "first")
	first.Read(t)
	again := atwork.Replayed(t, w, atwork.Replay(t, o, replay.Options{Output: "again"}))
	servicetest.RequireSame(t, first.Out, again.Out)
	servicetest.RequireSame(t, first.Dead, again.Dead)
}

// TestMarksBehindAbortedRecords: a mark may say since 12 where nothing before 12 can be read. The
// raw topic proves that no settings changed. Where it has a record there, or has lost one, it
// proves nothing: no replay passes for the first release then. Verification still proves what it
// can compute again, which takes all records.
func TestMarksBehindAbortedRecords(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 20)
	abortedFirst(t, w)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 6)
	since := func(offset int64) {
		for p := range int32(servicetest.Partitions) {
			mark, _, err := topics.LastMark(t.Context(), w.Client, o.Topics.Changelog, p)
			servicetest.OK(t, err)
			mark.Since = offset
			value := string(task.AppendMark(nil, mark))
			w.Write(t, true, o.Topics.Changelog, p,
				servicetest.Line{Key: task.MarkKey, Value: value, Timestamp: servicetest.StartMS})
		}
	}
	verified := func(want bool) {
		t.Helper()
		for _, p := range atwork.Verify(t, o).Partitions {
			if p.Verified != want || !want && (len(p.NotVerified) != 1 ||
				!strings.Contains(p.NotVerified[0], "retention has removed")) {
				t.Errorf("partition %d is verified: %t, %v", p.Partition, p.Verified, p.NotVerified)
			}
		}
		if plan, err := replay.NewPlan(t.Context(), o,
			replay.Options{Output: "again"}); err != nil ||
			plan.Identical {
			t.Errorf("the replay passes for the first release: %v", err)
		}
	}
	since(12)
	requireFirstRelease(t, o, "again")
	since(13) // behind the first record
	verified(true)
	since(12)
	w.Alter(t, "raw", "cleanup.policy", "compact")
	verified(true)
	w.Alter(t, "raw", "cleanup.policy", "delete")
	for p := range int32(servicetest.Partitions) {
		w.DeleteRecords(t, "raw", p, 3)
	}
	verified(false)
}
