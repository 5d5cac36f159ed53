package account

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestInspectWhileCleaned: a state that the cleaner removes for the sake of a newer one behind the
// end is not missed.
func TestInspectWhileCleaned(t *testing.T) {
	w := servicetest.NewCompacted(t)
	w.Put(t, "log", "ann", []byte("old"))
	var o Options
	o.Key, o.Topics.Changelog = noise.KeyFromSeed(1), "log"
	found, _, err := lastValues(t.Context(), w.Cleaned(t, "log", "ann", []byte("new")), o, 0,
		[]byte("ann"))
	if err != nil || string(found.value) != "new" || found.offset != 2 {
		t.Errorf("found %q at %d, %v", found.value, found.offset, err)
	}
}
