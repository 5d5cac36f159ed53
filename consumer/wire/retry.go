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
	// RequestTimeout bounds one request and its answer, beyond the time that the broker is asked
	// to wait. Default 10 s.
	RequestTimeout time.Duration
	// RetryTimeout is how long a request is repeated; no attempt begins after it. Default 30 s.
	RetryTimeout time.Duration
	// MinBackoff and MaxBackoff are the first and the longest pause between two attempts; each
	// pause is twice the one before. Default 10 ms and 500 ms.
	MinBackoff, MaxBackoff time.Duration
}

// Checked returns the options with their defaults filled in, or an error about settings that
// cannot work.
func (o Options) Checked() (Options, error) {
	if o.RequestTimeout < 0 || o.RetryTimeout < 0 || o.MinBackoff < 0 || o.MaxBackoff < 0 {
		return o, errors.New("consumer: a negative timeout or backoff")
	}
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.RetryTimeout = cmp.Or(o.RetryTimeout, 30*time.Second)
	o.MinBackoff = cmp.Or(o.MinBackoff, 10*time.Millisecond)
	o.MaxBackoff = max(o.MinBackoff, cmp.Or(o.MaxBackoff, 500*time.Millisecond))
	return o, nil
}

// Retry makes an attempt with Checked options, and repeats it while its error is temporary, until
// RetryTimeout or the context ends. An attempt that has begun by then may still take its
// RequestTimeout.
func (o Options) Retry(ctx context.Context, attempt func(context.Context, Options) error) error {
	o, err := o.Checked()
	if err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, o.RetryTimeout)
	defer cancel()
	pause := Backoff{o.MinBackoff, o.MaxBackoff}
	var last *Error
	for {
		err := attempt(ctx, o)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.Temporary {
			return err
		}
		if last == nil || !RanOut(err) { // to run out of time says less than what came before it
			last = e
		}
		if !pause.Wait(patience) {
			given := *last
			given.Err = fmt.Errorf("%w; last: %w", context.Cause(patience), last.Err)
			return &given
		}
	}
}

// Backoff is the pause between two attempts: it doubles, up to a bound. There is no jitter: a
// worker has its partition to itself, so there is no crowd to spread.
type Backoff struct{ Next, Longest time.Duration }

// Wait pauses, and returns false if the context ended first.
func (b *Backoff) Wait(ctx context.Context) bool {
	timer := time.NewTimer(b.Next)
	defer timer.Stop()
	b.Next = min(2*b.Next, b.Longest)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// RanOut reports whether an attempt failed because its time was over. kafka-go returns the
// context's error or the connection's, whichever comes first.
func RanOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// Metadata asks a broker about topics, or about all topics if none is named. It does not use the
// transport's cache, and creates no topic.
func Metadata(ctx context.Context, client *kafka.Client, o Options, topics ...string) (
	*metadata.Response, error,
) {
	return Ask[*metadata.Response](ctx, client, Exchange{
		Op: "read metadata", Message: &metadata.Request{TopicNames: topics},
		To: AnyBroker, Timeout: o.RequestTimeout,
	})
}

// FindCoordinator asks a broker for the coordinator of a consumer group.
func FindCoordinator(ctx context.Context, client *kafka.Client, o Options, group string) (
	broker int32, err error,
) {
	op := "find the coordinator of group " + group
	found, err := Ask[*findcoordinator.Response](ctx, client, Exchange{
		Op: op, To: AnyBroker, Timeout: o.RequestTimeout,
		Message: &findcoordinator.Request{
			Key: group, KeyType: int8(kafka.CoordinatorKeyTypeConsumer),
		},
	})
	if err != nil {
		return 0, err
	}
	if found.ErrorCode != 0 {
		return 0, Refused(op, kafka.Error(found.ErrorCode))
	}
	return found.NodeID, nil
}
