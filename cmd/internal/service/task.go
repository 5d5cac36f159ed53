package service

import (
	"fmt"
	"log/slog"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
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
	processor, err := engine.NewProcessor(o.Settings,
		engine.Partition{Topic: o.Topics.Raw, Number: partition, Of: int(s.partitions)})
	if err != nil {
		return nil, err
	}
	at := func(topic string) producer.TopicPartition {
		return producer.TopicPartition{Topic: topic, Partition: partition}
	}
	tx, err := producer.NewTransactional(client, o.TransactionalID(partition),
		producer.Options{TransactionTimeout: o.TransactionTimeout, MaxBatchBytes: o.MaxBatchBytes})
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
	var reads task.Log = input
	if s.probation != nil {
		reads = &guarded{
			partitionLog: input, probation: s.probation, partition: partition, fail: s.fail,
		}
	}
	options := task.Options{
		Name:           fmt.Sprintf("%s/%d", o.Topics.Raw, partition),
		MaxRecords:     o.MaxRecords,
		MaxInterval:    o.MaxInterval,
		SkipLost:       o.SkipLost,
		Settings:       o.Fingerprint(),
		Source:         s.source,
		Grace:          s.grace,
		AcceptSettings: o.AcceptSettings,
		AcceptLost:     o.AcceptLost,
		Names:          o.KeyFingerprint(),
		Observer: &observer{
			log: log, counters: o.Counters, processor: processor, caller: caller(partition),
			outages: s.outages, changes: s.changes, board: board,
			acceptLost: o.AcceptLost,
		},
	}
	var work task.Processor = processor
	var amends task.Amender = &amender{
		timeline: s.timeline, processor: processor, counters: o.Counters, log: log,
	}
	var erases task.Eraser = engine.NewEraser(o.Key)
	if s.replays() {
		w := o.Windows[partition]
		amends = nil // its versions are those of the first release
		erases = nil // and it has no account of its own
		work, options.Settings = w.processor(processor), w.Settings
		// Not at whatever retention has left when it begins.
		options.Start, options.Begin, options.End = task.At, w.Origin, w.End
	}
	return task.New(task.Dependencies{
		Input: reads, Changelog: changelog,
		Transactions: &transactions{
			producer: tx, client: client, group: o.Group, lease: lease, source: s.source,
			copied: s.copied, input: at(o.Topics.Raw), output: at(o.Topics.Sanitized),
			changelog: at(o.Topics.Changelog), deadLetters: at(o.Topics.DeadLetters),
		},
		Store:     store.Partition(partition),
		Processor: timed{work, &o.Counters.Busy, board},
		Key:       processor.Key,
		Amender:   amends,
		Eraser:    erases,
	}, options)
}

// caller names a partition's task among those that call Kafka.
func caller(partition int32) string { return fmt.Sprintf("partition %d", partition) }

func (s *Service) newLog(client *kafka.Client, topic string, partition int32) (
	*partitionLog, error,
) {
	fetcher, err := consumer.NewFetcher(client, topic, partition, consumer.FetcherOptions{
		Options: wire.Options{RetryTimeout: CallPatience},
	})
	return &partitionLog{fetcher: fetcher}, err
}
