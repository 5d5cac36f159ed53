package service_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// TestTwoServicesShareTheWork: one joins the other in the middle of the work, one
// stops, comes back with the store it had left, and what they publish together
// is what one alone would have.
func TestTwoServicesShareTheWork(t *testing.T) {
	w := servicetest.NewWorld(t, 40)
	published := w.Answers(t, "shared")
	// pump feeds on, never far ahead of the services, until a condition holds.
	pump := func(what string, holds func() bool, services ...servicetest.AtWork) {
		t.Helper()
		servicetest.Await(t, what, func() bool {
			if published.Read(t) >= w.Fed-400 {
				w.Feed(t)
			}
			return holds()
		}, services...)
	}
	instance := func(name string) *atwork.Running {
		o := atwork.Options(w, "shared")
		o.StateDir = filepath.Join(w.Dir, name)
		return atwork.Start(t, o)
	}
	answered := func(r *atwork.Running) int64 { return r.Counters.Snapshot().RecordsIn }

	a := instance("a")
	pump("the first service works", func() bool { return answered(a) > 300 }, a)
	b := instance("b")
	pump("the second service works", func() bool { return answered(b) > 300 }, a, b)
	alone := answered(a)
	pump("both go on", func() bool { return answered(a) > alone+100 }, a, b)

	a.Stop(t)
	taken := answered(b)
	pump("the second service has taken over", func() bool { return answered(b) > taken+1000 }, b)
	again := instance("a")
	pump("the first service is back", func() bool { return answered(again) > 300 }, again, b)
	if !bytes.Contains(again.Log.Bytes(), []byte("state restored")) {
		t.Error("the service that came back has restored nothing")
	}
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, again, b)
	again.Stop(t)
	b.Stop(t)
	atwork.RequireUndisturbed(t, w, "shared")
}

// TestAbortedTransactionsCountOnce: the broker refuses offsets now and then, the
// transactions are done again, and counters and output are those of a calm run.
func TestAbortedTransactionsCountOnce(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	w := servicetest.NewWorldAt(t, cluster.ListenAddrs()[0], 30)
	for range 20 {
		w.Feed(t)
	}
	o := atwork.Options(w, "refused")
	published := w.Answers(t, o.Group)
	const refusals = 3
	service := atwork.Start(t, o)
	servicetest.Await(t, "every partition's mark is open",
		func() bool { return published.Read(t) >= w.Fed }, service)
	cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownServerError, Count: refusals,
	})
	for range 20 {
		w.Feed(t)
	}
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, service)
	servicetest.Await(t, "everything is counted",
		func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed })
	service.Stop(t)
	got := o.Counters.Snapshot()
	if got.RecordsIn != w.Fed || got.RecordsOut+got.DeadLetters != w.Fed || got.Aborts != refusals {
		t.Errorf("the counters of %d records are %+v, want %d aborts", w.Fed, got, refusals)
	}
	if n := strings.Count(service.Log.String(), "transaction dropped"); n != refusals {
		t.Errorf("%d dropped transactions are logged, want %d", n, refusals)
	}
	atwork.RequireUndisturbed(t, w, o.Group)
}
