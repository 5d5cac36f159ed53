//go:build kafka

package kafkatest

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/producer"
)

// TestAbortedInputFirst: a raw topic whose partitions begin with two aborted transactions
// of five records each. After one run everything verifies, and a replay under the same
// settings is the first release again.
func TestAbortedInputFirst(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(3, 20)
	o := w.options("service")
	w.createRaw()
	tx := w.transactional(w.client, "aborting", producer.Options{})
	for range 2 {
		for p := range int32(w.partitions) {
			// As large as one fetch, so that the first answers to the service hold no record.
			large := strings.Repeat("x", 90_000)
			w.produce(tx, w.raw, p, "a"+large, "b"+large, "c"+large, "d"+large, "e"+large)
		}
		w.ok(tx.Abort(t.Context()))
	}
	for p := range int32(w.partitions) {
		w.settled(w.raw, p)
	}
	w.feed(6)
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	for p := range int32(w.partitions) {
		w.settled(o.Topics.Changelog, p)
		if m := w.lastMark(o, p); m.Origin != 0 || m.Since != 0 || m.Open || m.Input <= 12 {
			t.Errorf("partition %d: the mark is %+v, want one from 0 and since 0", p, m)
		}
	}
	w.verified(o)
	again := replay.Options{Output: w.prefix + "again"}
	plan, err := replay.Run(w.within(patience), o, again)
	w.ok(err)
	if !plan.Identical || !plan.Done || plan.Cost != (replay.Cost{}) {
		t.Errorf("a replay under the same settings is another release: %+v", plan)
	}
	for p := range int32(w.partitions) {
		w.settled(plan.Output, p)
		w.same(plan.Output, p, w.lines(plan.Output, p, false),
			w.lines(o.Topics.Sanitized, p, false))
	}
}

// TestReplaySpends: a replay under another ε, of the last step alone, announces the ε of
// every release that its records depend on, and that is what it has spent in the end: as
// much as the same users' records carry in a replay of everything.
func TestReplaySpends(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(3, 30)
	o := w.options("service")
	w.createRaw()
	w.feed(30)
	from := topics.Bound{Time: time.UnixMilli(startMS + w.step*60_000)}
	w.cells = w.cells[:5]
	w.feed(1)
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	w.verified(o)

	dearer := o
	dearer.Release.Epsilon = 2
	sums := func(r replay.Options) (replay.Plan, map[string]float64) {
		r.SpendAgain = true
		plan, err := replay.Run(w.within(patience), dearer, r)
		w.ok(err)
		sums := map[string]float64{}
		for p := range int32(w.partitions) {
			w.settled(plan.Output, p)
			for _, l := range w.lines(plan.Output, p, false) {
				s, err := w.codec.DecodeSanitized([]byte(l.value))
				w.ok(err)
				sums[s.UserID] += s.Epsilon
				if s.Mechanism != "lattice (second release)" {
					t.Fatalf("a record says that its mechanism is %q", s.Mechanism)
				}
			}
		}
		return plan, sums
	}
	last := replay.Options{Output: w.prefix + "last", From: from}
	refused, err := replay.Run(w.within(patience), dearer, last)
	if !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "Different: release.epsilon;") {
		t.Fatalf("the replay is not refused: %v", err)
	}
	_, whole := sums(replay.Options{Output: w.prefix + "whole"})
	plan, part := sums(last)
	var all, published float64
	for user, epsilon := range part {
		all, published = all+whole[user], published+epsilon
	}
	t.Logf("%g of ε in the range, %g announced, %g counted", published, refused.Cost.Epsilon, all)
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-6 }
	if !near(refused.Cost.Epsilon, all) || !near(refused.Cost.BeforeFrom, all-published) ||
		refused.Cost.Users != int64(len(part)) ||
		all < 10*published ||
		published == 0 {
		t.Errorf("announced was %+v; the records carry %g, of which %g in the range, for %d users",
			refused.Cost, all, published, len(part))
	}
	if plan.Cost != refused.Cost || plan.Spent != refused.Cost {
		t.Errorf("announced was %+v, then %+v, and spent is %+v", refused.Cost, plan.Cost,
			plan.Spent)
	}
}
