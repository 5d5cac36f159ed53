package verify_test

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// TestVerifyCountsTheBacklog: raw records that nobody has processed yet are counted and not
// judged.
func TestVerifyCountsTheBacklog(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 2)
	backlog := func() (n int64) {
		report := atwork.Verify(t, o)
		if !report.Verified {
			t.Errorf("%+v", report)
		}
		for _, p := range report.Partitions {
			n += p.Unprocessed
		}
		return n
	}
	if n := backlog(); n != 0 {
		t.Errorf("%d records are left to process", n)
	}
	before := w.Fed
	w.Feed(t)
	if n := backlog(); n != w.Fed-before {
		t.Errorf("%d records are left to process, and %d were added", n, w.Fed-before)
	}
}
