package pipeline

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTwoServicesShareTheWork: one joins the other in the middle of the work, one
// stops, comes back with the store it had left, and what they publish together
// is what one alone would have.
func TestTwoServicesShareTheWork(t *testing.T) {
	w := newWorld(t, 40)
	published := w.answers(t, "shared")
	// pump feeds on, never far ahead of the services, until a condition holds.
	pump := func(what string, holds func() bool, services ...*running) {
		t.Helper()
		await(t, what, func() bool {
			if published.read(t) >= w.fed-400 {
				w.feed(t)
			}
			return holds()
		}, services...)
	}
	instance := func(name string) *running {
		o := w.options("shared")
		o.StateDir = filepath.Join(w.dir, name)
		return start(t, o)
	}
	answered := func(r *running) int64 { return r.options.Counters.Snapshot().RecordsIn }

	a := instance("a")
	pump("the first service works", func() bool { return answered(a) > 300 }, a)
	b := instance("b")
	pump("the second service works", func() bool { return answered(b) > 300 }, a, b)
	alone := answered(a)
	pump("both go on", func() bool { return answered(a) > alone+100 }, a, b)

	a.stop(t)
	taken := answered(b)
	pump("the second service has taken over", func() bool { return answered(b) > taken+1000 }, b)
	again := instance("a")
	pump("the first service is back", func() bool { return answered(again) > 300 }, again, b)
	if !bytes.Contains(again.log.bytes(), []byte("state restored")) {
		t.Error("the service that came back has restored nothing")
	}
	await(t, "everything is answered", func() bool { return published.read(t) >= w.fed }, again, b)
	again.stop(t)
	b.stop(t)
	w.requireUndisturbed(t, "shared")
}

// TestAbortedTransactionsCountOnce: the broker refuses offsets now and then, the
// transactions are done again, and counters and output are those of a calm run.
func TestAbortedTransactionsCountOnce(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))
	ok(t, err)
	t.Cleanup(cluster.Close)
	w := newWorldAt(t, cluster.ListenAddrs()[0], 30)
	for range 20 {
		w.feed(t)
	}
	o := w.options("refused")
	published := w.answers(t, o.Group)
	const refusals = 3
	service := start(t, o)
	await(t, "every partition's mark is open", func() bool { return published.read(t) >= w.fed }, service)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownServerError, Count: refusals})
	for range 20 {
		w.feed(t)
	}
	await(t, "everything is answered", func() bool { return published.read(t) >= w.fed }, service)
	await(t, "everything is counted", func() bool { return o.Counters.Snapshot().RecordsIn >= w.fed })
	service.stop(t)
	got := o.Counters.Snapshot()
	if got.RecordsIn != w.fed || got.RecordsOut+got.DeadLetters != w.fed || got.Aborts != refusals {
		t.Errorf("the counters of %d records are %+v, want %d aborts", w.fed, got, refusals)
	}
	if n := strings.Count(service.log.String(), "transaction dropped"); n != refusals {
		t.Errorf("%d dropped transactions are logged, want %d", n, refusals)
	}
	w.requireUndisturbed(t, o.Group)
}
