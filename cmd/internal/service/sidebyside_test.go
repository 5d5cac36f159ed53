package service_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/group"
)

// TestOtherSettingsBeside: a second instance of a group under other settings stops by
// itself and names them, whichever leads; the first goes on. Settings that change no bytes
// are no obstacle. doctor warns beforehand.
func TestOtherSettingsBeside(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	a := w.Answers(t, o.Group)
	first := atwork.Start(t, o)
	w.Feed(t)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, first)

	other := o
	other.StateDir, other.Counters = o.StateDir+".other", new(engine.Counters)
	other.Release.Epsilon, other.MaxAhead = 2, 17*time.Minute
	other.AcceptSettings = true // which is about a mark that was left, and not about others at work
	bad := atwork.Details(service.Examine(t.Context(), other, nil, nil), checks.Failure)
	for _, part := range []string{"instances", "release.epsilon", "max_ahead"} {
		if !strings.Contains(bad, part) {
			t.Errorf("doctor finds %q, which does not say %q", bad, part)
		}
	}
	for range 2 {
		r := atwork.Start(t, other)
		err := r.Wait(t)
		var differ *group.SettingsError
		if !errors.As(err, &differ) {
			t.Fatalf("the second instance ends with %v", err)
		}
		for _, part := range []string{
			"first", "release.epsilon", "max_ahead", "the same settings",
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error %q does not say %q", err, part)
			}
		}
		if strings.Contains(err.Error(), "key_file") {
			t.Errorf("the error %q names what is equal", err)
		}
		if n := other.Counters.Snapshot().RecordsIn; n != 0 {
			t.Errorf("it has processed %d records", n)
		}
		w.Feed(t)
		servicetest.Await(t, "everything is answered",
			func() bool { return a.Read(t) >= w.Fed }, first)
	}

	rolling := o
	rolling.StateDir, rolling.Counters = o.StateDir+".rolling", new(engine.Counters)
	rolling.MaxRecords, rolling.TransactionTimeout = 7, 20*time.Second
	second := atwork.Start(t, rolling)
	servicetest.Await(t, "it has a share", func() bool {
		w.Feed(t)
		return rolling.Counters.Snapshot().RecordsIn > 0
	}, first, second)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, first, second)
	first.Stop(t)
	second.Stop(t)
	atwork.RequireUndisturbed(t, w, "first")
}

// TestChangedSettingsAreNamed in one warning of an instance, however many partitions it has.
func TestChangedSettingsAreNamed(t *testing.T) {
	w := servicetest.NewWorld(t, 20)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	o.Release.Epsilon *= 2
	o.Counters = new(engine.Counters)
	service := atwork.Start(t, o)
	line := `msg="begins under the changed settings"`
	servicetest.Await(t, "all partitions begin", func() bool {
		return strings.Count(service.Log.String(), line) == servicetest.Partitions
	}, service)
	service.Stop(t)
	log := service.Log.String()
	if n := strings.Count(log, `level=WARN msg="settings have changed`); n != 1 ||
		!strings.Contains(log, "different=release.epsilon\n") {
		t.Errorf("%d warnings, or they do not name what has changed:\n%s", n, log)
	}
}
