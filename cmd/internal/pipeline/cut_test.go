package pipeline

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
)

// TestCutChangelog: a changelog that has lost its beginning, and not its last marks, stops
// an instance that has to restore all of it before it releases anything. One that has the
// states goes on. Its folder is what the changelog is written back from.
func TestCutChangelog(t *testing.T) {
	const budget = 5
	w := newWorld(t, 12)
	o := w.options("first")
	o.Release.Budget = mechanism.Budget{Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict}
	w.serve(t, o, 8)
	cut := func() {
		t.Helper()
		for p := range int32(partitions) {
			f, err := consumer.NewFetcher(w.client, o.Topics.Changelog, p, consumer.FetcherOptions{})
			ok(t, err)
			_, end, err := f.Bounds(t.Context())
			ok(t, err)
			w.deleteRecords(t, o.Topics.Changelog, p, end-2) // the last mark and its marker
		}
	}
	if said := details(Diagnose(t.Context(), o), LevelFailure); strings.Contains(said, "does not begin") {
		t.Errorf("doctor finds %s", said)
	}
	cut()
	w.serve(t, o, 1) // its folder has all states
	cut()
	other := o
	other.StateDir = o.StateDir + ".other"
	if said := details(Diagnose(t.Context(), other), LevelFailure); !strings.Contains(said, "does not begin at offset 0") {
		t.Errorf("doctor finds %s", said)
	}
	for range 5 {
		w.feed(t)
	}
	a := w.answers(t, o.Group)
	before := a.read(t)
	err := fails(t, other, "restore the topic", "rebuild-changelog --from-store", "accept_lost_account: true", "starts at 0 again")
	if !errors.Is(err, task.ErrLost) || a.read(t) != before {
		t.Errorf("the service ends with %v, and %d answers have become %d", err, before, a.read(t))
	}
	if _, err := RebuildChangelog(t.Context(), o, []string{o.StateDir}, false); err == nil || !strings.Contains(err.Error(), "Delete first.log") {
		t.Errorf("writing back beside what is left: %v", err)
	}
	w.deleteTopic(t, o.Topics.Changelog, false)
	_, err = RebuildChangelog(t.Context(), o, []string{o.StateDir}, false)
	ok(t, err)
	ok(t, os.RemoveAll(other.StateDir))
	w.serve(t, other, 0)
	for user, sum := range w.spent(t, "first.out") {
		if sum > budget {
			t.Errorf("ε %v are published of %s, the budget is %v", sum, user, budget)
		}
	}
}

// TestCutChangelogIsAccepted: who says so goes on with what is left, and is warned.
func TestCutChangelogIsAccepted(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	w.serve(t, o, 3)
	w.deleteRecords(t, o.Topics.Changelog, 0, 2)
	ok(t, os.RemoveAll(o.StateDir))
	o.AcceptLost = true
	if said := details(Diagnose(t.Context(), o), LevelWarning); !strings.Contains(said, "does not begin at offset 0") {
		t.Errorf("doctor finds %s", said)
	}
	r := start(t, o)
	await(t, "it says so", func() bool { return strings.Contains(r.log.String(), "does not begin at offset 0") }, r)
	r.stop(t)
	o.AcceptLost = false
	w.serve(t, o, 1)
}
