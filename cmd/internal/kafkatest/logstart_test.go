//go:build kafka

package kafkatest

import (
	"os"
	"testing"

	"github.com/geodither/geodither/consumer/task"
)

// TestTheChangelogsStartMoves deletes the beginning of the changelog. A service whose state
// folder is from before the gap stops: nobody can tell whose account was in it. With a
// folder from behind the gap the service goes on as if nothing had happened.
func TestTheChangelogsStartMoves(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(1, 5)
	o := w.options("service")
	w.createRaw()
	round := func() string {
		w.feed(10)
		r := w.serve(o)
		w.eventually("all is answered", func() bool { return w.answered(o) })
		r.stop()
		return r.log.String()
	}
	round()
	old := o.StateDir + ".old"
	w.ok(os.CopyFS(old, os.DirFS(o.StateDir)))
	_, end, err := w.fetcher(o.Topics.Changelog, 0, false).Bounds(t.Context())
	w.ok(err)
	round() // every user has another state now

	// Kafka deletes records by hand only where it deletes by itself.
	w.alter(o.Topics.Changelog, "cleanup.policy", "delete")
	w.deleteRecords(o.Topics.Changelog, 0, end+5)
	w.alter(o.Topics.Changelog, "cleanup.policy", "compact")

	behind := o
	behind.StateDir = old
	err = w.serve(behind).wait()
	t.Logf("%v", err)
	w.is(err, task.ErrLost)
	r := w.serve(o)
	w.feed(10)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	t.Log(r.log.first(1, "state restored"))
	w.exactlyOnce(o)
}
