package pipeline

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
)

// TestOtherSettingsBeside: a second instance of a group under other settings stops by
// itself and names them, whoever leads; the first goes on. Settings that change no bytes
// are no obstacle. doctor says so beforehand.
func TestOtherSettingsBeside(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := optionsFor(w, "first")
	a := w.Answers(t, o.Group)
	first := start(t, o)
	w.Feed(t)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, first)

	other := o
	other.StateDir, other.Counters = o.StateDir+".other", new(engine.Counters)
	other.Release.Epsilon, other.MaxAhead = 2, 17*time.Minute
	other.AcceptSettings = true // which is about a mark that was left, and not about others at work
	bad := details(Diagnose(t.Context(), other), LevelFailure)
	for _, part := range []string{"instances", "release.epsilon", "max_ahead"} {
		if !strings.Contains(bad, part) {
			t.Errorf("doctor finds %q, which does not say %q", bad, part)
		}
	}
	for range 2 {
		r := start(t, other)
		err := r.Wait(t)
		var differ *group.SettingsError
		if !errors.As(err, &differ) {
			t.Fatalf("the second instance ends with %v", err)
		}
		for _, part := range []string{"first", "release.epsilon", "max_ahead", "the same settings"} {
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
		servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, first)
	}

	rolling := o
	rolling.StateDir, rolling.Counters = o.StateDir+".rolling", new(engine.Counters)
	rolling.MaxRecords, rolling.TransactionTimeout = 7, 20*time.Second
	second := start(t, rolling)
	servicetest.Await(t, "it has a share", func() bool {
		w.Feed(t)
		return rolling.Counters.Snapshot().RecordsIn > 0
	}, first, second)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, first, second)
	first.Stop(t)
	second.Stop(t)
	requireUndisturbed(t, w, "first")
}

// TestOldSettingsAreNamed: the last owner ended in the middle under other settings. The
// error names them.
func TestOldSettingsAreNamed(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	before := o
	before.Publish.Metric = true
	err := o.named(task.WithRemedy(&task.SettingsError{Found: before.Fingerprint(), Own: o.Fingerprint(), Input: 7}, task.Fatal))
	if !errors.Is(err, task.ErrSettings) || task.RemedyOf(err) != task.Fatal || !strings.Contains(err.Error(), "What differs: publish.metric") {
		t.Errorf("the error is %v (%v)", err, task.RemedyOf(err))
	}
	if other := errors.New("other"); !errors.Is(o.named(other), other) || o.named(other).Error() != "other" {
		t.Error("another error has changed")
	}
}

// TestChangedSettingsAreNamed in one warning of an instance, however many partitions it has.
func TestChangedSettingsAreNamed(t *testing.T) {
	w := servicetest.NewWorld(t, 20)
	o := optionsFor(w, "first")
	serve(t, w, o, 3)
	o.Release.Epsilon *= 2
	o.Counters = new(engine.Counters)
	service := start(t, o)
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

// TestOtherKeyDaysBeside: an instance under an advanced key stops beside one under the older key,
// and says why; alone it goes on without a question.
func TestOtherKeyDaysBeside(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := optionsFor(w, "first")
	a := w.Answers(t, o.Group)
	first := start(t, o)
	w.Feed(t)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, first)

	advanced := o
	advanced.StateDir, advanced.Counters, advanced.Key = o.StateDir+".other", new(engine.Counters), servicetest.NextDay(t)
	const says = "key_file: it has noise from another day on"
	if bad := details(Diagnose(t.Context(), advanced), LevelFailure); !strings.Contains(bad, says) {
		t.Errorf("doctor finds %q", bad)
	}
	err := start(t, advanced).Wait(t)
	var differ *group.SettingsError
	if !errors.As(err, &differ) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "differs: geodither") {
		t.Errorf("the second instance ends with %v", err)
	}
	first.Stop(t)
	alone := start(t, advanced)
	w.Feed(t)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, alone)
	alone.Stop(t)
	if n := advanced.Counters.Snapshot(); n.Destroyed == 0 {
		t.Errorf("it has refused nothing: %+v", n)
	}
}
