package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire"
)

// namespace is before the name of every metric.
const namespace = "geodither"

// apis are the requests that a service makes.
var apis = []protocol.ApiKey{
	protocol.Produce, protocol.Fetch, protocol.ListOffsets, protocol.Metadata,
	protocol.OffsetFetch, protocol.FindCoordinator, protocol.JoinGroup, protocol.Heartbeat,
	protocol.LeaveGroup, protocol.SyncGroup, protocol.InitProducerId,
	protocol.AddPartitionsToTxn, protocol.AddOffsetsToTxn, protocol.EndTxn,
	protocol.TxnOffsetCommit,
}

// Failures of a request that no broker has answered. An answer's failure is Kafka's name of it.
const (
	failedReach   = "unreachable"  // no connection
	failedTrust   = "tls_or_login" // a connection that TLS or the login ended
	failedTime    = "timeout"
	failedNetwork = "connection" // it was closed, or broke
)

// requests are what brokers were asked, and the transactions that were committed.
type requests struct {
	seconds   *prometheus.HistogramVec
	failures  *prometheus.CounterVec
	throttled *prometheus.CounterVec

	transactions, records prometheus.Histogram
}

func newRequests() *requests {
	r := &requests{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "kafka_request_seconds",
			Help: "Time until a request to a broker was answered or had failed, by the " +
				"request. A fetch waits at the log's end, and a join for the group.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"api"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "kafka_errors_total",
			Help: "Requests without an answer, and refusals of requests or parts of them, by " +
				"the request and the error. Most are tried again; some, such as " +
				"rebalance_in_progress, are how Kafka works.",
		}, []string{"api", "error"}),
		throttled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "kafka_throttle_seconds_total",
			Help: "Time for which brokers held this client up for the sake of a quota, by the " +
				"request.",
		}, []string{"api"}),
		transactions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "transaction_seconds",
			Help: "Time from a transaction's first record until its states were stored, of " +
				"committed transactions that had records.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		records: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "transaction_records",
			Help:    "Raw records of a committed transaction that had records.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000},
		}),
	}
	for _, key := range apis {
		api := key.String()
		r.seconds.WithLabelValues(api)
		r.throttled.WithLabelValues(api)
		for _, failure := range []string{failedReach, failedTrust, failedTime, failedNetwork} {
			r.failures.WithLabelValues(api, failure)
		}
	}
	return r
}

// add counts a request.
func (r *requests) add(o wire.Outcome) {
	api := o.API.String()
	r.seconds.WithLabelValues(api).Observe(o.Took.Seconds())
	if o.Held > 0 {
		r.throttled.WithLabelValues(api).Add(o.Held.Seconds())
	}
	if failure := failureOf(o.Err); failure != "" {
		r.failures.WithLabelValues(api, failure).Inc()
	}
	for _, code := range o.Codes {
		r.failures.WithLabelValues(api, refusalOf(code)).Inc()
	}
}

// failureOf names why a request had no answer; empty if it had one, or if its caller gave it up.
func failureOf(err error) string {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return ""
	case wire.IsLinkError(err):
		return failedTrust
	case wire.RanOut(err):
		return failedTime
	case wire.NeverSent(err):
		return failedReach
	}
	return failedNetwork
}

// refusalOf is Kafka's name of a code, in snake case.
func refusalOf(code kafka.Error) string {
	if title := code.Title(); title != "" {
		return strings.ReplaceAll(strings.ToLower(title), " ", "_")
	}
	return fmt.Sprintf("code_%d", int(code))
}
