package pipeline

import "testing"

// TestVerifyCountsTheBacklog: raw records that nobody has processed yet are counted and not
// judged.
func TestVerifyCountsTheBacklog(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	w.serve(t, o, 2)
	backlog := func() (n int64) {
		report := verify(t, o)
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
	before := w.fed
	w.feed(t)
	if n := backlog(); n != w.fed-before {
		t.Errorf("%d records are left to process, and %d were added", n, w.fed-before)
	}
}
