package service_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// TestAbortedTransactionsCountOnce: the broker refuses offsets now and then, the
// transactions are done again, and counters and output are those of a calm run.
func TestAbortedTransactionsCountOnce(t *testing.T) {
	t.Parallel()
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
