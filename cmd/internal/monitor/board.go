package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/wire"
)

// Phase is where an instance is, or one of its partitions.
type Phase string

// The phases. A partition is joining before its task begins, and after it was lost. Fencing shuts
// out earlier owners, also after a failure. Starting, draining and failed are the instance's
// alone: it looks at its topics, was asked to stop, or ends with an error.
const (
	Starting  Phase = "starting"
	Joining   Phase = "joining"
	Fencing   Phase = "fencing"
	Restoring Phase = "restoring"
	Running   Phase = "running"
	Draining  Phase = "draining"
	Failed    Phase = "failed"
)

// partitionPhases are those that a partition can be in, in their order.
var partitionPhases = []Phase{Joining, Fencing, Restoring, Running}

// Board is what a service writes down of itself while it works, for others to read: its phases, its
// steps, how far it is. Writing is cheap, and nothing on it is of a user or of a single record. It
// is safe for concurrent use.
type Board struct {
	began    time.Time
	now      func() time.Time
	requests *requests

	groupStep atomic.Int64 // when the group's member made its last step; see since

	mu sync.Mutex
	// shown is what /status answers, as far as the service writes it down. Its phase is the
	// instance's own: Starting, Joining, Running (partitions are assigned), Draining or Failed.
	shown    Status
	assigned []*Partition
	working  map[*Partition]bool // whose tasks have not returned, also earlier ones
	watch    Watch
}

// Watch is what a board has to ask for. It must be safe for concurrent use.
type Watch struct {
	Away      func() time.Duration // how long Kafka has been away; 0: it is not
	Unwritten func() map[string]Unwritten
	Store     func() Store
	Models    func() []Model // versions of the model, the first one first
}

// NewBoard returns the board of an instance that starts.
func NewBoard() *Board { return newBoard(time.Now) }

func newBoard(now func() time.Time) *Board {
	return &Board{
		began: now(), now: now, requests: newRequests(),
		shown:   Status{Readiness: Readiness{Phase: Starting}},
		working: map[*Partition]bool{},
		watch: Watch{
			func() time.Duration { return 0 }, func() map[string]Unwritten { return nil },
			func() Store { return Store{} }, func() []Model { return []Model{} },
		},
	}
}

// Watch gives the board what it has to ask for.
func (b *Board) Watch(w Watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch = w
}

// since is the time since the board began, which no change of the clock moves.
func (b *Board) since() int64 { return int64(b.now().Sub(b.began)) }

// Joining says that the instance asks the group for partitions.
func (b *Board) Joining() {
	b.stepGroup()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Joining)
	for _, p := range b.assigned {
		p.shown.Phase = Joining
	}
}

// Assigned says that a generation of the group begins, in which the instance has some partitions.
// Each is in phase joining until Begin, except those whose tasks go on.
func (b *Board) Assigned(generation int32, partitions []int32) {
	b.stepGroup()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Running)
	b.shown.Generation = generation
	b.shown.Rebalances++
	last := b.assigned
	b.assigned = nil
	for _, n := range partitions {
		p := &Partition{board: b, number: n, shown: Progress{Phase: Joining}}
		for _, old := range last {
			if old.number == n && b.working[old] {
				p = old
			}
		}
		b.assigned = append(b.assigned, p)
	}
}

// Draining says that the instance was asked to stop, and ends what it has in hand.
func (b *Board) Draining() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Draining)
}

// Failed says that the instance ends with an error.
func (b *Board) Failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Failed)
}

// Holds says why raw records wait and are not processed; empty: they do not.
func (b *Board) Holds(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown.Holds = why
}

// move goes to another phase, unless the instance is about to end.
func (b *Board) move(to Phase) {
	if now := b.shown.Phase; now != Failed && (now != Draining || to == Failed) {
		b.shown.Phase = to
	}
}

// Requested counts a request to a broker.
func (b *Board) Requested(o wire.Outcome) { b.requests.addOutcome(o) }

// GroupRequested says that the group's member has made a step: a request was answered, or failed.
func (b *Board) GroupRequested(wire.Outcome) { b.stepGroup() }

func (b *Board) stepGroup() { b.groupStep.Store(b.since()) }

// Lost says that a partition was lost while its task worked: another instance has fenced it, or
// the group has gone on without this one.
func (b *Board) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown.Fenced++
}

// Begin says that the task of an assigned partition begins. Its caller calls End when the task has
// returned.
func (b *Board) Begin(number int32) *Partition {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.assigned, func(p *Partition) bool { return p.number == number })
	p := &Partition{board: b, number: number, shown: Progress{Phase: Fencing}}
	if i >= 0 { // else the lease is over already
		b.assigned[i] = p
	}
	p.Step()
	b.working[p] = true
	return p
}

// Restored returns the assigned partitions whose states are up to date.
func (b *Board) Restored() (numbers []int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.assigned {
		if p.shown.Phase == Running {
			numbers = append(numbers, p.number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// Partition is the part of the board that a partition's task writes.
type Partition struct {
	board  *Board
	number int32
	step   atomic.Int64 // when the task made its last step; see Board.since
	latest atomic.Int64 // Kafka timestamp of the last record processed, in milliseconds; 0: none

	// Under the board's lock.
	shown     Progress
	restoring bool  // also where the phase is joining
	done      int64 // input offset up to which nothing is left to do; see task.Observer
	// Offsets of the last answer: where reading goes on, the last stable one, and the log's end.
	next, stable, end int64
	waiting           int64     // records behind the stable one
	fetched           bool      // they are known
	openSince         time.Time // since when records lie behind this stable offset; zero: none do
	dueMS             int64     // when the next window of counts is due; 0: none is
}

// End says that the task has returned. A partition whose task has returned waits for the group.
func (p *Partition) End() {
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.shown.Phase = Joining
	delete(p.board.working, p)
}

// Requested says that a request of the task was answered, or has failed.
func (p *Partition) Requested(wire.Outcome) { p.Step() }

// Step says that the task has made a step of whatever sort.
func (p *Partition) Step() { p.step.Store(p.board.since()) }

// Move says in which phase the task is.
func (p *Partition) Move(to Phase) {
	p.Step()
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.restoring = to == Restoring
	if p.shown.Phase == Joining { // that of a task that has returned does not matter any more
		to = Joining
	}
	p.shown = Progress{Phase: to}
}

// Restoring says how far a restoration is, in offsets of the changelog.
func (p *Partition) Restoring(from, at, end int64) {
	p.Step()
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.shown.Records, p.shown.Of = at-from, end-from
}

// Fetched says up to which offset nothing is left to do, at which one reading goes on, and where
// the committed records and all records end by now. It returns how long the oldest open transaction
// has held up the records behind it, 0 if none does.
func (p *Partition) Fetched(done, next, stable, end int64) (open time.Duration) {
	p.Step()
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	now := p.board.now()
	switch {
	case end <= stable:
		p.openSince = time.Time{}
	case p.openSince.IsZero() || stable != p.stable:
		p.openSince = now
	}
	end = max(end, stable)
	p.done, p.next, p.stable, p.end, p.fetched = done, next, stable, end, true
	p.waiting = end - stable
	return p.open(now)
}

// Ended says where the input ends, while its task has to wait and reads nothing.
func (p *Partition) Ended(end int64) {
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.end = max(p.end, end)
}

// open is how long the oldest open transaction has been there.
func (p *Partition) open(now time.Time) time.Duration {
	if p.openSince.IsZero() {
		return 0
	}
	return now.Sub(p.openSince)
}

// Processed says that a record of a Kafka timestamp, in milliseconds, was processed.
func (p *Partition) Processed(timestampMS int64) {
	p.latest.Store(timestampMS)
	p.Step()
}

// Committed says that a transaction is committed: how many records it had, the input offset after
// them, and how long it took from the first of them.
func (p *Partition) Committed(records int, next int64, took time.Duration) {
	p.Step()
	if records > 0 { // one without records only moves an offset
		p.board.requests.records.Observe(float64(records))
		p.board.requests.transactions.Observe(took.Seconds())
	}
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.board.shown.LastCommit = p.board.now().UTC()
	p.done = max(p.done, next)
}

// Due says when the partition's next window of counts has to be published, Unix milliseconds; 0: it
// has none.
func (p *Partition) Due(ms int64) {
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.dueMS = ms
}

// status returns what the board says now; what a Source knows beside it is missing.
func (b *Board) status() Status {
	b.mu.Lock()
	w := b.watch
	b.mu.Unlock()
	// Outside of the lock: they may write to the board.
	away, unwritten, store, models := w.Away(), w.Unwritten(), w.Store(), w.Models()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shown
	s.Time, s.StartedAt = b.now().UTC(), b.began.UTC()
	s.KafkaAwaySeconds, s.Unwritten, s.State, s.Models = away.Seconds(), unwritten, store, models
	s.Readiness.Partitions, s.Partitions = map[string]Progress{}, map[string]PartitionStatus{}
	furthest := len(partitionPhases) - 1 // from running, where there is no partition
	for _, p := range b.assigned {
		number := strconv.Itoa(int(p.number))
		s.Readiness.Partitions[number], s.Partitions[number] = p.shown, p.status(s.Time)
		furthest = min(furthest, slices.Index(partitionPhases, p.shown.Phase))
		if p.dueMS > 0 {
			s.overdue = max(s.overdue, s.Time.Sub(time.UnixMilli(p.dueMS)))
		}
	}
	if s.Phase == Running {
		s.Phase = partitionPhases[furthest]
	}
	s.Ready = s.Phase == Running && away == 0 && s.Holds == "" && len(unwritten) == 0
	return s
}

// Lag is how many raw records the assigned partitions have not processed yet, as far as is known.
func (b *Board) Lag() (records int64) {
	for _, p := range b.status().Partitions {
		if p.LagRecords != nil {
			records += *p.LagRecords
		}
	}
	return records
}

// status is called under the board's lock.
func (p *Partition) status(now time.Time) PartitionStatus {
	s := PartitionStatus{Progress: p.shown}
	if p.shown.Phase != Running || !p.fetched {
		return s
	}
	next, stable, end, lag := p.next, p.stable, p.end, max(0, p.end-p.done)
	s.NextOffset, s.StableOffset, s.EndOffset, s.LagRecords = &next, &stable, &end, &lag
	s.OpenRecords, s.OpenSeconds = p.waiting, p.open(now).Seconds()
	latest := time.UnixMilli(p.latest.Load())
	if behind := now.Sub(latest); lag > 0 && latest.UnixMilli() > 0 && behind > 0 {
		s.LagSeconds, s.LagTime = behind.Seconds(), cli.Duration(behind)
	}
	return s
}

// stalled returns who has made no step for a limit, and for how long in seconds: a partition's
// task, by its number, or the group's member. Nobody is stalled while the instance starts, and no
// task while it restores: a restart would begin that again.
func (b *Board) stalled(limit time.Duration) map[string]float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[string]float64{}
	if b.shown.Phase == Starting {
		return found
	}
	now := b.since()
	check := func(name string, step int64) {
		if idle := time.Duration(now - step); idle > limit {
			found[name] = idle.Seconds()
		}
	}
	check("group", b.groupStep.Load())
	for p := range b.working {
		if !p.restoring {
			check(fmt.Sprintf("partition %d", p.number), p.step.Load())
		}
	}
	return found
}

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

// addOutcome counts a request.
func (r *requests) addOutcome(o wire.Outcome) {
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
