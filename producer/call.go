package producer

import (
	"context"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"

	"github.com/geodither/geodither/consumer/wire"
)

// caller makes the requests that may be repeated, because to repeat one has the same effect. It
// caches coordinators, which saves four of nine round trips a transaction. Not safe for concurrent
// use.
type caller struct {
	client       *kafka.Client
	options      Options
	coordinators map[coordinator]int32
}

// coordinator is a transactional id or a group, for which one broker is responsible.
type coordinator struct {
	key  string
	kind kafka.CoordinatorKeyType
}

// noCoordinator is the coordinator for requests that any broker answers.
var noCoordinator coordinator

func newCaller(client *kafka.Client, o Options) *caller {
	return &caller{client: client, options: o, coordinators: map[coordinator]int32{}}
}

// call is one request.
type call struct {
	op      string // what errors call it
	to      coordinator
	message func() protocol.Message // for one attempt
	// answer returns the first error code in the answer, and the partition that it is about.
	answer func(protocol.Message) (kafka.Error, *TopicPartition)
}

// do repeats a call until the answer is definite, or until Options.RetryTimeout or the context
// ends. RetryTimeout does not cut an attempt short, because its answer would be lost. The error's
// Uncertain says whether an attempt may have taken effect.
func (c *caller) do(ctx context.Context, what call) *Error {
	patience, cancel := context.WithTimeout(ctx, c.options.RetryTimeout)
	defer cancel()
	pause := wire.Backoff{Next: c.options.MinBackoff, Longest: c.options.MaxBackoff}
	var last *Error
	for {
		err := c.once(ctx, what)
		if err == nil {
			return nil
		}
		last = latest(last, err)
		if last.Remedy != Retriable {
			return last
		}
		c.options.Retrying(ctx, last)
		if !pause.Wait(patience) {
			return gaveUp(patience, last)
		}
	}
}

// latest returns the error to go on with after another attempt. Once an attempt is uncertain, so
// are all later errors. An attempt that ran out of time says less than the one before it.
func latest(before, now *Error) *Error {
	if before == nil {
		return now
	}
	doubt := before.Uncertain || now.Uncertain
	if now.Remedy == Retriable && wire.RanOut(now) {
		now = before
	}
	now.Uncertain = doubt
	return now
}

// once makes one attempt.
func (c *caller) once(ctx context.Context, what call) *Error {
	broker, err := c.find(ctx, what)
	if err != nil {
		return err
	}
	res, sendErr := c.roundTrip(ctx, broker, what.message())
	if sendErr != nil {
		delete(c.coordinators, what.to)
		return &Error{
			Op: what.op, Remedy: Retriable, Uncertain: !wire.NeverSent(sendErr),
			Hint: wire.ReachHint(c.client, sendErr), Err: sendErr,
		}
	}
	code, where := what.answer(res)
	if code == 0 {
		return nil
	}
	refusal := refused(what.op, where, code)
	switch code {
	case kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.RequestTimedOut:
		// A coordinator also answers these when it has written its decision and could not
		// replicate it. Its successor may find the decision and act on it.
		refusal.Uncertain = true
		delete(c.coordinators, what.to)
	case kafka.GroupLoadInProgress:
		delete(c.coordinators, what.to)
	}
	return refusal
}

// roundTrip sends a message to a broker and waits for the answer, without repeating it.
func (c *caller) roundTrip(ctx context.Context, broker int32, message protocol.Message) (
	protocol.Message, error,
) {
	return wire.RoundTrip(ctx, c.client, wire.Exchange{
		Message: message, To: broker, Timeout: c.options.RequestTimeout,
	})
}

// find returns the responsible broker, from the cache or by asking.
func (c *caller) find(ctx context.Context, what call) (int32, *Error) {
	if what.to == noCoordinator {
		return wire.AnyBroker, nil
	}
	if broker, ok := c.coordinators[what.to]; ok {
		return broker, nil
	}
	op := what.op + ": find the coordinator"
	res, err := c.roundTrip(ctx, wire.AnyBroker,
		&findcoordinator.Request{Key: what.to.key, KeyType: int8(what.to.kind)})
	if err != nil {
		return 0, &Error{Op: op, Remedy: Retriable, Hint: wire.ReachHint(c.client, err), Err: err}
	}
	found, ok := res.(*findcoordinator.Response)
	if !ok {
		return 0, unexpected(op, res)
	}
	if found.ErrorCode != 0 {
		return 0, refused(op, nil, kafka.Error(found.ErrorCode))
	}
	c.coordinators[what.to] = found.NodeID
	return found.NodeID, nil
}

// gaveUp adds to the last error why no other attempt was made.
func gaveUp(ctx context.Context, last *Error) *Error {
	given := *last
	given.Err = fmt.Errorf("%w; last: %w", context.Cause(ctx), last.Err)
	return &given
}

// unexpected returns the error for an answer of the wrong type, which a broken transport gives.
func unexpected(op string, res protocol.Message) *Error {
	return &Error{Op: op, Remedy: Fatal, Err: fmt.Errorf("the transport answered with %T", res)}
}
