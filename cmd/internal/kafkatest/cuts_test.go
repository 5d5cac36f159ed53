//go:build kafka

package kafkatest

import (
	"context"
	"net"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
)

// TestAServiceWhoseConnectionsAreCut runs the service on a broker that advertises
// the proxy as its address, so that everything goes through it. The connection is
// cut around each kind of request in turn, before the broker has it and before
// its answer comes back.
func TestAServiceWhoseConnectionsAreCut(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	network := newProxy(t)
	cluster := private(t, "advertised.listeners=PLAINTEXT://"+listener.Addr().String())
	broker := cluster.brokers()[0]
	go network.serve(listener, broker)

	// The test itself goes past the proxy.
	w := newHarnessBy(t, func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, broker)
	}, listener.Addr().String()).world(2, 10)
	o := w.options("service")
	w.createRaw()
	w.feed(1)
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	for _, key := range []protocol.ApiKey{
		protocol.AddPartitionsToTxn, protocol.Produce, protocol.AddOffsetsToTxn,
		protocol.TxnOffsetCommit, protocol.EndTxn,
		protocol.Fetch, protocol.Heartbeat,
	} {
		for _, forward := range []bool{false, true} {
			before := network.count()
			network.cut(key, rule{times: 6, forward: forward})
			w.eventually("all connections are cut that are to be", func() bool {
				w.feed(1)
				return network.count() == before+6
			})
			w.eventually("all is answered", func() bool { return w.answered(o) })
		}
	}
	r.stop()
	n := o.Counters.Snapshot()
	t.Logf("%d connections cut; %d transactions committed, %d given up and done again",
		network.count(), n.Transactions, n.Aborts)
	if n.Aborts == 0 {
		t.Error("no transaction was given up: the test shows nothing")
	}
	w.exactlyOnce(o)
}
