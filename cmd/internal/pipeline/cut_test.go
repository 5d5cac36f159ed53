package pipeline

import (
	"os"
	"strings"
	"testing"
)

// TestCutChangelog: a changelog that has lost its beginning, and not its end, is warned of
// by doctor and by an instance that has to restore from it.
func TestCutChangelog(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	w.serve(t, o, 3)
	if said := details(Diagnose(t.Context(), o), LevelWarning); strings.Contains(said, "does not begin") {
		t.Errorf("doctor finds %s", said)
	}
	w.deleteRecords(t, o.Topics.Changelog, 0, 2)
	ok(t, os.RemoveAll(o.StateDir))
	if said := details(Diagnose(t.Context(), o), LevelWarning); !strings.Contains(said, "does not begin at offset 0") {
		t.Errorf("doctor finds %s", said)
	}
	r := start(t, o)
	await(t, "it says so", func() bool { return strings.Contains(r.log.String(), "does not begin at offset 0") }, r)
	r.stop(t)
}
