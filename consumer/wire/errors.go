package wire

import (
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
)

// ErrTemporary matches errors that may be gone the next time, such as a broker that is away or a
// leader that is being elected. The call that returned the error has already repeated the request
// for Options.RetryTimeout.
var ErrTemporary = errors.New("consumer: temporary")

// Error is a request that failed. It unwraps to the cause, which is a kafka.Error where the
// broker gave one.
type Error struct {
	Op        string // the request, with its topic and partition
	Temporary bool   // a later attempt may succeed
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

// Temporary reports whether a later attempt may get another answer than this code.
func Temporary(code kafka.Error) bool {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition,
		kafka.ReplicaNotAvailable, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch,
		kafka.OffsetNotAvailable, kafka.KafkaStorageError, kafka.UnknownTopicID,
		kafka.RequestTimedOut, kafka.NetworkException, kafka.BrokerNotAvailable,
		kafka.ThrottlingQuotaExceeded, kafka.GroupLoadInProgress,
		kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup,
		kafka.UnstableOffsetCommit, kafka.NotController:
		return true
	}
	return false
}

// Refused returns the error for a code that a broker answered.
func Refused(op string, code kafka.Error) *Error {
	e := &Error{Op: op, Temporary: Temporary(code), Err: code}
	switch code {
	case kafka.TopicAuthorizationFailed:
		e.Hint = "grant this client Read and Describe on the topic, or correct its name: " +
			"without these rights Kafka does not say whether a topic exists"
	case kafka.GroupAuthorizationFailed:
		e.Hint = "grant this client Read on the consumer group"
	case kafka.ClusterAuthorizationFailed:
		e.Hint = "grant this client Create on the cluster, or create the topic yourself"
	case kafka.UnknownTopicOrPartition:
		e.Hint = "does the topic exist, with that many partitions?"
	}
	return e
}

// CutShort returns the error for an answer that ends in the middle of a field, or leaves out what
// was asked for. Another attempt may get a whole one.
func CutShort(op string) *Error {
	return &Error{Op: op, Temporary: true, Err: errors.New("the broker's answer is cut short")}
}

// LinkError is a connection that a broker was reached for, and that is of no use: the broker's
// certificate is not trusted, the login is refused, or one side expects TLS and the other does not.
// A later attempt may succeed, because certificates, passwords and brokers change.
type LinkError struct {
	Broker string // host:port
	Advice string // what is wrong and what a person can do
	Err    error  // the cause, in the words of its finder
	// Unproven says that the cause may also be a broker, a proxy or a token endpoint that is
	// starting or away: it closed the connection or said nothing that refuses this client.
	Unproven bool
}

// Error says what is wrong, what to do, and the cause.
func (e *LinkError) Error() string {
	return fmt.Sprintf("broker %s: %s (%v)", e.Broker, e.Advice, e.Err)
}

// Unwrap returns the cause.
func (e *LinkError) Unwrap() error { return e.Err }

// IsLinkError reports whether an exchange failed because of its connection's TLS or login.
func IsLinkError(err error) bool { return errors.As(err, new(*LinkError)) }

// IsRefusal reports whether a broker has proven that it refuses this client for its TLS or its
// login: by a certificate that is not trusted, a TLS alert or an error code of the login.
func IsRefusal(err error) bool {
	var link *LinkError
	return errors.As(err, &link) && !link.Unproven
}
