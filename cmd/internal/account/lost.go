package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/state"
)

// Check looks for a changelog that holds nothing of what it must hold. A task does so for its
// partition when it restores it (consumer/task); what a task cannot see is a topic that is missing
// and would be made, and a state folder that belongs to a changelog of another id and would be set
// aside. Both have to be looked at before they happen.
type Check struct {
	Client   *kafka.Client
	Call     wire.Options // of each call to Kafka
	Cluster  topics.Cluster
	StateDir string // the local state folder
	Logger   *slog.Logger

	AcceptLost bool // a loss is accepted
	// Replays: the output of a replay goes where its own checks allow it, and is no evidence.
	Replays bool
}

// Before looks before topics are made and a folder is set aside. It answers with a
// *LostError if the changelog is missing though it must hold something; or is another
// topic than the one that the state folder is a copy of, with nothing in partitions of
// which the folder has states; or has nothing in partitions in which something was
// published. Offsets of a group expire, and a disk may be new, so what was published may be
// all that is left to see.
func (c *Check) Before(ctx context.Context) error {
	t := c.Cluster.Topics
	ids, err := admin.TopicIDs(ctx, c.Client, c.Call, t.Changelog)
	var missing *admin.MissingTopicsError
	gone := errors.As(err, &missing)
	if err != nil && !gone {
		return err
	}
	stored, copied, err := c.folder(ctx)
	if err != nil {
		return err
	}
	id := ids[t.Changelog]
	partitions, err := c.RawPartitions(ctx)
	if err != nil {
		return err
	}
	all := max(partitions, maxPartition(stored)+1)
	if !gone { // a raw topic that has grown is refused later on
		sizes, err := admin.Partitions(ctx, c.Client, c.Call, t.Changelog)
		if err != nil {
			return err
		}
		all = min(all, int32(sizes[t.Changelog]))
	}
	found := c.nothingLost(gone)
	for n := range all {
		if _, ok := stored[n]; ok && !gone && bytes.Equal(copied, id[:]) {
			continue // a task compares its own states with the changelog
		}
		if err := c.findLoss(ctx, n, partitions, stored, gone, found); err != nil {
			return err
		}
	}
	if len(found.lost) == 0 {
		return nil
	}
	if err := c.elsewhere(ctx, stored, found); err != nil {
		return err
	}
	if c.AcceptLost {
		return c.mayBeAccepted(found)
	}
	return found
}

// findLoss adds a partition to those found, if something in it is lost. Unless offsets is set, the
// group's offset alone is no evidence.
func (c *Check) findLoss(ctx context.Context, n, partitions int32, stored map[int32]holding,
	offsets bool, found *LostError,
) error {
	if holds, err := c.Holds(ctx, n); err != nil || holds {
		return err
	}
	e, err := c.evidence(ctx, n, partitions, stored, offsets)
	if err != nil || !e.speaks() {
		return err
	}
	// The evidence may be of a first transaction that was committed since.
	holds, err := c.Holds(ctx, n)
	if err == nil && !holds {
		found.lost[n] = e
	}
	return err
}

// nothingLost is an error that names no partition yet.
func (c *Check) nothingLost(gone bool) *LostError {
	t := c.Cluster.Topics
	return &LostError{
		Changelog: t.Changelog, Missing: gone, Group: c.Cluster.Group, Folder: c.StateDir,
		Outputs: [2]string{t.Sanitized, t.DeadLetters}, lost: map[int32]evidence{},
	}
}

// mayBeAccepted refuses to go on without a changelog where the group's offset is gone
// too: the service would begin at the raw topic's first record and release fixes again.
func (c *Check) mayBeAccepted(found *LostError) error {
	for n, e := range found.lost {
		if e.committed < 0 && e.stored > 0 {
			return fmt.Errorf("%w: group %s has no offset in partition %d of %s: set it to %d, "+
				"where the folder ends (changelog-lost)", task.ErrLost, c.Cluster.Group, n,
				c.Cluster.Topics.Raw, e.stored)
		}
	}
	return nil
}

// LostPartitions lists the partitions of a changelog that is there and holds nothing of
// what it must hold, in the words of LostError; nil if there is none.
func (c *Check) LostPartitions(ctx context.Context, partitions int32) (*LostError, error) {
	stored, _, err := c.folder(ctx)
	if err != nil {
		return nil, err
	}
	found := c.nothingLost(false)
	for n := range partitions {
		if err := c.findLoss(ctx, n, partitions, stored, true, found); err != nil {
			return nil, err
		}
	}
	if len(found.lost) == 0 {
		return nil, nil
	}
	return found, nil
}

// Holds reports whether the changelog has a committed record in a partition, or one of a
// transaction that is not decided there yet: Kafka confirms a commit before its marker has
// reached every partition. What the record is worth is for the task to judge, which ends
// open transactions before it looks. A changelog that is missing holds nothing.
func (c *Check) Holds(ctx context.Context, n int32) (bool, error) {
	if count, err := c.partitions(ctx, c.Cluster.Topics.Changelog); err != nil || count == 0 {
		return false, err
	}
	all, err := topics.Open(ctx, c.Client, c.Cluster.Topics.Changelog, n,
		consumer.FetcherOptions{Options: c.Call, Uncommitted: true})
	if err != nil {
		return false, err
	}
	committed, err := topics.Open(ctx, c.Client, c.Cluster.Topics.Changelog, n,
		consumer.FetcherOptions{Options: c.Call})
	if err != nil || all.End > committed.End {
		return err == nil, err
	}
	return committed.AnyEntry(ctx)
}

// RawPartitions is 0 for a raw topic that is missing.
func (c *Check) RawPartitions(ctx context.Context) (int32, error) {
	return c.partitions(ctx, c.Cluster.Topics.Raw)
}

// partitions is how many partitions a topic has, 0 for one that is missing.
func (c *Check) partitions(ctx context.Context, topic string) (int32, error) {
	counts, err := admin.Partitions(ctx, c.Client, c.Call, topic)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return 0, nil
	}
	return int32(counts[topic]), err
}

// evidence gathers what there is of a partition. It asks for the group's offset only if that
// counts, alone or beside something else: the answer waits for an open transaction to end.
func (c *Check) evidence(ctx context.Context, n, partitions int32, stored map[int32]holding,
	offsets bool,
) (e evidence, err error) {
	e = evidence{committed: -1, stored: -1}
	if has, ok := stored[n]; ok {
		e.stored = has.input
	}
	if n >= partitions {
		return e, nil
	}
	if e.published, err = c.Published(ctx, n, partitions); err != nil {
		return e, err
	}
	if !offsets && !e.speaks() {
		return e, nil // a task looks at the group's offset alone
	}
	offset, found, err := consumer.Committed(ctx, c.Client, c.Call, c.Cluster.Group,
		c.Cluster.Topics.Raw, n)
	if found {
		e.committed = offset
	}
	return e, err
}

// Published reports whether the sanitized or the dead-letter topic has a committed record
// in a partition, or has lost its first ones to retention. What an instance that was
// killed in its very first transaction has left there was never committed.
//
// Where the output is routed, a record may be of any raw partition. It speaks for this one only if
// no partition of the changelog has what was committed with it.
func (c *Check) Published(ctx context.Context, n, partitions int32) (bool, error) {
	if c.Replays || n >= partitions {
		return false, nil
	}
	routed := c.Cluster.Topics.Routed
	for _, topic := range c.Cluster.Topics.Outputs() {
		count, err := c.partitions(ctx, topic)
		if err != nil {
			return false, err
		}
		first, end := n, min(n+1, count)
		if routed {
			first, end = 0, count
		}
		for at := first; at < end; at++ {
			some, err := c.publishedIn(ctx, topic, at)
			if err == nil && some && routed {
				return c.nothingHeld(ctx, partitions)
			}
			if err != nil || some {
				return some, err
			}
		}
	}
	return false, nil
}

func (c *Check) publishedIn(ctx context.Context, topic string, n int32) (bool, error) {
	r, err := topics.Open(ctx, c.Client, topic, n, consumer.FetcherOptions{Options: c.Call})
	if err != nil || r.First > 0 {
		return err == nil, err
	}
	return r.Any(ctx, r.First, r.End)
}

// nothingHeld reports whether no partition of the changelog holds anything.
func (c *Check) nothingHeld(ctx context.Context, partitions int32) (bool, error) {
	for n := range partitions {
		if holds, err := c.Holds(ctx, n); err != nil || holds {
			return false, err
		}
	}
	return true, nil
}

// holding is what the local state folder has of a partition.
type holding struct {
	input  int64  // the raw offset that the states belong to
	source []byte // the id of the raw topic that they were written for; empty: not known
}

// folder reads from the local state folder up to which raw offset it has which
// partitions, and the id of the changelog that it is a copy of. Both are empty if the folder
// is not of this service; and if it cannot be read, which is for the store's own
// opening to report.
func (c *Check) folder(ctx context.Context) (inputs map[int32]holding, changelog []byte,
	err error,
) {
	store, err := state.Open(c.StateDir, state.Options{ReadOnly: true, Logger: c.Logger})
	if err != nil {
		return nil, nil, nil
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	cluster, err := admin.ClusterID(ctx, c.Client, c.Call)
	if err != nil {
		return nil, nil, err
	}
	changelog, ours := CopyOf(store.Identity(), cluster, c.Cluster.Group, c.Cluster.Topics)
	if !ours {
		return nil, nil, nil
	}
	numbers, err := store.Partitions()
	if err != nil {
		return nil, nil, err
	}
	inputs = map[int32]holding{}
	for _, n := range numbers {
		p, found, err := store.Partition(n).Positions()
		if err != nil {
			return nil, nil, err
		}
		if found && p.Input >= 0 {
			inputs[n] = holding{p.Input, sourceOf(store.Partition(n))}
		}
	}
	return inputs, changelog, nil
}

func maxPartition(stored map[int32]holding) int32 {
	most := int32(-1)
	for n := range stored {
		most = max(most, n)
	}
	return most
}

// elsewhere tells a folder of another raw topic from a loss: an ElsewhereError says that it
// is one, nil that it is a loss.
func (c *Check) elsewhere(ctx context.Context, stored map[int32]holding, found *LostError) error {
	for _, e := range found.lost {
		if e.committed >= 0 || e.stored < 0 {
			return nil // the group knows this raw topic
		}
	}
	raw := c.Cluster.Topics.Raw
	ids, err := admin.TopicIDs(ctx, c.Client, c.Call, raw)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return &ElsewhereError{Raw: raw, gone: true, lost: found}
	}
	if err != nil {
		return err
	}
	id := ids[raw]
	for n := range found.lost {
		source := stored[n].source
		if len(source) == 0 || id == [16]byte{} || bytes.Equal(source, id[:]) {
			return nil // it is a loss, or cannot be told from one
		}
	}
	return &ElsewhereError{Raw: raw, lost: found}
}

// sourceOf is the id of the raw topic that a partition's mark was written for; empty if it
// is not known.
func sourceOf(p *state.Partition) []byte {
	value, err := p.Get([]byte(state.MarkName))
	if err != nil || len(value) == 0 {
		return nil
	}
	mark, err := task.DecodeMark(value)
	if err != nil {
		return nil
	}
	return bytes.Clone(mark.Source)
}
