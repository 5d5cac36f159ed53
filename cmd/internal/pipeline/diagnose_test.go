package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// details joins what the findings of one level say.
func details(found []Finding, level string) string {
	var b strings.Builder
	for _, f := range found {
		if f.Level == level {
			b.WriteString(f.Check + ": " + f.Detail + "\n")
		}
	}
	return b.String()
}

// TestDiagnoseOtherSettings: while an instance works, one of other settings is told
// that it would be refused; once it has stopped cleanly, that it would not.
func TestDiagnoseOtherSettings(t *testing.T) {
	w := newWorld(t, 4)
	o := w.options("first")
	published := w.answers(t, o.Group)
	w.feed(t)
	service := start(t, o)
	await(t, "everything is answered", func() bool { return published.read(t) >= w.fed }, service)
	if bad := details(Diagnose(t.Context(), o), LevelFailure); bad != "" {
		t.Errorf("the service itself: %s", bad)
	}
	other := o
	other.Release.Epsilon = 2
	if bad := details(Diagnose(t.Context(), other), LevelFailure); !strings.Contains(bad, "changelog") || !strings.Contains(bad, "accept_settings") {
		t.Errorf("other settings beside it: %s", bad)
	}
	other.AcceptSettings = true // of a mark that was left; those at work are another matter
	if bad := details(Diagnose(t.Context(), other), LevelFailure); strings.Contains(bad, "changelog") || !strings.Contains(bad, "release.epsilon") {
		t.Errorf("other settings, accepted: %s", bad)
	}
	other.AcceptSettings = false
	service.stop(t)
	found := Diagnose(t.Context(), other)
	if bad := details(found, LevelFailure); bad != "" || !strings.Contains(details(found, LevelWarning), "other settings") {
		t.Errorf("other settings after it: %+v", found)
	}
	for _, f := range found {
		if strings.Contains(f.Detail, "vehicle") {
			t.Errorf("a finding names a user: %+v", f)
		}
	}
	// One record of eight was cut short.
	if said := details(found, LevelWarning); !strings.Contains(said, "would be refused: malformed 1") {
		t.Errorf("the raw records are said to be: %s", said)
	}
}

// TestDiagnoseBadOptions goes no further than them.
func TestDiagnoseBadOptions(t *testing.T) {
	o := testOptions(t, neighbourModel(t, town, 5000, 4))
	o.Group = ""
	if found := Diagnose(t.Context(), o); len(found) != 1 || found[0].Level != LevelFailure || !strings.Contains(found[0].Detail, "group") {
		t.Errorf("found %+v", found)
	}
}

// TestProbe of the state folder leaves nothing behind, and sees a disk on which a
// file can be made and not written.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	ok(t, probe(dir, os.CreateTemp))
	full := func(dir, pattern string) (*os.File, error) {
		link := filepath.Join(dir, pattern)
		if err := os.Symlink("/dev/full", link); err != nil {
			return nil, err
		}
		return os.OpenFile(link, os.O_WRONLY, 0)
	}
	if err := probe(dir, full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
