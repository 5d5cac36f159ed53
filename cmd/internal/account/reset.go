package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/state"
)

// Options are those of the service, and how to look at its states, reset or rebuild them. Required
// is what Settings and Cluster require. To reset or rebuild, StateDir is required too, and no
// instance may be at work.
type Options struct {
	engine.Settings
	topics.Cluster
	StateDir      string // the local state folder
	MaxBatchBytes int    // size of a record batch that is written; default the producer's

	// DryRun only looks, and says what would be removed or written.
	DryRun bool
	// Discard removes a folder without a look whether it is the only copy of an account. It also
	// removes stores that were set aside.
	Discard bool

	Logger *slog.Logger // default slog.Default()
}

// prepare checks the options and fills in what was left empty.
func (o Options) prepare() (Options, error) {
	err := errors.Join(o.Cluster.Validate(), o.Settings.Validate())
	o.Settings, o.Cluster = o.Settings.WithDefaults(), o.Cluster.WithDefaults()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, err
}

// account is the check of the changelog, and of the folder that is its copy.
func (o Options) account(client *kafka.Client, call wire.Options) *Check {
	return &Check{
		Client: client, Call: call, Cluster: o.Cluster, StateDir: o.StateDir, Logger: o.Logger,
	}
}

// patience is how long one call to Kafka is tried again, where a folder can be kept instead.
const patience = 5 * time.Second

// Reset is what there is to remove, or was.
type Reset struct {
	Folder string   `json:"folder"` // the state folder
	Names  []string `json:"names"`  // what is removed in it
	Bytes  int64    `json:"bytes"`
	InUse  bool     `json:"in_use"` // by an instance, now; only where nothing was removed
	// Aside names stores that were set aside, and stay: nobody can tell what they hold.
	Aside []string `json:"aside"`
	// Restorable: the changelog was looked at, and has all that is removed.
	Restorable bool `json:"restorable"`

	Everything bool   `json:"everything"`
	Group      string `json:"group"`
	Changelog  string `json:"changelog"`
	// Fixes is how many records of the raw topic would be processed again, and
	// so at most how many releases charged a second time.
	Fixes   int64   `json:"fixes"`
	Epsilon float64 `json:"epsilon"` // of each
}

// ResetFolder removes the local state folder, after a look whether the changelog has all that
// is in it. If it has not, or cannot be looked at, the error is an ErrOnlyCopy and nothing is
// removed. A dry run says whether an instance has the folder open; otherwise that is an error.
func ResetFolder(ctx context.Context, o Options) (Reset, error) {
	o, err := o.prepare()
	if err != nil {
		return Reset{}, err
	}
	return o.resetFolder(ctx)
}

// resetFolder is ResetFolder for options that are complete.
func (o Options) resetFolder(ctx context.Context) (Reset, error) {
	remove := state.RemoveStore
	if o.Discard {
		remove = state.Remove
	}
	found, err := remove(o.StateDir, true)
	plan := Reset{
		Folder: o.StateDir, Names: found.Names, Bytes: found.Bytes, InUse: found.InUse,
		Aside: found.Aside,
	}
	if err != nil || found.InUse && o.DryRun {
		return plan, err
	}
	if !o.Discard && len(found.Names) > 0 && !found.InUse { // else the removal says that it is
		if err := o.account(o.Client(),
			wire.Options{RetryTimeout: patience}).Restorable(ctx); err != nil {
			return plan, err
		}
		plan.Restorable = true
	}
	if o.DryRun {
		return plan, nil
	}
	_, err = remove(o.StateDir, false)
	return plan, err
}

// ResetEverything also removes the group's offsets and all states, so that the
// service begins again at the raw topic's first record: all fixes that it still
// holds are released, and charged, a second time, behind the first releases in
// the same sanitized topic. It refuses while the group has members, and where ResetFolder refuses.
//
// The order is such that what is left after a crash in between is safe: without
// the group's offset the changelog's mark stands in for it, and without either
// there is nothing that a state could be missing from. Repeat it until it ends.
func ResetEverything(ctx context.Context, o Options) (Reset, error) {
	o, err := o.prepare()
	if err != nil {
		return Reset{}, err
	}
	client := o.Client()
	if err := requireEmpty(ctx, client, o.Group); err != nil {
		return Reset{}, err
	}
	look := o
	look.DryRun = true
	plan, err := look.resetFolder(ctx)
	if err != nil {
		return plan, err
	}
	plan.Everything, plan.Group, plan.Changelog, plan.Epsilon = true, o.Group,
		o.Topics.Changelog, o.Release.Epsilon
	counts, err := admin.Partitions(ctx, client, wire.Options{}, o.Topics.Raw)
	if err != nil {
		return plan, err
	}
	for p := range int32(counts[o.Topics.Raw]) {
		raw, err := topics.Open(ctx, client, o.Topics.Raw, p, consumer.FetcherOptions{})
		if err != nil {
			return plan, err
		}
		plan.Fixes += raw.End - raw.First
	}
	if o.DryRun {
		return plan, nil
	}
	if _, err := o.resetFolder(ctx); err != nil {
		return plan, err
	}
	if err := deleteGroup(ctx, client, o.Group); err != nil {
		return plan, err
	}
	return plan, remakeChangelog(ctx, client, o)
}

// requireEmpty refuses a group with members.
func requireEmpty(ctx context.Context, client *kafka.Client, group string) error {
	res, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return fmt.Errorf("look at group %s: %w", group, err)
	}
	for _, g := range res.Groups {
		// Beside the broker's codes the error may be that kafka-go cannot read what
		// members say of themselves; the group's state is there all the same.
		var code kafka.Error
		switch {
		case errors.As(g.Error, &code) && code != kafka.GroupIdNotFound:
			return fmt.Errorf("look at group %s: %w", group, code)
		case errors.As(g.Error, &code), g.GroupState == "Empty", g.GroupState == "Dead":
		default:
			return fmt.Errorf("group %s has members, its state is %q (group-active)", group,
				g.GroupState)
		}
	}
	return nil
}

// deleteGroup removes the group's offsets with the group. The broker refuses it
// if somebody has joined meanwhile.
func deleteGroup(ctx context.Context, client *kafka.Client, group string) error {
	res, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err == nil {
		err = res.Errors[group]
	}
	if err != nil && !errors.Is(err, kafka.GroupIdNotFound) {
		return fmt.Errorf("delete group %s: %w", group, err)
	}
	return nil
}

// remakeChangelog deletes the changelog and makes it again, with its settings.
func remakeChangelog(ctx context.Context, client *kafka.Client, o Options) error {
	topic := o.Topics.Changelog
	counts, err := admin.Partitions(ctx, client, wire.Options{}, topic)
	var missing *admin.MissingTopicsError
	switch {
	case errors.As(err, &missing):
		return nil
	case err != nil:
		return err
	}
	names := append(strings.Fields("segment.ms segment.bytes min.cleanable.dirty.ratio "+
		"delete.retention.ms max.message.bytes min.insync.replicas"), topics.TimestampAhead)
	configs, err := admin.Configs(ctx, client, wire.Options{}, topic, names...)
	if err != nil {
		return err
	}
	res, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = res.Errors[topic]
	}
	if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	if err := awaitGone(ctx, client, topic); err != nil {
		return err
	}
	return admin.CreateTopics(ctx, client, wire.Options{}, admin.Topic{
		Name: topic, Partitions: counts[topic], Replication: o.Topics.Replication, Initial: configs,
		Configs: topics.Compacted,
	})
}

// awaitGone waits until the cluster no longer knows a topic.
func awaitGone(ctx context.Context, client *kafka.Client, topic string) error {
	for {
		_, err := admin.Partitions(ctx, client, wire.Options{}, topic)
		var missing *admin.MissingTopicsError
		if errors.As(err, &missing) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ErrOnlyCopy says that a state folder may hold what no changelog does.
var ErrOnlyCopy = errors.New("this folder may be the only copy of the accounts of ε " +
	"(changelog-lost)")

// Restorable looks whether the changelog has all that the state folder has, so that the
// folder can be removed. The error is an ErrOnlyCopy that says what is missing, or why that
// cannot be told.
//
// It asks for more than the look before a start does. A changelog of another id may hold
// marks as high as the folder's and none of its accounts, after a loss that was accepted; so
// may one whose beginning is gone.
func (c *Check) Restorable(ctx context.Context) error {
	why, err := c.missingThere(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w (%w)", ErrOnlyCopy, err)
	case why != "":
		return fmt.Errorf("%w (%s)", ErrOnlyCopy, why)
	}
	return nil
}

// missingThere says what the changelog may lack of the state folder; "" if nothing.
func (c *Check) missingThere(ctx context.Context) (string, error) {
	topic := c.Cluster.Topics.Changelog
	if err := admin.Ping(ctx, c.Client, c.Call); err != nil {
		return "", fmt.Errorf("no broker answers: %w", err)
	}
	stored, copied, err := c.folder(ctx)
	if err != nil {
		return "", err
	}
	if stored == nil {
		return "the folder is of another cluster, group or topic, or it cannot be read, so " +
			"nobody can tell what it holds", nil
	}
	if len(stored) == 0 {
		return "", nil // nothing was ever processed into it
	}
	ids, err := admin.TopicIDs(ctx, c.Client, c.Call, topic)
	if err != nil {
		return "", topics.LostTopic(err, topic)
	}
	if id := ids[topic]; !bytes.Equal(copied, id[:]) {
		return fmt.Sprintf("%s was made again since the folder was written", topic), nil
	}
	for _, n := range slices.Sorted(maps.Keys(stored)) {
		r, err := topics.Open(ctx, c.Client, topic, n, consumer.FetcherOptions{Options: c.Call})
		if err != nil {
			return "", err
		}
		if r.First > 0 {
			return fmt.Sprintf("partition %d of %s does not begin at offset 0: a part of it was "+
				"deleted", n, topic), nil
		}
		mark, found, err := topics.LastMark(ctx, c.Client, topic, n)
		switch {
		case err != nil:
			return "", fmt.Errorf("partition %d of %s: %w", n, topic, err)
		case !found:
			return fmt.Sprintf("partition %d of %s is empty, and the folder has its states up to "+
				"raw offset %d", n, topic, stored[n].input), nil
		case mark.Input < stored[n].input:
			return fmt.Sprintf("partition %d of %s ends at raw offset %d, and the folder has its "+
				"states up to %d", n, topic, mark.Input, stored[n].input), nil
		}
	}
	return "", nil
}
