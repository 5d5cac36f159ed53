package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Options are the settings of requests. The zero value is usable.
type Options struct {
	// RequestTimeout bounds one request and its answer, beyond the time that
	// the broker is asked to wait. Default 10 s.
	RequestTimeout time.Duration
	// RetryTimeout is how long a request is repeated; no attempt begins after
	// it. Default 30 s.
	RetryTimeout time.Duration
	// MinBackoff and MaxBackoff are the first and the longest pause between two
	// attempts; each pause is twice the one before. Default 10 ms and 500 ms.
	MinBackoff, MaxBackoff time.Duration
}

// Validate reports settings that cannot work.
func (o Options) Validate() error {
	if o.RequestTimeout < 0 || o.RetryTimeout < 0 || o.MinBackoff < 0 || o.MaxBackoff < 0 {
		return errors.New("consumer: a negative timeout or backoff: leave it 0 for the default")
	}
	return nil
}

func (o Options) WithDefaults() Options {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.RetryTimeout = cmp.Or(o.RetryTimeout, 30*time.Second)
	o.MinBackoff = cmp.Or(o.MinBackoff, 10*time.Millisecond)
	o.MaxBackoff = max(o.MinBackoff, cmp.Or(o.MaxBackoff, 500*time.Millisecond))
	return o
}

// Retry repeats an attempt while its error is temporary, until
// Options.RetryTimeout or the context ends; an attempt that has begun then may
// still take its RequestTimeout. Pauses double up to a bound; there
// is no jitter, since every worker has its partition to itself.
func (o Options) Retry(ctx context.Context, attempt func(context.Context) error) error {
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

// Metadata asks a broker about topics, all of them if none is named. It
// does not use the transport's cache and creates no topic.
func Metadata(ctx context.Context, client *kafka.Client, o Options, topics ...string) (*metadata.Response, error) {
	const op = "read metadata"
	res, err := RoundTrip(ctx, client, &Exchange{Message: &metadata.Request{TopicNames: topics}, To: AnyBroker}, o.RequestTimeout)
	if err != nil {
		return nil, Failed(client, op, err)
	}
	found, ok := res.(*metadata.Response)
	if !ok {
		return nil, Unexpected(op, res)
	}
	return found, nil
}

// FindCoordinator asks a broker for the coordinator of a group.
func FindCoordinator(ctx context.Context, client *kafka.Client, o Options, group string) (int32, error) {
	op := "find the coordinator of group " + group
	res, err := RoundTrip(ctx, client, &Exchange{
		Message: &findcoordinator.Request{Key: group, KeyType: int8(kafka.CoordinatorKeyTypeConsumer)}, To: AnyBroker,
	}, o.RequestTimeout)
	if err != nil {
		return 0, Failed(client, op, err)
	}
	found, ok := res.(*findcoordinator.Response)
	if !ok {
		return 0, Unexpected(op, res)
	}
	if found.ErrorCode != 0 {
		return 0, Refused(op, kafka.Error(found.ErrorCode))
	}
	return found.NodeID, nil
}
