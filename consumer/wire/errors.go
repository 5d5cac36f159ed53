package wire

import (
	"errors"
	"fmt"
	"net"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// ErrTemporary is matched by errors that may be gone the next time: a broker
// that is away, a leader that is being elected. The call that returned it has
// repeated the request for as long as Options.RetryTimeout allowed.
var ErrTemporary = errors.New("consumer: temporary")

// Error is a request that failed. It unwraps to the cause, a kafka.Error where
// the broker gave one.
type Error struct {
	Op        string // the request, with its topic and partition
	Temporary bool
	Hint      string // what a person can do, empty if nothing
	Err       error
}

// Error says what failed, why, and what to do.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v", e.Op, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches ErrTemporary.
func (e *Error) Is(target error) bool { return target == ErrTemporary && e.Temporary }

// Temporary reports codes that a later attempt may not see again.
func Temporary(code kafka.Error) bool {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.ReplicaNotAvailable,
		kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.OffsetNotAvailable, kafka.KafkaStorageError, kafka.UnknownTopicID,
		kafka.RequestTimedOut, kafka.NetworkException, kafka.BrokerNotAvailable, kafka.ThrottlingQuotaExceeded,
		kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup,
		kafka.UnstableOffsetCommit, kafka.NotController:
		return true
	}
	return false
}

// Refused turns a broker's answer into an error.
func Refused(op string, code kafka.Error) *Error {
	e := &Error{Op: op, Temporary: Temporary(code), Err: code}
	switch code {
	case kafka.TopicAuthorizationFailed:
		e.Hint = "grant this client Read and Describe on the topic"
	case kafka.GroupAuthorizationFailed:
		e.Hint = "grant this client Read on the consumer group"
	case kafka.ClusterAuthorizationFailed:
		e.Hint = "grant this client Create on the cluster, or create the topic yourself"
	case kafka.UnknownTopicOrPartition:
		e.Hint = "does the topic exist, with that many partitions?"
	}
	return e
}

// Failed turns a lost exchange into an error, and names the brokers if none of
// them could be reached.
func Failed(client *kafka.Client, op string, err error) *Error {
	e := &Error{Op: op, Temporary: true, Err: err}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && client.Addr != nil {
		e.Hint = fmt.Sprintf("cannot reach any of %s: is Kafka running there?", client.Addr)
	}
	return e
}

// Unexpected is an answer of another type than the request's: a broken
// transport.
func Unexpected(op string, res protocol.Message) *Error {
	return &Error{Op: op, Err: fmt.Errorf("the transport answered with %T", res)}
}

// CutShort is an answer that ends in the middle of a field.
func CutShort(op string) *Error {
	return &Error{Op: op, Temporary: true, Err: errors.New("the broker's answer is cut short")}
}
