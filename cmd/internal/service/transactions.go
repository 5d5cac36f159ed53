package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// transactions is task.Transactions on a transactional producer.
type transactions struct {
	producer *producer.Transactional
	client   *kafka.Client
	group    string
	lease    *group.Lease
	source   []byte // the raw topic's id; nil: not known
	copied   []byte // the changelog's id, of which the store is a copy; nil: not known

	input, output, changelog, deadLetters producer.TopicPartition

	outputs *outputs // of the instance
	caller  string   // this partition's task, by its name there

	// Scratch: output, changelog, dead letters, and output to other partitions than its own.
	batches []producer.Batch
}

// Fence implements task.Transactions. A zombie must not fence the rightful
// owner, so the group's coordinator is asked first whether this member still
// has the partition. The group may give it away between the two calls. Then the
// rightful owner's next call is refused, and it rejoins and fences in turn. But
// this one must not commit before that, so the coordinator is asked once more.
func (t *transactions) Fence(ctx context.Context) error {
	if err := t.lease.Check(ctx); err != nil {
		return readRemedy(err)
	}
	if err := writeRemedy(t.producer.Init(ctx)); err != nil {
		return err
	}
	if err := t.lease.Check(ctx); err != nil {
		return readRemedy(err)
	}
	t.outputs.written(ofTransactions, t.caller)
	return t.sameTopics(ctx)
}

// unwritten books an error of the producer as one of an output, if it is. What a predecessor's
// transaction holds up is not: the partition is not ready then. Nor is a partition that is lost, or
// a stop.
func (t *transactions) unwritten(ctx context.Context, err error) {
	e, ok := errors.AsType[*producer.Error](err)
	if !ok || ctx.Err() != nil || e.Remedy == producer.Fenced ||
		errors.Is(err, kafka.ConcurrentTransactions) {
		return
	}
	topic := ofTransactions
	if e.Where != nil && e.Where.Topic != t.input.Topic {
		topic = e.Where.Topic
	}
	t.outputs.failed(topic, t.caller, err)
}

// sameTopics looks whether the raw topic or the changelog was made again while the
// service works. The raw topic's offsets mean other records then, and the changelog no
// longer holds what the store is a copy of. Deleting a topic sends the task that
// reads or writes it here.
func (t *transactions) sameTopics(ctx context.Context) error {
	if t.source == nil {
		return nil
	}
	ids, err := admin.TopicIDs(ctx, t.client, wire.Options{RetryTimeout: topics.CallPatience},
		t.input.Topic, t.changelog.Topic)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		if slices.Contains(missing.Topics, t.changelog.Topic) {
			err = fmt.Errorf("%w; the service stops unless it comes back",
				topics.LostTopic(err, t.changelog.Topic))
		}
		return task.WithRemedy(err, task.Retry)
	}
	if err != nil {
		return readRemedy(err)
	}
	if id := ids[t.input.Topic]; !bytes.Equal(t.source, id[:]) {
		return task.WithRemedy(fmt.Errorf("%w while it was read: its id was %x and is %x "+
			"(raw-remade)", task.ErrSource, t.source, id), task.Fatal)
	}
	if id := ids[t.changelog.Topic]; t.copied != nil && !bytes.Equal(t.copied, id[:]) {
		return task.WithRemedy(account.Remade(t.changelog.Topic, t.copied, id[:]), task.Fatal)
	}
	return nil
}

// Committed implements task.Transactions.
func (t *transactions) Committed(ctx context.Context) (int64, bool, error) {
	offset, found, err := consumer.Committed(ctx, t.client,
		wire.Options{RetryTimeout: topics.CallPatience}, t.group, t.input.Topic, t.input.Partition)
	return offset, found, readRemedy(err)
}

// Produce implements task.Transactions.
func (t *transactions) Produce(ctx context.Context, out task.Outputs) (int64, error) {
	for i := range t.batches {
		t.batches[i].Records = t.batches[i].Records[:0]
	}
	for _, part := range [...]struct {
		to       producer.TopicPartition
		messages []task.Message
	}{{t.output, out.Output}, {t.changelog, out.Changelog}, {t.deadLetters, out.DeadLetters}} {
		batch := t.batch(part.to)
		for _, m := range part.messages {
			r := producer.Record{Key: m.Key, Value: m.Value, Timestamp: m.Timestamp}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers,
					producer.Header{Key: h.Name, Value: []byte(h.Value)})
			}
			to := part.to
			if to.Partition = m.To.Partition(to.Partition); to != batch.TopicPartition {
				batch = t.batch(to)
			}
			batch.Records = append(batch.Records, r)
		}
	}
	offsets, err := t.producer.Produce(ctx, t.batches...)
	if err != nil {
		t.unwritten(ctx, err)
		return 0, writeRemedy(err)
	}
	return t.changelogEnd(offsets)
}

// batch returns what the transaction writes to a partition. It is valid until its next call.
func (t *transactions) batch(to producer.TopicPartition) *producer.Batch {
	at := slices.IndexFunc(t.batches, func(b producer.Batch) bool { return b.TopicPartition == to })
	if at < 0 {
		at, t.batches = len(t.batches), append(t.batches, producer.Batch{TopicPartition: to})
	}
	return &t.batches[at]
}

// Commit implements task.Transactions.
func (t *transactions) Commit(ctx context.Context, next int64) (int64, error) {
	if err := t.commitOffset(ctx, next); err != nil {
		t.unwritten(ctx, err)
		return 0, writeRemedy(err)
	}
	offsets, err := t.producer.Commit(ctx)
	if err != nil {
		t.unwritten(ctx, err)
		return 0, writeRemedy(err)
	}
	t.outputs.written(ofTransactions, t.caller)
	for _, b := range t.batches {
		if len(b.Records) > 0 {
			t.outputs.written(b.Topic, t.caller)
		}
	}
	return t.changelogEnd(offsets)
}

// commitOffset makes the next offset to read part of the transaction. A new
// generation of the group may begin meanwhile. Then the coordinator takes the offset
// under that one alone, and if the lease goes on, the offset is offered again. Redpanda
// takes none at all while the group shares out, also of the new generation.
func (t *transactions) commitOffset(ctx context.Context, next int64) error {
	by := t.lease.Identity()
	for {
		err := t.producer.CommitOffsets(ctx, producer.Member(by),
			map[producer.TopicPartition]int64{t.input: next})
		var over error
		switch {
		case errors.Is(err, kafka.IllegalGeneration):
			by, over = t.lease.Renewed(ctx, by)
		case errors.Is(err, kafka.RebalanceInProgress):
			over = t.lease.Check(ctx) // which waits for that
			by = t.lease.Identity()
		default:
			return err
		}
		if over != nil {
			return err
		}
	}
}

// changelogEnd is the offset behind what a transaction has written to the changelog.
func (t *transactions) changelogEnd(offsets producer.Offsets) (int64, error) {
	last, ok := offsets[t.changelog]
	if !ok {
		// Cannot be: every transaction carries the changelog's mark.
		return 0, task.WithRemedy(
			errors.New("the broker did not say where the changelog's records lie"), task.Rebuild)
	}
	return last + 1, nil
}

// Abort implements task.Transactions.
func (t *transactions) Abort(ctx context.Context) error {
	return writeRemedy(t.producer.Abort(ctx))
}

// writeRemedy translates what the producer's errors call for into the task's terms.
// A retriable error is given as it is: nothing has happened, and the task
// decides how often it asks again. An unknown outcome is resolved by starting
// over from the fence.
func writeRemedy(err error) error {
	switch producer.RemedyOf(err) {
	case producer.Retriable:
		return task.WithRemedy(err, task.Retry)
	case producer.Abortable, producer.Unknown:
		return task.WithRemedy(err, task.Rebuild)
	case producer.Fenced:
		return task.WithRemedy(err, task.Leave)
	case producer.Fatal:
		return task.WithRemedy(err, task.Fatal)
	}
	return err
}

// readRemedy does the same for the consumer's errors. An offset outside of the
// log sends the task back to look at the log's bounds, which decide.
func readRemedy(err error) error {
	var corrupt *consumer.CorruptError
	var refused *wire.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, group.ErrNotMember):
		return task.WithRemedy(err, task.Leave)
	case errors.Is(err, wire.ErrTemporary):
		return task.WithRemedy(err, task.Retry)
	case errors.Is(err, consumer.ErrOffsetOutOfRange), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return task.WithRemedy(err, task.Rebuild)
	case errors.As(err, &corrupt), errors.As(err, &refused):
		return task.WithRemedy(err, task.Fatal)
	}
	return err
}
