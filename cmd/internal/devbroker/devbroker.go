// Package devbroker is an embedded Kafka broker for the demo and for tests:
// kfake, with settings under which its differences from Apache Kafka do no harm.
//
// It speaks Kafka's protocol on 127.0.0.1 and has consumer groups and
// transactions. It is one node, and it does not replicate. What geodither
// promises about Kafka is tested here and on a real one.
package devbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options have usable zero values.
type Options struct {
	// Dir keeps topics, groups and transactions over restarts. Empty: in memory
	// only. One broker at a time may use it. A killed process loses nothing of
	// it, a machine that goes down may.
	Dir string
	// Port on 127.0.0.1; 0: any free one. With Dir choose one, so that clients
	// find the broker again.
	Port int
	// Partitions is what a topic gets whose maker does not say. Default 4.
	Partitions int
	// Topics are made at the start if they are not there.
	Topics []Topic
	// Logger hears what the broker complains about. Default: nobody.
	Logger *slog.Logger
}

// Topic is one to be made.
type Topic struct {
	Name       string
	Partitions int               // default Options.Partitions
	Configs    map[string]string // Kafka's names, say cleanup.policy
}

// never is a period that does not come around, 10 years. kfake's cleaner takes
// no heed of open transactions: it would remove records that an abort has yet to
// hide, or a commit to show. So it does not run by itself; see Compact.
const never = 10 * 365 * 24 * time.Hour

// minSessionTimeout lets tests see a member as dead soon. Kafka's own default is
// 6 s.
const minSessionTimeout = 100 * time.Millisecond

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
}

// Start listens, and makes the topics that are missing. Errors: the port is
// taken, the folder cannot be used, a topic's settings are refused.
func Start(o Options) (*Broker, error) {
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("devbroker: port %d does not exist: choose 1 to 65535, or 0 for any free one", o.Port)
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
			// kfake removes old records from compacted topics too, and when it
			// compacts. By timestamps, traces of the past are old from the start.
			"log.retention.ms": "-1",
		}),
	}
	if o.Dir != "" {
		if err := os.MkdirAll(o.Dir, 0o750); err != nil {
			return nil, fmt.Errorf("devbroker: the folder cannot be used, name another one: %w", err)
		}
		options = append(options, kfake.DataDir(o.Dir))
	}
	if o.Logger != nil {
		options = append(options, kfake.WithLogger(logger{o.Logger}))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, startError(o, err)
	}
	b := &Broker{cluster: cluster, addr: cluster.ListenAddrs()[0]}
	for _, t := range o.Topics {
		if err := b.makeTopic(t); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

func startError(o Options, err error) error {
	var listen *net.OpError
	if errors.As(err, &listen) || errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("devbroker: port %d cannot be listened on: stop what uses it or choose another one: %w", o.Port, err)
	}
	return fmt.Errorf("devbroker: cannot start; if the folder is another program's or damaged, remove it or name another one: %w", err)
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
var ErrBusy = errors.New("devbroker: a transaction is open: compact when nobody writes")

// Compact runs the cleaner over every compacted topic, at once. Call it only
// while nobody writes: it refuses if one of the topics named here has an open
// transaction, but one that begins meanwhile is not safe from it.
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
// transactions stay open and go on after a restart.
func (b *Broker) Close() error {
	b.cluster.Close()
	return nil
}

// logger is kfake's logger. It says at info what each request is, which is of
// interest only when looking for a fault.
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
