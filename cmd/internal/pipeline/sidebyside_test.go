package pipeline

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
)

// TestOtherSettingsBeside: a second instance of a group under other settings stops by
// itself and names them, whoever leads; the first goes on. Settings that change no bytes
// are no obstacle. doctor says so beforehand.
func TestOtherSettingsBeside(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	a := w.answers(t, o.Group)
	first := start(t, o)
	w.feed(t)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, first)

	other := o
	other.StateDir, other.Counters = o.StateDir+".other", new(Counters)
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
		err := r.wait(t)
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
		w.feed(t)
		await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, first)
	}

	rolling := o
	rolling.StateDir, rolling.Counters = o.StateDir+".rolling", new(Counters)
	rolling.MaxRecords, rolling.TransactionTimeout = 7, 20*time.Second
	second := start(t, rolling)
	await(t, "it has a share", func() bool {
		w.feed(t)
		return rolling.Counters.Snapshot().RecordsIn > 0
	}, first, second)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, first, second)
	first.stop(t)
	second.stop(t)
	w.requireUndisturbed(t, "first")
}

// TestOldSettingsAreNamed: the last owner ended in the middle under other settings. The
// error names them.
func TestOldSettingsAreNamed(t *testing.T) {
	o := testOptions(t, neighbourModel(t, town, 5000, 4))
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
	w := newWorld(t, 20)
	o := w.options("first")
	w.serve(t, o, 3)
	o.Release.Epsilon *= 2
	o.Counters = new(Counters)
	service := start(t, o)
	line := `msg="begins under the changed settings"`
	await(t, "all partitions begin", func() bool {
		return strings.Count(service.log.String(), line) == partitions
	}, service)
	service.stop(t)
	log := service.log.String()
	if n := strings.Count(log, `level=WARN msg="settings have changed`); n != 1 ||
		!strings.Contains(log, "different=release.epsilon\n") {
		t.Errorf("%d warnings, or they do not name what has changed:\n%s", n, log)
	}
}

// TestOtherKeyDaysBeside: an instance under an advanced key stops beside one under the older key,
// and says why; alone it goes on without a question.
func TestOtherKeyDaysBeside(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	a := w.answers(t, o.Group)
	first := start(t, o)
	w.feed(t)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, first)

	advanced := o
	advanced.StateDir, advanced.Counters, advanced.Key = o.StateDir+".other", new(Counters), nextDay(t)
	const says = "key_file: it has noise from another day on"
	if bad := details(Diagnose(t.Context(), advanced), LevelFailure); !strings.Contains(bad, says) {
		t.Errorf("doctor finds %q", bad)
	}
	err := start(t, advanced).wait(t)
	var differ *group.SettingsError
	if !errors.As(err, &differ) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "differs: geodither") {
		t.Errorf("the second instance ends with %v", err)
	}
	first.stop(t)
	alone := start(t, advanced)
	w.feed(t)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, alone)
	alone.stop(t)
	if n := advanced.Counters.Snapshot(); n.Destroyed == 0 {
		t.Errorf("it has refused nothing: %+v", n)
	}
}
