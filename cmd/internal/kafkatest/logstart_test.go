//go:build kafka

package kafkatest

import (
	"os"
	"testing"

	"github.com/geodither/geodither/consumer/task"
)

// TestRetentionOvertakesTheService removes raw records that were not processed
// yet. The service stops and says so; with skip_lost it goes on behind them.
func TestRetentionOvertakesTheService(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(1, 5)
	o := w.options("service")
	w.createRaw()
	w.feed(10)
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	before := len(w.lines(o.Topics.Sanitized, 0, false))
	at := w.committed(o.Group, w.raw)
	w.feed(10)
	w.deleteRecords(w.raw, 0, at+20)

	r = w.serve(o)
	err := r.wait()
	t.Logf("%v", err)
	w.is(err, task.ErrInputLost)
	if task.RemedyOf(err) != task.Fatal {
		t.Errorf("its remedy is %v", task.RemedyOf(err))
	}
	if got := w.committed(o.Group, w.raw); got != at {
		t.Errorf("the group has moved from %d to %d", at, got)
	}

	o.SkipLost = true
	r = w.serve(o)
	w.eventually("the rest is answered", func() bool { return w.answered(o) })
	r.stop()
	out := len(w.lines(o.Topics.Sanitized, 0, false)) + len(w.lines(o.Topics.DeadLetters, 0, false))
	if want := int(w.fed) - 20; out != want {
		t.Errorf("%d records are answered of %d, of which 20 were lost", out, w.fed)
	}
	if out <= before {
		t.Error("nothing was answered behind the lost records")
	}
}

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
