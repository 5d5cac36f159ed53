//go:build kafka

package kafkatest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
)

// TestARawLogThatWasRegrown puts an old copy of a raw partition back on the broker's disk, as an
// election that is not clean does, and lets the log grow beyond the committed offset. Records lie
// there where the service has read others. It stops, and goes on once that was accepted.
func TestARawLogThatWasRegrown(t *testing.T) {
	t.Parallel()
	cluster := private(t)
	w := newHarnessAt(t, cluster.brokers()...).world(1, 5)
	o := w.options("service")
	w.createRaw()
	round := func() {
		w.feed(3)
		r := w.serve(o)
		w.eventually("all is answered", func() bool { return w.answered(o) })
		r.stop()
	}
	round()
	folder := cluster.log(w.raw, 0)
	old := filepath.Join(t.TempDir(), "old")
	cluster.on(1, "term")
	w.ok(os.CopyFS(old, os.DirFS(folder)))
	cluster.on(1, "start")
	round()
	short := w.fed
	cluster.on(1, "term")
	w.ok(errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(old))))
	cluster.on(1, "start")
	w.feed(9)
	_, end, err := w.fetcher(o.Topics.Raw, 0, false).Bounds(t.Context())
	w.ok(err)
	if end <= short {
		t.Fatalf("the log ends at %d, and %d records were processed", end, short)
	}
	found := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Failure)
	t.Logf("doctor: %s", found)
	if !strings.Contains(found, "has grown again") {
		t.Error("doctor does not say it")
	}
	for range 2 {
		err := w.serve(o).wait()
		t.Log(err)
		w.is(err, task.ErrInputLost)
	}
	accepting := o
	accepting.SkipLost = true
	r := w.serve(accepting)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	w.feed(3)
	r = w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
}
