package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Pauses between two looks at a cluster that is not ready: the first, doubled up
// to the last.
const (
	firstWait = time.Second
	lastWait  = 30 * time.Second

	// lossLooks is how often a changelog that must hold something has to be missing
	// before that is believed: a broker that has just come up may not know it yet.
	lossLooks = 3
)

// until makes a call until it succeeds, or fails with an error that waiting does not mend. tell
// logs that it is tried again after a wait.
func until(ctx context.Context, call func() error, mends func(error) bool,
	tell func(cause error, wait time.Duration),
) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := call()
		if err == nil || !mends(err) {
			return err
		}
		tell(err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitTopics looks at the four topics until they are there. A cluster that does
// not answer and topics that are missing are waited for, and the log names them: a
// service is often started before either. Whatever waiting does not mend is an
// error at once.
func (s *Service) awaitTopics(ctx context.Context) (found ready, err error) {
	losses, looks, began := 0, 0, time.Now()
	err = until(ctx, func() (err error) {
		looks++
		found, err = s.checkTopics(ctx)
		return err
	}, func(err error) bool {
		var missing *admin.MissingTopicsError
		var lost *account.LostError
		if errors.As(err, &lost) {
			losses++
		}
		// A handshake may take too long for the question before the start, on a machine that is
		// busy: then the brokers refuse this client here.
		return !wire.IsRefusal(err) && (errors.Is(err, wire.ErrTemporary) ||
			errors.As(err, &missing) || lost != nil && lost.Missing && losses < lossLooks)
	}, func(cause error, wait time.Duration) {
		s.log.Warn("waiting for Kafka and its topics", "cause", cause, "next_look_in", wait)
	})
	if err == nil && looks > 1 {
		s.log.Info("found Kafka and its topics", "waited",
			time.Since(began).Round(time.Millisecond))
	}
	return found, err
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
	check := s.options.AccountCheck(s.client, o)
	check.Replays = s.replays()
	if err := check.Before(ctx); err != nil {
		return ready{}, err
	}
	if err := topics.CheckRawPartitions(ctx, s.client, o, t); err != nil {
		return ready{}, err
	}
	if t.Create {
		if err := s.makeTopics(ctx, o); err != nil {
			return ready{}, topics.ExplainPartitions(err, t)
		}
	}
	n, err := admin.CoPartitioned(ctx, s.client, o, t.Names()...)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return ready{}, fmt.Errorf("%w%s; %s needs as many partitions (topics-missing)", err,
			topics.Similar(ctx, s.client, o, t, missing.Topics), t.Raw)
	}
	if err != nil {
		return ready{}, topics.ExplainPartitions(err, t)
	}
	if err := admin.CheckConfigs(ctx, s.client, o, t.Changelog, topics.Compacted); err != nil {
		return ready{}, fmt.Errorf("the changelog keeps every user's state: %w", err)
	}
	if err := s.warnOfRetention(ctx, o); err != nil {
		return ready{}, err
	}
	found := ready{partitions: n}
	return found, s.identify(ctx, o, &found)
}

// identify names the raw topic and the changelog by their ids, and says whose states a
// folder holds. Topic ids tell a topic from one that was made again under its name; a
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
	found.identity = account.IdentityOf(cluster, s.options.Group, t, ids[t.Changelog])
	return nil
}

// warnOfRetention warns if a topic that was made elsewhere forgets sooner than
// the raw topic: what is published for old records would be gone at once.
func (s *Service) warnOfRetention(ctx context.Context, o wire.Options) error {
	t := s.options.Topics
	raw, err := admin.Configs(ctx, s.client, o, t.Raw, topics.RetentionMS)
	if err != nil {
		return err
	}
	for _, name := range t.Outputs() {
		have, err := admin.Configs(ctx, s.client, o, name, topics.RetentionMS)
		if err != nil {
			return err
		}
		if topics.ShorterRetention(have[topics.RetentionMS], raw[topics.RetentionMS]) {
			s.log.Warn("a topic keeps its records for less time than the raw topic, whose "+
				"timestamps they carry",
				"topic", name, "retention_ms", have[topics.RetentionMS], "raw_retention_ms",
				raw[topics.RetentionMS])
		}
	}
	return nil
}

// makeTopics is CreateTopics, and says in the log what it has made.
func (s *Service) makeTopics(ctx context.Context, o wire.Options) error {
	t := s.options.Topics
	_, err := admin.Partitions(ctx, s.client, o, t.Names()...)
	var missing *admin.MissingTopicsError
	if err != nil && !errors.As(err, &missing) {
		return err
	}
	if err := topics.Create(ctx, s.client, o, t); err != nil || missing == nil {
		return err
	}
	// At a first start all are missing. One that alone is missing was there, or is misspelt.
	level := slog.LevelWarn
	if out := slices.DeleteFunc(slices.Clone(missing.Topics), func(name string) bool {
		return name == t.Raw
	}); len(out) == len(t.Names())-1 {
		level = slog.LevelInfo
	}
	for _, name := range missing.Topics {
		if name == t.Raw {
			s.log.Warn("the raw topic was missing and has been made, empty: is topics.raw spelt "+
				"as the producers have it?",
				"topic", name, "partitions", t.Partitions)
			continue
		}
		s.log.Log(ctx, level, "a topic was missing and has been made", "topic", name)
	}
	return nil
}
