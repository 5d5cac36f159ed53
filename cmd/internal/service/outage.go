package service

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// outages tells in the log that Kafka is away, now and then that it still is, and that it
// is back and for how long it was away. An instance has several callers of Kafka, the
// group and each partition's task, which notice at different times: an outage begins with
// the first call that fails and ends when every caller that failed has succeeded, or is gone.
//
// A call counts as failed when the client has given up on it. An outage that is over
// before that, within CallPatience, goes without a word, for it has held nobody up for
// longer.
type outages struct {
	log *slog.Logger
	now func() time.Time

	active atomic.Bool // there is one: a look that costs nothing while there is none

	mu      sync.Mutex
	began   time.Time
	failing map[string]struct{} // the callers whose last call failed
	pace    pace
}

func newOutages(log *slog.Logger) *outages {
	return &outages{log: log, now: time.Now, failing: map[string]struct{}{}}
}

// failed books a call that will be made again.
func (o *outages) failed(caller string, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	o.failing[caller] = struct{}{}
	first := !o.active.Swap(true)
	if first {
		o.began, o.pace = now, pace{}
	}
	away := now.Sub(o.began).Round(time.Second)
	switch {
	case !o.pace.due(now):
		o.log.Debug("trying Kafka again", "caller", caller, "cause", cause, "away", away)
	case first:
		o.log.Warn("calls to Kafka fail: trying again until it is back",
			"caller", caller, "cause", cause)
	default:
		o.log.Warn("calls to Kafka still fail", "away", away, "callers_waiting",
			len(o.failing), "cause", cause)
	}
}

// succeeded books a call that Kafka has answered as it should.
func (o *outages) succeeded(caller string) {
	if !o.active.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failing, caller)
	if len(o.failing) == 0 && o.active.Swap(false) {
		o.log.Info("contact restored: Kafka is back", "away",
			o.now().Sub(o.began).Round(time.Millisecond))
	}
}

// away returns how long Kafka has been away, 0 if it is not.
func (o *outages) away() time.Duration {
	if !o.active.Load() {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failing) == 0 {
		return 0
	}
	return o.now().Sub(o.began)
}

// gone books that a caller makes no more calls, which says nothing of Kafka.
func (o *outages) gone(caller string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failing, caller)
}

// isAway reports whether an error says that brokers do not answer, or that none of them
// is in charge at the moment. Others, such as a transaction that is still pending or a
// model's file that cannot be read, are no outage.
func isAway(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		switch code {
		case kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.ReplicaNotAvailable,
			kafka.BrokerNotAvailable, kafka.NetworkException, kafka.RequestTimedOut,
			kafka.KafkaStorageError, kafka.NotEnoughReplicas, kafka.GroupCoordinatorNotAvailable,
			kafka.NotCoordinatorForGroup, kafka.GroupLoadInProgress:
			return true
		}
		return false
	}
	var read *wire.Error
	if errors.As(err, &read) {
		return read.Temporary
	}
	var write *producer.Error
	return errors.As(err, &write) && write.Remedy != producer.Fenced &&
		write.Remedy != producer.Fatal
}

// Gaps between two lines on the same trouble.
const (
	firstGap = 10 * time.Second
	lastGap  = time.Minute
)

// pace spaces out lines on what goes on and on: at once, and then less and less often.
type pace struct {
	last time.Time
	gap  time.Duration
}

// due reports whether a line is to be written now.
func (p *pace) due(now time.Time) bool {
	if p.gap > 0 && now.Sub(p.last) < p.gap {
		return false
	}
	p.last, p.gap = now, min(max(2*p.gap, firstGap), lastGap)
	return true
}
