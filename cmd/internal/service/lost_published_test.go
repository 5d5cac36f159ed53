package service_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// TestLostWithItsOffsets: the changelog is gone, the group's offsets have expired and the
// disk is new. What was published says that this is no first start.
func TestLostWithItsOffsets(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := servicetest.NewWorld(t, 12)
			o := atwork.Options(w, "first")
			atwork.Serve(t, w, o, 4)
			var at [servicetest.Partitions]int64
			for p := range at {
				var err error
				at[p], _, err = consumer.Committed(t.Context(), w.Client, wire.Options{},
					o.Group, "raw", int32(p))
				servicetest.OK(t, err)
			}
			w.DeleteTopic(t, o.Topics.Changelog, again)
			w.DeleteGroup(t, o.Group)
			servicetest.OK(t, os.RemoveAll(o.StateDir))
			out := w.View(t, o.Topics.Sanitized, true)
			published := out.Read(t)
			err := fails(t, o, "first.out or first.dead has records in partition 0",
				"(changelog-lost)")
			if !errors.Is(err, task.ErrLost) {
				t.Errorf("the service ends with %v", err)
			}
			if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
				checks.Failure); !strings.Contains(bad, "account: the changelog is lost") {
				t.Errorf("doctor finds %s", bad)
			}
			if got := out.Read(t); got != published {
				t.Errorf("%d sanitized records have become %d", published, got)
			}
			for p, offset := range at {
				w.MoveOffset(t, o.Group, p, offset)
			}
			o.AcceptLost = true
			atwork.Serve(t, w, o, 1)
			o.AcceptLost = false
			atwork.Serve(t, w, o, 1)
		})
	}
}

// TestRenamedGroup: a service whose group was renamed finds no changelog of the new name, hears
// where the old one is, and goes on with it.
func TestRenamedGroup(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	before := w.LastMarks(t, o.Topics.Changelog)
	renamed := o
	renamed.Group, renamed.Topics.Changelog = "second", "second-changelog"
	fails(t, renamed, "second-changelog", "(changelog-lost)")
	renamed.Topics.Changelog = o.Topics.Changelog
	w.Feed(t)
	answers := w.Answers(t, "first")
	running := atwork.Start(t, renamed)
	servicetest.Await(t, "everything is answered",
		func() bool { return answers.Read(t) >= w.Fed }, running)
	running.Stop(t)
	for n, mark := range w.LastMarks(t, o.Topics.Changelog) {
		if mark.Origin != before[n].Origin || mark.Lost {
			t.Errorf("partition %d begins again: %+v", n, mark)
		}
	}
}

// TestRebuildFromLaggingStates: the service brings states that lag behind the group to where they
// were, and publishes nothing twice; not under other settings, nor from records that are gone.
func TestRebuildFromLaggingStates(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	old := o.StateDir + ".old"
	servicetest.OK(t, os.CopyFS(old, os.DirFS(o.StateDir)))
	atwork.Serve(t, w, o, 3)
	w.DeleteTopic(t, o.Topics.Changelog, false)
	servicetest.OK(t, os.RemoveAll(o.StateDir))
	other := o
	other.Release.Epsilon *= 2
	_, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(other, false, false),
		[]string{old})
	if err == nil || !strings.Contains(err.Error(), "were made under other settings") {
		t.Errorf("under other settings: %v", err)
	}
	plan, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{old})
	servicetest.OK(t, err)
	for _, p := range plan.Partitions {
		if p.Published <= p.Input {
			t.Errorf("rebuilt as %+v", p)
		}
	}
	atwork.Serve(t, w, o, 2)
	atwork.RequireUndisturbed(t, w, "first")
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("afterwards: %+v", report)
	}

	w.DeleteTopic(t, o.Topics.Changelog, false)
	w.DeleteRecords(t, "raw", 0, -1)
	_, err = account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{old})
	if err == nil || !strings.Contains(err.Error(), "the raw topic has only offsets") {
		t.Errorf("without the records: %v", err)
	}
}
