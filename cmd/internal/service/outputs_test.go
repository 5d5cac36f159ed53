package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// lag is the sum of a metric over the partitions.
func (a *asked) lag(t *testing.T, metric string) (sum float64) {
	t.Helper()
	for p := range servicetest.Partitions {
		sum += a.value(t, fmt.Sprintf(`geodither_%s{partition="%d"}`, metric, p))
	}
	return sum
}

// caughtUp waits until a service is ready and has no lag.
func (a *asked) caughtUp(t *testing.T) {
	t.Helper()
	a.until(t, "/ready", http.StatusOK, `"phase":"running"`)
	servicetest.Await(t, "there is no lag", func() bool {
		_, body := a.get(t, "/status")
		return strings.Count(body, `"lag_records":0}`) == servicetest.Partitions
	}, a)
}

// unwritable waits until a service that has something to write is not ready because of a topic. It
// must be alive, log that, and have a lag that grows.
func (a *asked) unwritable(t *testing.T, w *servicetest.World, topic string) {
	t.Helper()
	a.until(t, "/ready", http.StatusServiceUnavailable, `"unwritten":{"`+topic+`":{"seconds":`)
	servicetest.Await(t, "a line", func() bool {
		return strings.Contains(a.Log.String(),
			`level=WARN msg="an output cannot be written: its records wait and are not committed" `+
				`topic=`+topic)
	}, a)
	a.until(t, "/live", http.StatusOK)
	if v := a.value(t, "geodither_unwritten_seconds"); v <= 0 {
		t.Errorf("it could not be written for %v s", v)
	}
	behind := int64(0)
	for range 3 {
		servicetest.Await(t, "the lag grows", func() bool {
			w.Feed(t)
			_, body := a.get(t, "/status")
			var s monitor.Status
			servicetest.OK(t, json.Unmarshal([]byte(body), &s))
			lag := int64(0)
			for _, p := range s.Partitions {
				if p.LagRecords != nil {
					lag += *p.LagRecords
				}
			}
			grows := lag > behind
			behind = max(behind, lag)
			return grows
		}, a)
	}
}

// TestOutputsAreGone deletes each topic of the output under a service at work, and makes it again.
func TestOutputsAreGone(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 5)
	o := atwork.Options(w, "gone")
	a := ask(t, o, time.Minute, nil)
	for _, topic := range o.Topics.Outputs() {
		w.Feed(t)
		a.caughtUp(t)
		w.DeleteTopic(t, topic, false)
		a.unwritable(t, w, topic)
		servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
			admin.Topic{Name: topic, Partitions: servicetest.Partitions}))
		servicetest.Await(t, "it can be written again", func() bool {
			return strings.Contains(a.Log.String(),
				`level=INFO msg="an output can be written again" topic=`+topic)
		}, a)
		a.caughtUp(t)
	}
	a.Stop(t)
}

// TestOutputWithoutRecordsIsGone: the service sees that a topic is gone though it has nothing to
// write there.
func TestOutputWithoutRecordsIsGone(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 5)
	o := atwork.Options(w, "quiet")
	a := ask(t, o, time.Minute, nil)
	a.caughtUp(t)
	w.DeleteTopic(t, o.Topics.DeadLetters, false)
	a.until(t, "/ready", http.StatusServiceUnavailable, `"unwritten":{"quiet.dead":`)
	a.until(t, "/live", http.StatusOK)
	a.Stop(t)
}

// TestOutputRefuses: a broker that refuses records for now makes the service not ready, whatever
// the reason; one that refuses this client, or a record's size, ends it with the reason.
func TestOutputRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  kmsg.Key
		code *kerr.Error
		ends string
	}{
		{kmsg.Produce, kerr.NotEnoughReplicas, ""},
		{kmsg.Produce, kerr.NotLeaderForPartition, ""},
		{kmsg.AddPartitionsToTxn, kerr.CoordinatorNotAvailable, ""},
		{kmsg.Produce, kerr.TopicAuthorizationFailed, "grant this client Write on the topic"},
		{kmsg.Produce, kerr.MessageTooLarge, "raise the topic's max.message.bytes"},
	} {
		t.Run(c.code.Message, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
				kfake.BrokerConfigs(map[string]string{"log.retention.ms": "-1"}))
			servicetest.OK(t, err)
			t.Cleanup(cluster.Close)
			w := servicetest.NewWorldAt(t, cluster.ListenAddrs()[0], 5)
			o := atwork.Options(w, "refused")
			a := ask(t, o, time.Minute, nil)
			a.caughtUp(t)
			fault := cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{c.key}, Topic: o.Topics.Sanitized, Err: c.code, Count: -1,
			})
			w.Feed(t)
			if c.ends != "" {
				if err := a.Wait(t); err == nil || !strings.Contains(err.Error(), c.ends) {
					t.Errorf("it ends with %v", err)
				}
				return
			}
			a.unwritable(t, w, o.Topics.Sanitized)
			fault.Remove()
			a.caughtUp(t)
			a.Stop(t)
		})
	}
}

// TestOpenTransaction: what waits behind a producer's open transaction is a lag with numbers of its
// own, and a line. It ends with the transaction.
func TestOpenTransaction(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 5)
	o := atwork.Options(w, "open")
	a := ask(t, o, time.Minute, nil)
	w.Feed(t)
	a.caughtUp(t)
	holder, err := kgo.NewClient(kgo.SeedBrokers(w.Addr), kgo.TransactionalID("holder"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	servicetest.OK(t, err)
	defer holder.Close()
	servicetest.OK(t, holder.BeginTransaction())
	for p := range int32(servicetest.Partitions) {
		record := &kgo.Record{Topic: "raw", Partition: p, Key: []byte("k"), Value: []byte("v")}
		servicetest.OK(t, holder.ProduceSync(t.Context(), record).FirstErr())
	}
	for range 10 {
		w.Feed(t)
	}
	servicetest.Await(t, "they wait", func() bool {
		return a.lag(t, "lag_records") >= 10 && a.lag(t, "lag_open_seconds") > 0 &&
			a.lag(t, "lag_open_records") == a.lag(t, "lag_records")
	}, a)
	servicetest.Await(t, "the log says it", func() bool {
		return strings.Contains(a.Log.String(), `level=WARN msg="records wait behind an open `+
			`transaction of the input topic" partition=`)
	}, a)
	a.until(t, "/ready", http.StatusOK) // it does what it can
	servicetest.OK(t, holder.EndTransaction(context.WithoutCancel(t.Context()), kgo.TryAbort))
	a.caughtUp(t)
	if n := a.lag(t, "lag_open_records") + a.lag(t, "lag_open_seconds"); n != 0 {
		t.Errorf("without an open transaction the numbers add up to %v", n)
	}
	a.Stop(t)
}
