package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// changelogEvery is how often a working service looks at its changelog: sooner than Kafka
// would begin to delete by a policy that somebody has set (log.retention.check.interval.ms,
// five minutes).
const changelogEvery = 5 * time.Second

// watchChangelog stops the service when its changelog was deleted, made again, or given a
// policy that deletes. A partition at work sees the first two at its next transaction,
// before the commit; this is for those that are idle, and for those that would only see a
// retry in the log.
func (s *Service) watchChangelog(ctx context.Context) {
	ticker := time.NewTicker(s.changelogEvery)
	defer ticker.Stop()
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.lookAtOutputs(ctx)
		err := s.lookAtChangelog(ctx)
		var missing *admin.MissingTopicsError
		if errors.As(err, &missing) {
			if missed++; missed < lossLooks {
				s.log.Warn("the changelog is missing: the service stops unless it comes back",
					"cause", topics.LostTopic(err, s.options.Topics.Changelog))
				continue
			}
			err = fmt.Errorf("%w: %s was deleted while the service worked (changelog-lost)",
				task.ErrLost, s.options.Topics.Changelog)
		} else {
			missed = 0
		}
		var config *admin.ConfigError
		if errors.Is(err, task.ErrLost) || errors.As(err, &config) {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return
		}
	}
}

// lookAtChangelog compares id and policy with those of the start. Other errors than
// those that watchChangelog knows may pass.
func (s *Service) lookAtChangelog(ctx context.Context) error {
	o := wire.Options{RetryTimeout: topics.CallPatience}
	topic := s.options.Topics.Changelog
	ids, err := admin.TopicIDs(ctx, s.client, o, topic)
	if err != nil {
		return err
	}
	if id := ids[topic]; s.copied != nil && !bytes.Equal(s.copied, id[:]) {
		return account.Remade(topic, s.copied, id[:])
	}
	if err := admin.CheckConfigs(ctx, s.client, o, topic, topics.Compacted); err != nil {
		return fmt.Errorf("the changelog would begin to forget accounts of ε: %w (changelog-cut)",
			err)
	}
	return nil
}

// lookAtOutputs looks whether the topics of the output are there: a topic that gets a record a day
// may be gone for as long.
func (s *Service) lookAtOutputs(ctx context.Context) {
	names := s.options.Topics.Outputs()
	_, err := admin.Partitions(ctx, s.client, wire.Options{RetryTimeout: topics.CallPatience},
		names...)
	var missing *admin.MissingTopicsError
	if err != nil && !errors.As(err, &missing) {
		return
	}
	for _, name := range names {
		if missing != nil && slices.Contains(missing.Topics, name) {
			s.outputs.failed(name, theWatch, missing)
		} else {
			s.outputs.written(name, theWatch)
		}
	}
}
