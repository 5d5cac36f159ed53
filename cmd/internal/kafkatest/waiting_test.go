//go:build kafka

package kafkatest

import (
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// outage is how long the broker is away: longer than every timeout of the
// service, and than its producer's patience.
const outage = 70 * time.Second

// TestAFreshClusterThatGoesAway starts the service on a cluster whose coordinators
// nobody has asked yet, and then takes the broker away for a while, twice: once
// killed at work and once idle. The service waits, logs it, and goes on.
func TestAFreshClusterThatGoesAway(t *testing.T) {
	t.Parallel()
	cluster := private(t)
	h := newHarnessAt(t, cluster.brokers()...)

	// The first call that asks for a coordinator has its topic made.
	start := time.Now()
	p := h.transactional(h.client, "first", producer.Options{})
	transactions := since(start)
	topic := h.topic("first", 1, nil)
	_, found, err := consumer.Committed(t.Context(), h.client, wire.Options{}, h.prefix+"first",
		topic, 0)
	h.ok(err)
	if found {
		t.Error("a group on a fresh cluster has an offset")
	}
	h.produce(p, topic, 0, "record")
	h.commit(p)
	h.expect(topic, 0, "record")
	t.Logf("on Kafka %s, fresh: the transaction coordinator is ready after %v, the group's "+
		"after %v; %v",
		cluster.version(), transactions, since(start), h.spy)
	if h.spy.saw(kafka.GroupCoordinatorNotAvailable)+h.spy.saw(kafka.GroupLoadInProgress)+
		h.spy.saw(kafka.NotCoordinatorForGroup) == 0 {
		t.Error("none of 14, 15 and 16 was ever answered: the cluster was not fresh")
	}

	w := h.world(2, 20)
	o := w.options("service")
	w.createRaw()
	r := w.serve(o)
	w.feed(100)
	w.eventually("it is at work", func() bool { return o.Counters.Snapshot().RecordsIn > 0 })
	cluster.on(1, "kill")
	gone, done := time.Now(), o.Counters.Snapshot().RecordsIn
	t.Logf("the broker is killed when %d of %d records are answered", done, w.fed)
	if done == w.fed {
		t.Error("nothing was left to do; the test shows nothing")
	}
	w.says(r, "level=WARN")
	t.Logf("the service notices after %v: %v", since(gone), r.log.first(1, "level=WARN"))
	time.Sleep(outage)
	if r.ended() {
		t.Fatalf("the service has ended: %v", r.Err)
	}
	cluster.on(1, "start")
	back := time.Now()
	w.eventually("all is answered", func() bool { return w.answered(o) })
	t.Logf("all is answered %v after the broker is back", since(back))
	cluster.on(1, "kill")
	cluster.on(1, "start")
	w.feed(20)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	w.exactlyOnce(o)
}
