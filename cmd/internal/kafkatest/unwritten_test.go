//go:build kafka

package kafkatest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// watched is a service that answers over HTTP.
type watched struct {
	*running
	addr string
}

// watch runs a service that answers.
func (w *world) watch(o service.Options) *watched {
	w.Helper()
	o.Board = monitor.NewBoard()
	r := w.serve(o)
	server, err := monitor.Open(monitor.Options{Listen: "127.0.0.1:0", Stall: time.Minute},
		monitor.Source{
			Settings: monitor.NewSettings(o.Settings), Service: monitor.NewService(o.Cluster, ""),
			Board: o.Board, Counters: o.Counters, Certificates: o.Connection.Certificates,
		}, newLog().Logger())
	w.ok(err)
	w.Cleanup(server.Close)
	return &watched{r, server.Addr}
}

// status asks for a path, and returns the code and what the body says of the service.
func (r *watched) status(path string) (code int, s monitor.Status) {
	r.h.Helper()
	req, err := http.NewRequestWithContext(r.h.Context(), http.MethodGet, "http://"+r.addr+path, nil)
	r.h.ok(err)
	res, err := http.DefaultClient.Do(req)
	r.h.ok(err)
	body, err := io.ReadAll(res.Body)
	r.h.ok(errors.Join(err, res.Body.Close()))
	r.h.ok(json.Unmarshal(body, &s))
	return res.StatusCode, s
}

// lag is that of all partitions, and the part behind open transactions; false if one has none.
func (r *watched) lag() (all, open int64, known bool) {
	r.h.Helper()
	_, s := r.status("/status")
	for _, p := range s.Partitions {
		if p.LagRecords == nil {
			return 0, 0, false
		}
		all, open = all+*p.LagRecords, open+p.OpenRecords
	}
	return all, open, len(s.Partitions) > 0
}

// caughtUp waits until a service is ready and nothing is left to do.
func (r *watched) caughtUp() {
	r.h.Helper()
	r.h.eventually("it is ready and has no lag", func() bool {
		code, _ := r.status("/ready")
		all, _, known := r.lag()
		return code == http.StatusOK && known && all == 0
	})
}

// TestAnOutputCannotBeWritten deletes each topic of the output under a service at work. The service
// is alive and not ready, says why, and has a lag that grows. It goes on when the topic is back.
func TestAnOutputCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(2, 5)
	o := w.options("service")
	w.createRaw()
	r := w.watch(o)
	for _, topic := range o.Topics.Outputs() {
		w.feed(3)
		r.caughtUp()
		w.deleteTopic(topic)
		began := time.Now()
		w.eventually("it is not ready", func() bool {
			w.feed(1) // a node may still take records of a topic that the metadata no longer have
			code, s := r.status("/ready")
			_, named := s.Unwritten[topic]
			return code == http.StatusServiceUnavailable && named
		})
		t.Logf("%s: not ready after %v", topic, since(began))
		w.eventually("the log says it", func() bool {
			return r.log.has(`msg="an output cannot be written: its records wait and are not ` +
				`committed" topic=` + topic)
		})
		t.Logf("a line after %v: %v", since(began), r.log.first(1, "an output cannot be written"))
		first, _, _ := r.lag()
		w.eventually("the lag grows", func() bool {
			w.feed(1)
			all, _, known := r.lag()
			return known && all > first
		})
		if code, _ := r.status("/live"); code != http.StatusOK {
			t.Errorf("%s: /live answers %d", topic, code)
		}
		w.remake(topic)
		r.caughtUp()
	}
	r.stop()
}

// remake makes a topic of the output again.
func (w *world) remake(topic string) {
	w.Helper()
	w.ok(admin.CreateTopics(w.Context(), w.client, wire.Options{}, admin.Topic{
		Name: topic, Partitions: w.partitions, Configs: map[string]string{"retention.ms": "-1"},
	}))
}

// TestAnOpenTransactionInTheRawTopic: records behind it are a lag, and there is a line about them.
func TestAnOpenTransactionInTheRawTopic(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(1, 5)
	o := w.options("service")
	w.createRaw()
	r := w.watch(o)
	w.feed(3)
	r.caughtUp()
	holder, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...),
		kgo.TransactionalID(w.prefix+"holder"), kgo.TransactionTimeout(10*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.ok(err)
	defer holder.Close()
	w.ok(holder.BeginTransaction())
	w.ok(holder.ProduceSync(t.Context(),
		&kgo.Record{Topic: w.raw, Key: []byte("k"), Value: []byte("v")}).FirstErr())
	before := w.fed
	w.feed(3)
	behind := w.fed - before + 1
	w.eventually("they wait", func() bool {
		all, open, _ := r.lag()
		return all == behind && open == behind
	})
	w.says(r.running, `msg="records wait behind an open transaction of the input topic" `+
		`partition=0 offset=`)
	w.says(r.running, ` records=`+strconv.FormatInt(behind, 10)+" ")
	if code, _ := r.status("/ready"); code != http.StatusOK {
		t.Errorf("/ready answers %d", code)
	}
	w.ok(holder.EndTransaction(t.Context(), kgo.TryAbort))
	r.caughtUp()
	r.stop()
}
