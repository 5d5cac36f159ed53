package replay_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
)

// committed is the group's offset of each partition.
func committed(tb testing.TB, _ *servicetest.World, o service.Options) []int64 {
	tb.Helper()
	plan, err := replay.NewPlan(tb.Context(), o,
		replay.Options{Output: "unused", To: topics.Bound{IsOffset: true, Offset: 1 << 40}})
	servicetest.OK(tb, err)
	var at []int64
	for _, p := range plan.Partitions {
		at = append(at, p.To)
	}
	return at
}

// TestLostRecordsAreRemembered: a service that went on behind lost records had
// states from before them. Nobody can have these again, whatever --accept=lost-records says by
// then: a replay would be another release, and nothing can be verified.
func TestLostRecordsAreRemembered(t *testing.T) {
	w := atwork.Served(t, 20, 8)
	o := atwork.Options(w, "first")
	ends := committed(t, w, o)
	w.Feed(t)
	w.Feed(t)
	for p, end := range ends {
		w.DeleteRecords(t, "raw", int32(p), end+2)
	}
	lost := o
	lost.SkipLost = true
	w.Fed -= 2 * servicetest.Partitions // which have no answers
	atwork.Serve(t, w, lost, 2)
	atwork.Serve(t, w, o, 1) // the permission was for one start

	for _, skip := range []bool{false, true} {
		o.SkipLost = skip
		plan, err := replay.Run(t.Context(), o, replay.Options{Output: "again"})
		if !errors.Is(err, replay.ErrSpend) || plan.Identical ||
			!strings.Contains(err.Error(), "lost") {
			t.Errorf(
				"with --accept=lost-records %v a replay is planned as %+v, %v",
				skip,
				plan,
				err,
			)
		}
		report := atwork.Verify(t, o)
		for _, p := range report.Partitions {
			if p.Verified || p.ViolationCount > 0 || len(p.NotVerified) == 0 ||
				!strings.Contains(p.NotVerified[0], "lost") {
				t.Errorf("with --accept=lost-records %v partition %d is reported as %+v",
					skip, p.Partition, p)
			}
		}
	}
}

// TestReplayIntoAnotherTopic: a group that has replayed into one topic does not
// pass for having done so into another.
func TestReplayIntoAnotherTopic(t *testing.T) {
	w := atwork.Served(t, 10, 4)
	o := atwork.Options(w, "first")
	atwork.Replay(t, o,
		replay.Options{Output: "one", Group: "replays", StateDir: filepath.Join(w.Dir, "one")})
	plan, err := replay.Run(t.Context(), o,
		replay.Options{Output: "two", Group: "replays", StateDir: filepath.Join(w.Dir, "two")})
	if err == nil || !strings.Contains(err.Error(), "another replay") {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
}

// TestReplayGoesOnAfterRetention: what a replay has come past may go.
func TestReplayGoesOnAfterRetention(t *testing.T) {
	w := atwork.Served(t, 20, 8)
	o := atwork.Options(w, "first")
	r := replay.Options{Output: "again", To: topics.Bound{IsOffset: true, Offset: 20}}
	atwork.Replay(t, o, r)
	for p := range int32(servicetest.Partitions) {
		w.DeleteRecords(t, "raw", p, 15)
	}
	r.To = topics.Bound{}
	plan := atwork.Replay(t, o, r)
	if !plan.Identical || plan.Partitions[0].Origin != 0 {
		t.Errorf("the plan is %+v", plan)
	}
	first := w.Answers(t, "first")
	first.Read(t)
	again := atwork.Replayed(t, w, plan)
	servicetest.RequireSame(t, first.Out, again.Out)

	for p := range int32(servicetest.Partitions) {
		w.DeleteRecords(t, "raw", p, 25)
	}
	for range 2 {
		w.Feed(t)
	}
	other := r
	other.Output = "other"
	if _, err := replay.Run(t.Context(), o, other); !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "retention") {
		t.Errorf("a replay that begins now: %v", err)
	}
}
