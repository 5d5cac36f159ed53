package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/state"
)

// TestResetState: the changelog has all that the folder has; after a reset the service goes on where
// it was, and what it publishes is what it would have.
func TestResetState(t *testing.T) {
	w := newWorld(t, 20)
	for range 6 {
		w.feed(t)
	}
	o := w.options("first")
	a := w.answers(t, o.Group)
	service := start(t, o)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, service)
	if _, err := ResetState(t.Context(), o, false, false); !errors.Is(err, state.ErrLocked) {
		t.Errorf("the state folder of a running service: %v", err)
	}
	service.stop(t)
	for _, keep := range []bool{true, true, false} {
		got, err := ResetState(t.Context(), o, keep, false)
		ok(t, err)
		if len(got.Names) != 1 || got.Bytes == 0 || !got.Restorable || got.Folder != o.StateDir {
			t.Errorf("keep %t: %+v", keep, got)
		}
	}
	w.serve(t, o, 3)
	w.requireUndisturbed(t, "first")
}

// TestResetEverything: refused while the group has members; a dry run removes
// nothing; then all fixes are released once more, the same ones.
func TestResetEverything(t *testing.T) {
	w := newWorld(t, 20)
	o := w.options("first")
	w.serve(t, o, 6)
	service := start(t, o)
	await(t, "it has joined", func() bool { return strings.Contains(service.log.String(), "partitions assigned") }, service)
	if _, err := ResetEverything(t.Context(), o, false, false); err == nil || !strings.Contains(err.Error(), "has members") {
		t.Errorf("a group at work: %v", err)
	}
	service.stop(t)
	for _, keep := range []bool{true, false} {
		if report := verify(t, o); !report.Verified {
			t.Fatalf("before keep %t: %+v", keep, report)
		}
		got, err := ResetEverything(t.Context(), o, keep, false)
		ok(t, err)
		if got.Fixes != w.fed || got.Epsilon != 1 || !got.Everything || len(got.Names) != 1 {
			t.Errorf("keep %t: %+v, want %d fixes", keep, got, w.fed)
		}
	}
	a := w.answers(t, o.Group)
	o.AcceptLost = true // the output topics say that something was processed
	service = start(t, o)
	await(t, "everything is answered twice", func() bool { return a.read(t) >= 2*w.fed }, service)
	service.stop(t)
	for p, lines := range a.out.lines {
		half := len(lines) / 2
		for i := range half {
			if lines[i] != lines[half+i] {
				t.Fatalf("partition %d: record %d is another one the second time", p, i)
			}
		}
	}
}
