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
	"github.com/geodither/geodither/mechanism"
)

// TestCutChangelog: a changelog that has lost its beginning, and not its last marks, stops
// an instance that has to restore all of it before it releases anything. One that has the
// states goes on. Its folder is what the changelog is written back from.
func TestCutChangelog(t *testing.T) {
	t.Parallel()
	const budget = 5
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	o.Release.Budget = mechanism.Budget{
		Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict,
	}
	atwork.Serve(t, w, o, 8)
	cut := func() {
		t.Helper()
		for p := range int32(servicetest.Partitions) {
			f, err := consumer.NewFetcher(w.Client, o.Topics.Changelog, p,
				consumer.FetcherOptions{})
			servicetest.OK(t, err)
			_, end, err := f.Bounds(t.Context())
			servicetest.OK(t, err)
			w.DeleteRecords(t, o.Topics.Changelog, p, end-2) // the last mark and its marker
		}
	}
	if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); strings.Contains(said, "does not begin") {
		t.Errorf("doctor finds %s", said)
	}
	cut()
	atwork.Serve(t, w, o, 1) // its folder has all states
	cut()
	other := o
	other.StateDir = o.StateDir + ".other"
	if said := atwork.Details(service.Examine(t.Context(), other, nil, nil),
		checks.Failure); !strings.Contains(said, "does not begin at offset 0") {
		t.Errorf("doctor finds %s", said)
	}
	for range 5 {
		w.Feed(t)
	}
	a := w.Answers(t, o.Group)
	before := a.Read(t)
	err := fails(t, other, "(changelog-cut)")
	if !errors.Is(err, task.ErrLost) || a.Read(t) != before {
		t.Errorf("the service ends with %v, and %d answers have become %d", err, before, a.Read(t))
	}
	if _, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{o.StateDir}); err == nil || !strings.Contains(err.Error(), "(changelog-cut)") {
		t.Errorf("writing back beside what is left: %v", err)
	}
	w.DeleteTopic(t, o.Topics.Changelog, false)
	_, err = account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{o.StateDir})
	servicetest.OK(t, err)
	servicetest.OK(t, os.RemoveAll(other.StateDir))
	atwork.Serve(t, w, other, 0)
	for user, sum := range w.Spent(t, "first.out") {
		if sum > budget {
			t.Errorf("ε %v are published of %s, the budget is %v", sum, user, budget)
		}
	}
}

// TestCutChangelogIsAccepted: a service that accepts it goes on with what is left, and is warned.
func TestCutChangelogIsAccepted(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	w.DeleteRecords(t, o.Topics.Changelog, 0, 2)
	servicetest.OK(t, os.RemoveAll(o.StateDir))
	o.AcceptLost = true
	r := atwork.Start(t, o)
	servicetest.Await(t, "the warning",
		func() bool { return strings.Contains(r.Log.String(), "does not begin at offset 0") }, r)
	r.Stop(t)
	o.AcceptLost = false
	atwork.Serve(t, w, o, 1)
}
