package service_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/doctor"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/state"
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
				"rebuild-changelog", "set its offsets first", "If this is a new service")
			if !errors.Is(err, task.ErrLost) {
				t.Errorf("the service ends with %v", err)
			}
			if bad := atwork.Details(doctor.Examine(t.Context(), o, nil),
				doctor.Failure); !strings.Contains(bad, "account: the changelog is lost") {
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
	fails(t, renamed, "If the group was renamed, set topics.changelog: OLD")
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

// TestRebuildFromLaggingStates: what the refusal advises makes the account whole. The same
// records come again, byte for byte, and no others.
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
	_, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{old})
	if err == nil || !strings.Contains(err.Error(),
		"2. set the group's offset to") {
		t.Fatalf("states that lag: %v", err)
	}
	var at [servicetest.Partitions]int64
	store, err := state.Open(old, state.Options{ReadOnly: true})
	servicetest.OK(t, err)
	for p := range at {
		stored, _, err := store.Partition(int32(p)).Positions()
		servicetest.OK(t, err)
		at[p] = stored.Input
	}
	servicetest.OK(t, store.Close())
	for p, offset := range at {
		w.MoveOffset(t, o.Group, p, offset)
	}
	_, err = account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{old})
	servicetest.OK(t, err)
	a := w.Answers(t, o.Group)
	before := a.Read(t)
	want := w.Fed
	for _, offset := range at {
		want -= offset // one raw record, one answer; the rest is made again
	}
	service := atwork.Start(t, o)
	servicetest.Await(t, "it is made again", func() bool { return a.Read(t) >= before+want },
		service)
	service.Stop(t)
	calm := atwork.Calm(t, w)
	for p, lines := range calm.Out.Lines {
		got, known := a.Out.Lines[p], map[servicetest.Line]bool{}
		for _, l := range lines {
			known[l] = true
		}
		for i, l := range got {
			if !known[l] {
				t.Fatalf("partition %d: record %d is another release", p, i)
			}
		}
		if len(got) <= len(lines) {
			t.Errorf("partition %d holds %d records, and %d without the loss",
				p, len(got), len(lines))
		}
	}
}
