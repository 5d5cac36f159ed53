package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// lossLooks is how often a changelog that must hold something has to be missing before that is
// believed: a broker that has just come up may not know it yet.
const lossLooks = 3

// check makes the checks of a start, which create what is missing if they may. A cluster that does
// not answer and topics that are missing are waited for, and the log names them: a service is often
// started before either. Each look begins at the first check, since the account is to be looked at
// before any topic is made. Whatever waiting does not mend is an error at once.
func (s *Service) check(ctx context.Context) (found ready, err error) {
	start := s.options.Start()
	start.Make, start.First = s.makeTopics, s.LookFirst
	if j, counts := s.job.(*countingJob); counts {
		start.AnyClock = j.producersTimes
	}
	var warnings []checks.Finding
	losses, looks, began := 0, 0, time.Now()
	err = until(ctx, func() (err error) {
		looks++
		found.partitions, warnings, err = checks.Starting(ctx, start, s.client,
			wire.Options{RetryTimeout: s.patience})
		if err == nil {
			err = s.identify(ctx, &found)
		}
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
	if err != nil {
		return found, err
	}
	for _, w := range warnings {
		s.log.Warn("a check before the start warns", "check", w.Check, "remedy", w.Detail)
	}
	if looks > 1 {
		s.log.Info("found Kafka and its topics", "waited",
			time.Since(began).Round(time.Millisecond))
	}
	return found, nil
}

// ready is what a service knows of its topics once they are there.
type ready struct {
	partitions int32
	source     []byte // the raw topic's id
	copied     []byte // the changelog's id
	cluster    string // its id
	identity   []byte // of a state folder: whose states it holds
}

// identify names the raw topic and the changelog by their ids, and says whose states a
// folder holds. Topic ids tell a topic from one that was made again under its name; a
// cluster without them has names alone.
func (s *Service) identify(ctx context.Context, found *ready) error {
	o, t := wire.Options{RetryTimeout: s.patience}, s.options.Topics
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

// makeTopics makes the topics that are missing, if it may, and says in the log what it has made.
func (s *Service) makeTopics(ctx context.Context) error {
	o, t := wire.Options{RetryTimeout: s.patience}, s.options.Topics
	if !t.Create {
		return nil
	}
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
