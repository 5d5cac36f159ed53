package erase

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestLookWhileCleaned: a user whose state the cleaner removes for the sake of a newer one behind
// the end is not called unknown.
func TestLookWhileCleaned(t *testing.T) {
	w := servicetest.NewCompacted(t)
	w.Put(t, "log", "ann", []byte("old"))
	e := eraserAt(7)
	e.client, e.o.Topics.Changelog = w.Cleaned(t, "log", "ann", []byte("new")), "log"
	e.want("ann")
	l, err := readPartition(t.Context(), e, 0)
	if l.drop(); err != nil || l.found["ann"] == nil || string(l.found["ann"].state) != "new" {
		t.Errorf("found %+v, %v", l.found, err)
	}
}
