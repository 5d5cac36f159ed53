package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
)

// ErrOnlyCopy says that a state folder may hold what no changelog does.
var ErrOnlyCopy = errors.New("the changelog is lost (or cannot be looked at); this folder may be " +
	"the only copy of the users' accounts of ε: see state rebuild-changelog")

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
