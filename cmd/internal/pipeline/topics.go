package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// compacted is the changelog's policy: any other loses states.
var compacted = map[string]string{"cleanup.policy": "compact"}

// Pauses between two looks at a cluster that is not ready: the first, doubled up
// to the last.
const (
	firstWait = time.Second
	lastWait  = 30 * time.Second

	// lossLooks is how often a changelog that must hold something has to be missing
	// before that is believed: a broker that has just come up may not know it yet.
	lossLooks = 3
)

// awaitTopics looks at the four topics until they are there. A cluster that does
// not answer and topics that are missing are waited for, and the log says so: a
// service is often started before either. Whatever waiting does not mend is an
// error at once.
func (s *Service) awaitTopics(ctx context.Context) (ready, error) {
	losses, began := 0, time.Now()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		found, err := s.checkTopics(ctx)
		var missing *admin.MissingTopicsError
		var lost *LostError
		if errors.As(err, &lost) {
			losses++
		}
		if err == nil && wait > firstWait {
			s.log.Info("found Kafka and its topics", "waited", time.Since(began).Round(time.Millisecond))
		}
		again := errors.Is(err, wire.ErrTemporary) || errors.As(err, &missing) || lost != nil && lost.Missing && losses < lossLooks
		if !again {
			return found, err
		}
		s.log.Warn("waiting for Kafka and its topics", "cause", err, "next_look_in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ready{}, ctx.Err()
		}
	}
}

func (s *Service) lossCheck(o wire.Options) *lossCheck {
	return &lossCheck{client: s.client, call: o, o: s.options, replays: s.windows != nil}
}

// ready is what a service knows of its topics once they are there.
type ready struct {
	partitions int
	source     []byte // the raw topic's id
	copied     []byte // the changelog's id
	cluster    string // its id
	identity   []byte // of a state folder: whose states it holds
}

// checkTopics checks the four topics and creates what is missing if it may.
func (s *Service) checkTopics(ctx context.Context) (ready, error) {
	o := wire.Options{RetryTimeout: s.patience}
	t := s.options.Topics
	// First, since what is made here would hide it.
	if err := s.lossCheck(o).before(ctx); err != nil {
		return ready{}, err
	}
	if err := checkRawPartitions(ctx, s.client, o, t); err != nil {
		return ready{}, err
	}
	if t.Create {
		if err := s.makeTopics(ctx, o); err != nil {
			return ready{}, grown(err, t)
		}
	}
	n, err := admin.CoPartitioned(ctx, s.client, o, t.Raw, t.Sanitized, t.Changelog, t.DeadLetters)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return ready{}, fmt.Errorf("%w%s; create them with as many partitions as %s, or set topics.create: true",
			err, similarTopics(ctx, s.client, o, t, missing.Topics), t.Raw)
	}
	if err != nil {
		return ready{}, grown(err, t)
	}
	if err := admin.CheckConfigs(ctx, s.client, o, t.Changelog, compacted); err != nil {
		return ready{}, fmt.Errorf("the changelog keeps every user's state: %w", err)
	}
	if err := s.warnOfRetention(ctx, o); err != nil {
		return ready{}, err
	}
	found := ready{partitions: n}
	return found, s.identify(ctx, o, &found)
}

// identify names the raw topic and the changelog by their ids, and says whose states a
// folder holds. Topic ids tell a topic from one that was made anew under its name; a
// cluster without them has names alone.
func (s *Service) identify(ctx context.Context, o wire.Options, found *ready) error {
	t := s.options.Topics
	cluster, err := admin.ClusterID(ctx, s.client, o)
	if err != nil {
		return err
	}
	ids, err := admin.TopicIDs(ctx, s.client, o, t.Raw, t.Changelog)
	if err != nil {
		return err
	}
	if id := ids[t.Raw]; id != [16]byte{} {
		found.source = id[:]
	}
	if id := ids[t.Changelog]; id != [16]byte{} {
		found.copied = id[:]
	}
	found.cluster = cluster
	found.identity = identityOf(cluster, s.options.Group, t, ids[t.Changelog])
	return nil
}

// CreateTopics makes those of the four topics that are missing: with the raw
// topic's number of partitions, or t.Partitions where that is missing too and
// t.Partitions is set; otherwise a missing raw topic is an error, and none is made. The
// changelog is compacted. A topic that exists otherwise than needed is an error.
//
// Output carries the timestamps of the raw records, and Kafka judges by them how
// long to keep a record and whether to take it at all. So the topics made here
// keep their records as long as the raw topic does, and take any timestamp.
func CreateTopics(ctx context.Context, client *kafka.Client, t Topics) error {
	return createTopics(ctx, client, wire.Options{}, t)
}

func createTopics(ctx context.Context, client *kafka.Client, o wire.Options, t Topics) error {
	partitions, err := rawPartitions(ctx, client, o, t)
	if err != nil {
		return err
	}
	topic := func(name string, initial, configs map[string]string) admin.Topic {
		return admin.Topic{Name: name, Partitions: partitions, Replication: t.Replication, Initial: initial, Configs: configs}
	}
	if err := admin.CreateTopics(ctx, client, o, topic(t.Raw, nil, nil)); err != nil {
		return err
	}
	initial, err := admin.Configs(ctx, client, o, t.Raw, retentionMS, retentionBytes)
	if err != nil {
		return err
	}
	initial[timestampAhead] = strconv.Itoa(math.MaxInt64)
	return admin.CreateTopics(ctx, client, o,
		topic(t.Sanitized, initial, nil),
		topic(t.Changelog, map[string]string{timestampAhead: initial[timestampAhead]}, compacted),
		topic(t.DeadLetters, initial, nil),
	)
}

// Settings of topics, by Kafka's names.
const (
	retentionMS    = "retention.ms"
	retentionBytes = "retention.bytes"
	timestampAhead = "message.timestamp.after.max.ms"
)

// warnOfRetention says so if a topic that was made elsewhere forgets sooner than
// the raw topic: what is published for old records would be gone at once.
func (s *Service) warnOfRetention(ctx context.Context, o wire.Options) error {
	t := s.options.Topics
	raw, err := admin.Configs(ctx, s.client, o, t.Raw, retentionMS)
	if err != nil {
		return err
	}
	for _, name := range []string{t.Sanitized, t.DeadLetters} {
		have, err := admin.Configs(ctx, s.client, o, name, retentionMS)
		if err != nil {
			return err
		}
		if shorter(have[retentionMS], raw[retentionMS]) {
			s.log.Warn("a topic keeps its records for less time than the raw topic, whose timestamps they carry",
				"topic", name, "retention_ms", have[retentionMS], "raw_retention_ms", raw[retentionMS])
		}
	}
	return nil
}

// shorter compares two values of retention.ms, of which -1 is for ever.
func shorter(a, b string) bool {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX != nil || errY != nil || x < 0 {
		return false
	}
	return y < 0 || x < y
}
