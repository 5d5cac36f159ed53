// Package devbroker is an embedded Kafka broker for the demo and for tests: kfake, with
// settings under which its differences from Apache Kafka do no harm.
//
// It speaks Kafka's protocol on 127.0.0.1 and has consumer groups and transactions. It is a single
// node without replication.
// Tests check what geodither promises about Kafka on this broker and on a real one.
package devbroker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options have usable zero values.
type Options struct {
	// Dir keeps topics, groups and transactions over restarts; empty means in memory only. One
	// broker at a time may use it. A killed process loses nothing, but a machine failure may.
	Dir string
	// Port on 127.0.0.1; 0 means any free one. Choose one with Dir, so that clients find the broker
	// again.
	Port int
	// Partitions is the default number of partitions of a topic; 0 means 4.
	Partitions int
	// Topics are created at the start if they are missing.
	Topics []Topic
	// Logger receives the broker's warnings and errors; nil means none.
	Logger *slog.Logger
}

// Topic is a topic to create.
type Topic struct {
	Name       string
	Partitions int               // default Options.Partitions
	Configs    map[string]string // Kafka's names, say cleanup.policy
}

// never is 10 years, a period that does not pass. kfake's cleaner ignores open transactions: it
// would remove records that an abort has yet to hide, or a commit to show. So it does not run by
// itself; see Compact.
const never = 10 * 365 * 24 * time.Hour

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	stop    context.CancelFunc // the watch over sessions
	unlock  func() error       // frees the folder; once, since Close may be called twice
}

// Start listens, and creates the missing topics. It returns an error if the port is taken, the
// folder cannot be used, or a topic's settings are refused.
func Start(o Options) (*Broker, error) {
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("devbroker: no port %d: choose 1 to 65535, or 0", o.Port)
	}
	if o.Partitions < 0 {
		return nil, fmt.Errorf("devbroker: %d partitions: choose at least 1", o.Partitions)
	}
	if o.Partitions == 0 {
		o.Partitions = 4
	}
	options := []kfake.Opt{
		kfake.Ports(o.Port),
		kfake.ClusterID("geodither-devbroker"),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.GroupMinSessionTimeout(minSessionTimeout),
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms": strconv.FormatInt(never.Milliseconds(), 10),
			// kfake also removes old records when it compacts, from compacted topics too. By their
			// timestamps, records of old traces are old from the start.
			"log.retention.ms": "-1",
		}),
	}
	lock, err := lockFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Dir != "" {
		options = append(options, kfake.DataDir(o.Dir))
	}
	if o.Logger != nil {
		options = append(options, kfake.WithLogger(logger{o.Logger}))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, errors.Join(startError(o, err), lock.Close())
	}
	b := &Broker{
		cluster: cluster,
		addr:    cluster.ListenAddrs()[0],
		unlock:  sync.OnceValue(lock.Close),
	}
	var ctx context.Context
	ctx, b.stop = context.WithCancel(context.Background())
	watch(ctx, cluster)
	giveAppendTimes(cluster)
	for _, t := range o.Topics {
		if err := b.makeTopic(t); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// lockFolder makes a folder and keeps other brokers out of it, which would overwrite its topics.
// The lock goes with the process, however it ends. An empty name needs none.
func lockFolder(dir string) (io.Closer, error) {
	if dir == "" {
		return io.NopCloser(nil), nil
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(path, 0o750)
	}
	if err != nil {
		return nil, fmt.Errorf("devbroker: the folder cannot be used: %w", err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(path, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("devbroker: %s cannot be locked, perhaps another broker uses it: "+
			"%w", dir, err)
	}
	return lock, nil
}

func startError(o Options, err error) error {
	var listen *net.OpError
	if errors.As(err, &listen) || errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("devbroker: port %d cannot be listened on: %w", o.Port, err)
	}
	return fmt.Errorf("devbroker: cannot start, perhaps the folder is damaged: %w", err)
}

func (b *Broker) makeTopic(t Topic) error {
	if b.cluster.TopicInfo(t.Name) != nil {
		return nil
	}
	if err := b.cluster.CreateTopic(t.Name, int32(t.Partitions), t.Configs); err != nil {
		return fmt.Errorf("devbroker: topic %q cannot be made: %w", t.Name, err)
	}
	return nil
}

// Addr is host:port to connect to.
func (b *Broker) Addr() string { return b.addr }

// ErrBusy says that a transaction is open, so nothing was compacted.
var ErrBusy = errors.New("devbroker: a transaction is open")

// Compact runs the cleaner over every compacted topic at once. Call it only while nobody writes: it
// refuses if one of the guarded topics has an open transaction, but does not protect a transaction
// that begins meanwhile.
func (b *Broker) Compact(guarded ...string) error {
	for _, t := range guarded {
		for _, p := range b.cluster.PartitionInfos(t) {
			if p.LastStableOffset < p.HighWatermark {
				return ErrBusy
			}
		}
	}
	b.cluster.Compact()
	return nil
}

// Close stops the broker and, with Options.Dir, writes what is in memory. Open
// transactions stay open and continue after a restart.
func (b *Broker) Close() error {
	b.stop()
	b.cluster.Close()
	return b.unlock()
}

// logger is kfake's logger. kfake logs each request at info; that is of interest only in a search
// for an error, so it becomes debug.
type logger struct{ log *slog.Logger }

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	case kfake.LogLevelNone, kfake.LogLevelInfo, kfake.LogLevelDebug:
	}
	if ctx := context.Background(); l.log.Enabled(ctx, to) {
		l.log.Log(ctx, to, "embedded broker", "detail", fmt.Sprintf(format, args...))
	}
}

// minSessionTimeout lets tests have a dead member removed soon. Kafka's own default is 6 s.
const minSessionTimeout = 100 * time.Millisecond

// sessions removes members that a group has not heard from for two session timeouts.
//
// kfake does so after one. But it starts a new member's session only when the member has received
// its first answer. A member that is cut off before that would keep its partitions as long as the
// broker runs.
type sessions struct {
	client *kafka.Client
	mu     sync.Mutex
	heard  map[string]heard // by member id
}

type heard struct {
	group   string
	at      time.Time
	timeout time.Duration // of the session
}

// watch begins to listen to the groups' requests, and looks for silent members until ctx ends.
func watch(ctx context.Context, cluster *kfake.Cluster) {
	s := &sessions{
		client: &kafka.Client{Addr: kafka.TCP(cluster.ListenAddrs()[0])},
		heard:  map[string]heard{},
	}
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat} {
		cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			s.hear(r)
			return nil, nil, false
		})
	}
	go func() {
		tick := time.NewTicker(minSessionTimeout)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				for id, h := range s.silent(now) {
					s.remove(ctx, h.group, id)
				}
			}
		}
	}()
}

// hear notes a sign of life. A member's first request has no id yet.
func (s *sessions) hear(r kmsg.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := r.(type) {
	case *kmsg.JoinGroupRequest:
		if r.MemberID != "" {
			s.heard[r.MemberID] = heard{
				group: r.Group, at: time.Now(),
				timeout: time.Duration(r.SessionTimeoutMillis) * time.Millisecond,
			}
		}
	case *kmsg.SyncGroupRequest:
		s.touch(r.MemberID)
	case *kmsg.HeartbeatRequest:
		s.touch(r.MemberID)
	}
}

func (s *sessions) touch(id string) {
	if h, ok := s.heard[id]; ok {
		h.at = time.Now()
		s.heard[id] = h
	}
}

// silent returns the members that should have been removed.
func (s *sessions) silent(now time.Time) map[string]heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]heard{}
	for id, h := range s.heard {
		if now.Sub(h.at) > 2*h.timeout {
			found[id] = h
		}
	}
	return found
}

// remove ends a silent member's membership, unless its group is between two generations: members
// say nothing while they wait for the next one. What fails is tried again at the next tick.
func (s *sessions) remove(ctx context.Context, group, id string) {
	ask := kafka.DescribeGroupsRequest{GroupIDs: []string{group}}
	got, err := s.client.DescribeGroups(ctx, &ask)
	if err != nil {
		return
	}
	if state := got.Groups[0].GroupState; state == "PreparingRebalance" ||
		state == "CompletingRebalance" {
		return
	}
	_, err = s.client.LeaveGroup(ctx, &kafka.LeaveGroupRequest{
		GroupID: group, Members: []kafka.LeaveGroupRequestMember{{ID: id}},
	})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.heard, id)
}

// appendTimes gives batches the broker's time in topics with LogAppendTime.
//
// kfake gives its own time to batches that ask for it, and leaves them a wrong checksum. So they
// get that time and its checksum before. kfake handles one request at a time: it calls find, begin
// and missed, and looks at its clock between the last two. If a millisecond ends there, its time is
// not known, and the producer has to send the request again.
type appendTimes struct {
	cluster *kfake.Cluster
	batches [][]byte // of the request that are to get the time
	began   int64    // in milliseconds
	late    bool
}

func giveAppendTimes(cluster *kfake.Cluster) {
	a := &appendTimes{cluster: cluster}
	cluster.ControlKey(int16(kmsg.Produce), a.find)
	fault := kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Err: kerr.NotEnoughReplicas}
	begin, missed := fault, fault
	begin.TopLevel, begin.When, missed.When = true, a.begin, a.missed
	cluster.Fault(begin, missed)
}

// find looks for batches that are to get the time. It leaves the request to kfake.
func (a *appendTimes) find(r kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's
	a.batches, a.late = a.batches[:0], false
	for _, t := range r.(*kmsg.ProduceRequest).Topics {
		topic := a.cluster.TopicInfo(t.Topic)
		if t.Topic == "" {
			topic = a.cluster.TopicIDInfo(t.TopicID)
		}
		if topic == nil {
			continue
		}
		kind := topic.Configs["message.timestamp.type"]
		if kind == nil || *kind != "LogAppendTime" {
			continue
		}
		for _, p := range t.Partitions {
			if intact(p.Records) {
				a.batches = append(a.batches, p.Records)
			}
		}
	}
	return nil, nil, false
}

// begin refuses no request.
func (a *appendTimes) begin(kmsg.Request) bool {
	a.began = time.Now().UnixMilli()
	return false
}

// missed gives the batches their time, and reports whether kfake may have another one. kfake asks
// again for each topic and partition.
func (a *appendTimes) missed(kmsg.Request) bool {
	if len(a.batches) == 0 || a.late {
		return a.late
	}
	a.late = a.began != time.Now().UnixMilli()
	for _, b := range a.batches {
		setTime(b, a.began)
	}
	a.batches = a.batches[:0]
	return a.late
}

// Where the fields of a batch are, and a flag of its attributes.
const (
	atCRC, atAttributes, atFirstTimestamp, atMaxTimestamp, headerBytes = 17, 21, 27, 35, 61

	logAppendTime = 1 << 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// intact reports whether kfake would take a batch as it is, so that no other one gets a checksum.
func intact(batch []byte) bool {
	return len(batch) >= headerBytes && binary.BigEndian.Uint32(batch[atCRC:]) ==
		crc32.Checksum(batch[atAttributes:], castagnoli)
}

func setTime(batch []byte, ms int64) {
	be := binary.BigEndian
	batch[atAttributes+1] |= logAppendTime
	be.PutUint64(batch[atFirstTimestamp:], uint64(ms))
	be.PutUint64(batch[atMaxTimestamp:], uint64(ms))
	be.PutUint32(batch[atCRC:], crc32.Checksum(batch[atAttributes:], castagnoli))
}
