package account

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// ErrMoved says that users have their state in another partition than the configured
// partitioner puts them.
var ErrMoved = errors.New("topics.partitioner would move users away from their account of ε")

// MovedError is ErrMoved, found before any partition was begun. It names no user.
type MovedError struct {
	Changelog string
	By        engine.Partitioner // the configured one
	Before    engine.Partitioner // the one in force so far; empty: not known
	Moved     int                // users with a state in another partition
}

// Error says how many users would move, and what can be done.
func (e *MovedError) Error() string {
	before := "the partitioner that was in force before"
	if e.Before != "" {
		before = "topics.partitioner: " + string(e.Before)
	}
	return fmt.Sprintf("%v: %d users in %s are not where topics.partitioner: %s puts them: "+
		"1. put back %s; or 2. feed a new raw topic with a group of its own; or 3. start once "+
		"with --accept-lost-account: their accounts start at 0",
		ErrMoved, e.Moved, e.Changelog, e.By, before)
}

// Unwrap returns ErrMoved.
func (e *MovedError) Unwrap() error { return ErrMoved }

// homeCheck reads the states' places.
type homeCheck struct {
	client   *kafka.Client
	call     wire.Options
	settings engine.Settings
	cluster  topics.Cluster
}

// Homes is what CheckHomes has found.
type Homes struct {
	Begun  bool               // some partition has a mark, so users may have states
	Other  bool               // a mark is of another partitioner, or does not say
	Before engine.Partitioner // the other one; empty if it is not known
}

// CheckHomes compares the partitions in which the changelog has users' states with those
// in which the configured partitioner puts the users. A user whose records move to
// another partition has no state there: the account would start at 0, unseen.
//
// It reads a partition whole, but only one whose last mark is of another partitioner, or does not
// say. In memory it keeps 64 bits for each user who is away from home. So a start under
// unchanged settings reads no more than the marks.
//
// It answers with a *MovedError if users have states elsewhere. AnyPartitioner puts users
// nowhere: it turns the check off that all users stay where they are, so nothing can be
// compared. Nor can it where keys are no user ids (Input.Mapping): partitioners go by keys.
func CheckHomes(ctx context.Context, client *kafka.Client, call wire.Options,
	settings engine.Settings, cluster topics.Cluster, partitions int32,
) (Homes, error) {
	c := &homeCheck{client, call, settings, cluster}
	by := c.settings.Partitioner
	var found Homes
	users := away{}
	moved := &MovedError{Changelog: c.cluster.Topics.Changelog, By: by}
	for n := range partitions {
		mark, marked, err := topics.LastMark(ctx, c.client, c.cluster.Topics.Changelog, n)
		if err != nil {
			return found, err
		}
		found.Begun = found.Begun || marked
		if !marked || c.settings.PartitionerOf(mark.Settings) == by {
			continue
		}
		found.Other = true
		if before := c.settings.PartitionerOf(mark.Settings); before != "" {
			found.Before, moved.Before = before, before
		}
		if by == engine.AnyPartitioner || !c.settings.Source().UsersAreKeys() {
			continue // nothing says where a user belongs
		}
		if err := c.count(ctx, n, partitions, users); err != nil {
			return found, fmt.Errorf("partition %d of %s: %w", n, c.cluster.Topics.Changelog, err)
		}
	}
	if moved.Moved = len(users); moved.Moved > 0 {
		return found, moved
	}
	return found, nil
}

// away are hashes of the users who have a state in another partition than theirs: ids take many
// times the memory, and only their number is of interest.
type away map[uint64]struct{}

// awaySeed keeps users from choosing ids of the same hash.
var awaySeed = maphash.MakeSeed()

// count adds the users who have a state in a partition and belong to another.
func (c *homeCheck) count(ctx context.Context, n, partitions int32, users away) error {
	open := func(uncommitted bool) (*topics.Reader, error) {
		return topics.Open(ctx, c.client, c.cluster.Topics.Changelog, n,
			consumer.FetcherOptions{Options: c.call, Uncommitted: uncommitted})
	}
	all, err := open(true)
	if err != nil {
		return err
	}
	committed, err := open(false)
	if err != nil {
		return err
	}
	live := away{} // a state may be forgotten here and kept in another partition
	book := func(e task.Entry) error {
		home, ok := c.settings.Partitioner.Partition(e.Key, int(partitions))
		switch {
		case !ok || home == n:
		case e.Kind == task.Stated:
			live[maphash.Bytes(awaySeed, e.Key)] = struct{}{}
		case e.Kind == task.Tombstone:
			delete(live, maphash.Bytes(awaySeed, e.Key))
		}
		return nil
	}
	if err := committed.Entries(ctx, book); err != nil {
		return err
	}
	// An instance that was killed may have left its first states behind, which are committed when
	// it is fenced. A state that it has removed may come back.
	err = all.Scan(ctx, committed.End, all.End, func(r consumer.Record) error {
		e, err := task.ReadEntry(topics.Record(r))
		if err != nil || e.Kind != task.Stated {
			return err
		}
		return book(e)
	})
	maps.Copy(users, live)
	return err
}

// AnyUnchecked is said where users have states under another partitioner than any.
const AnyUnchecked = "topics.partitioner: any turns off the check that every user's " +
	"records stay in the partition that has the user's state: if the producers change their " +
	"partitioner too, the users who move have an account of ε that starts at 0"
