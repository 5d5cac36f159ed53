package consumer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// retry repeats an attempt while its error is temporary, until
// Options.RetryTimeout or the context ends; an attempt that has begun then may
// still take its RequestTimeout. Pauses double up to a bound; there
// is no jitter, since every worker has its partition to itself.
func (o Options) retry(ctx context.Context, attempt func(context.Context) error) error {
	patience, cancel := context.WithTimeout(ctx, o.RetryTimeout)
	defer cancel()
	pause := o.MinBackoff
	var last *Error
	for {
		err := attempt(ctx)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.Temporary {
			return err
		}
		// Running out of time says less than what came before it.
		if last == nil || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			last = e
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, o.MaxBackoff)
		case <-patience.Done():
			timer.Stop()
			given := *last
			given.Err = fmt.Errorf("%w; last: %w", context.Cause(patience), last.Err)
			return &given
		}
	}
}

// freshMetadata asks a broker about topics, all of them if none is named. It
// does not use the transport's cache and creates no topic.
func freshMetadata(ctx context.Context, client *kafka.Client, o Options, topics ...string) (*metadata.Response, error) {
	const op = "read metadata"
	res, err := roundTrip(ctx, client, &exchange{message: &metadata.Request{TopicNames: topics}, broker: anyBroker}, o.RequestTimeout)
	if err != nil {
		return nil, failed(client, op, err)
	}
	found, ok := res.(*metadata.Response)
	if !ok {
		return nil, unexpected(op, res)
	}
	return found, nil
}

// findLeader asks a broker for the leader of a partition.
func findLeader(ctx context.Context, client *kafka.Client, o Options, topic string, partition int32) (int32, error) {
	res, err := freshMetadata(ctx, client, o, topic)
	if err != nil {
		return 0, err
	}
	op := fmt.Sprintf("find the leader of %s/%d", topic, partition)
	code := kafka.UnknownTopicOrPartition
	for _, t := range res.Topics {
		if t.Name != topic {
			continue
		}
		if t.ErrorCode != 0 {
			code = kafka.Error(t.ErrorCode)
		}
		for _, p := range t.Partitions {
			if p.PartitionIndex != partition {
				continue
			}
			if p.LeaderID >= 0 {
				return p.LeaderID, nil
			}
			code = kafka.LeaderNotAvailable
		}
	}
	return 0, refused(op, code)
}

// findCoordinator asks a broker for the coordinator of a group.
func findCoordinator(ctx context.Context, client *kafka.Client, o Options, group string) (int32, error) {
	op := "find the coordinator of group " + group
	res, err := roundTrip(ctx, client, &exchange{
		message: &findcoordinator.Request{Key: group, KeyType: int8(kafka.CoordinatorKeyTypeConsumer)}, broker: anyBroker,
	}, o.RequestTimeout)
	if err != nil {
		return 0, failed(client, op, err)
	}
	found, ok := res.(*findcoordinator.Response)
	if !ok {
		return 0, unexpected(op, res)
	}
	if found.ErrorCode != 0 {
		return 0, refused(op, kafka.Error(found.ErrorCode))
	}
	return found.NodeID, nil
}

// unexpected is an answer of another type than the request's: a broken
// transport.
func unexpected(op string, res protocol.Message) *Error {
	return &Error{Op: op, Err: fmt.Errorf("the transport answered with %T", res)}
}
