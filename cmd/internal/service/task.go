package service

import (
	"context"
	"fmt"
	"log/slog"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/state"
)

func (s *Service) newTask(
	store *state.Store, lease *group.Lease, board *monitor.Partition, log *slog.Logger,
) (*task.Task, error) {
	o, partition := s.options, lease.Partition
	client := wire.Observed(s.client, board.Requested)
	at := func(topic string) producer.TopicPartition {
		return producer.TopicPartition{Topic: topic, Partition: partition}
	}
	tx := &transactions{
		client: client, group: o.Group, lease: lease, source: s.source, copied: s.copied,
		input: at(o.Topics.Raw), output: at(o.Topics.Sanitized), changelog: at(o.Topics.Changelog),
		deadLetters: at(o.Topics.DeadLetters), outputs: s.outputs, caller: caller(partition),
	}
	grow, err := growing(client, o.Topics.Raw, partition, board)
	if err != nil {
		return nil, err
	}
	tx.producer, err = producer.NewTransactional(client, o.TransactionalID(partition),
		producer.Options{
			TransactionTimeout: o.TransactionTimeout, MaxBatchBytes: o.MaxBatchBytes,
			Retrying: func(ctx context.Context, err *producer.Error) {
				tx.unwritten(ctx, err)
				grow(ctx)
			},
		})
	if err != nil {
		return nil, err
	}
	input, err := s.newLog(client, o.Topics.Raw, partition)
	if err != nil {
		return nil, err
	}
	changelog, err := s.newLog(client, o.Topics.Changelog, partition)
	if err != nil {
		return nil, err
	}
	options := task.Options{
		Name:           fmt.Sprintf("%s/%d", o.Topics.Raw, partition),
		MaxRecords:     o.MaxRecords,
		MaxInterval:    o.MaxInterval,
		SkipLost:       o.SkipLost,
		Settings:       s.job.Fingerprint(),
		Versions:       o.Versions(),
		Source:         s.source,
		Grace:          s.grace,
		AcceptSettings: o.AcceptSettings,
		AcceptLost:     o.AcceptLost,
	}
	parts := task.Dependencies{
		Input: input, Changelog: changelog,
		Transactions: tx, Store: store.Partition(partition),
	}
	processor, err := s.job.work(engine.Partition{
		Topic: o.Topics.Raw, Number: partition, Of: int(s.partitions),
	}, &parts, &options)
	if err != nil {
		return nil, err
	}
	board.Due(dueMS(processor))
	parts.Processor = timed{processor, &o.Counters.Busy, board}
	parts.Key = processor.Key
	if s.probation != nil {
		parts.Input = &guarded{
			partitionLog: input, probation: s.probation, partition: partition, fail: s.fail,
		}
	}
	options.Observer = &observer{
		log: log, counters: o.Counters, processor: processor, caller: caller(partition),
		outages: s.outages, changes: s.changes, board: board, acceptLost: o.AcceptLost,
	}
	return task.New(parts, options)
}

// caller names a partition's task among those that call Kafka.
func caller(partition int32) string { return fmt.Sprintf("partition %d", partition) }

func (s *Service) newLog(client *kafka.Client, topic string, partition int32) (
	*partitionLog, error,
) {
	fetcher, err := consumer.NewFetcher(client, topic, partition, consumer.FetcherOptions{
		Options: wire.Options{RetryTimeout: topics.CallPatience},
	})
	return &partitionLog{fetcher: fetcher}, err
}
