package account_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/state"
)

// TestResetFolder: the changelog has all that the folder has; after a reset the service goes on
// where it was, and what it publishes is what it would have.
func TestResetFolder(t *testing.T) {
	w := servicetest.NewWorld(t, 20)
	for range 6 {
		w.Feed(t)
	}
	o := atwork.Options(w, "first")
	a := w.Answers(t, o.Group)
	service := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, service)
	if _, err := account.ResetFolder(t.Context(),
		atwork.RepairOptions(o, false, false)); !errors.Is(err, state.ErrLocked) {
		t.Errorf("the state folder of a running service: %v", err)
	}
	service.Stop(t)
	for _, keep := range []bool{true, true, false} {
		got, err := account.ResetFolder(t.Context(), atwork.RepairOptions(o, keep, false))
		servicetest.OK(t, err)
		if len(got.Names) != 1 || got.Bytes == 0 || !got.Restorable || got.Folder != o.StateDir {
			t.Errorf("keep %t: %+v", keep, got)
		}
	}
	atwork.Serve(t, w, o, 3)
	atwork.RequireUndisturbed(t, w, "first")
}

// TestResetEverything: refused while the group has members; a dry run removes
// nothing; then all fixes are released once more, the same ones.
func TestResetEverything(t *testing.T) {
	w := servicetest.NewWorld(t, 20)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 6)
	service := atwork.Start(t, o)
	servicetest.Await(t, "it has joined",
		func() bool { return strings.Contains(service.Log.String(), "partitions assigned") },
		service)
	if _, err := account.ResetEverything(t.Context(), atwork.RepairOptions(o, false,
		false)); err == nil || !strings.Contains(err.Error(), "has members") {
		t.Errorf("a group at work: %v", err)
	}
	service.Stop(t)
	for _, keep := range []bool{true, false} {
		if report := atwork.Verify(t, o); !report.Verified {
			t.Fatalf("before keep %t: %+v", keep, report)
		}
		got, err := account.ResetEverything(t.Context(), atwork.RepairOptions(o, keep, false))
		servicetest.OK(t, err)
		if got.Fixes != w.Fed || got.Epsilon != 1 || !got.Everything || len(got.Names) != 1 {
			t.Errorf("keep %t: %+v, want %d fixes", keep, got, w.Fed)
		}
	}
	a := w.Answers(t, o.Group)
	o.AcceptLost = true // the output topics say that something was processed
	service = atwork.Start(t, o)
	servicetest.Await(t, "everything is answered twice",
		func() bool { return a.Read(t) >= 2*w.Fed }, service)
	service.Stop(t)
	for p, lines := range a.Out.Lines {
		half := len(lines) / 2
		for i := range half {
			if lines[i] != lines[half+i] {
				t.Fatalf("partition %d: record %d is another one the second time", p, i)
			}
		}
	}
}
