package producer

import (
	"errors"
	"fmt"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// Remedy says what a caller does about an error.
type Remedy uint8

const (
	// Retriable: nothing happened, and the producer's state has not changed. The call was repeated
	// for Options.RetryTimeout; it may be made again later.
	Retriable Remedy = iota + 1
	// Abortable: the transaction cannot be committed. Call Abort, or Init if the worker still owns
	// its partition, and do the work again.
	Abortable
	// Fenced: another producer has taken over the transactional id, or the group has moved on. Stop
	// working on this partition and make no more calls. Above all do not call Init, which would
	// fence the rightful owner.
	Fenced
	// Unknown: the producer asked for the end of the transaction and got no answer. The transaction
	// may be committed. Only Init, and then the committed offset, tell.
	Unknown
	// Fatal: repeating does not help. A person has to change something.
	Fatal
)

// String returns the remedy's name.
func (r Remedy) String() string {
	switch r {
	case Retriable:
		return "retriable"
	case Abortable:
		return "abortable"
	case Fenced:
		return "fenced"
	case Unknown:
		return "unknown outcome"
	case Fatal:
		return "fatal"
	}
	return "no remedy"
}

// One sentinel for each remedy: ask errors.Is(err, ErrFenced). ErrUnknownOutcome also matches a
// fenced commit of which an earlier answer was lost: the producer is fenced, and nobody knows
// whether it committed before.
var (
	ErrRetriable      = errors.New("producer: retriable")
	ErrAbortable      = errors.New("producer: transaction must be aborted")
	ErrFenced         = errors.New("producer: fenced")
	ErrUnknownOutcome = errors.New("producer: outcome unknown")
	ErrFatal          = errors.New("producer: fatal")
)

// ErrState matches the error of a call that the producer's state does not allow, such as Produce
// before Init. The state decides the error's remedy.
var ErrState = errors.New("producer: call not allowed in this state")

// Error is the error that every method of this package returns. It unwraps to the cause, which is a
// kafka.Error where the broker gave one.
type Error struct {
	Op     string          // the request that failed, in words
	Where  *TopicPartition // the partition it is about, nil if none
	Remedy Remedy
	// Uncertain says that the request may have taken effect all the same.
	Uncertain bool
	Hint      string // what a person can do, empty if nothing
	Err       error
}

// Error says what failed, where, why, and what to do.
func (e *Error) Error() string {
	s := e.Op
	if e.Where != nil {
		s += " to " + e.Where.String()
	}
	s = fmt.Sprintf("%s: %s: %v", s, e.Remedy, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the sentinel of the error's remedy.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrRetriable:
		return e.Remedy == Retriable
	case ErrAbortable:
		return e.Remedy == Abortable
	case ErrFenced:
		return e.Remedy == Fenced
	case ErrFatal:
		return e.Remedy == Fatal
	case ErrUnknownOutcome:
		return e.Remedy == Unknown || e.Remedy == Fenced && e.Uncertain
	}
	return false
}

// RemedyOf returns the remedy of an error of this package, 0 if it has none.
func RemedyOf(err error) Remedy {
	var e *Error
	if errors.As(err, &e) {
		return e.Remedy
	}
	return 0
}

// TooLargeError is the cause of an error about a record or batch that exceeds a limit. It is fatal,
// because the record will not shrink.
type TooLargeError struct {
	TopicPartition
	Bytes int // of the batch with the record alone in it
	Limit int // Options.MaxBatchBytes, 0 if the broker refused it
}

// Error names the topic, the size and the setting.
func (e *TooLargeError) Error() string {
	if e.Limit > 0 {
		return fmt.Sprintf("a record of %d bytes for %s exceeds the producer's limit of %d bytes "+
			"a batch: raise MaxBatchBytes, and the topic's max.message.bytes with it", e.Bytes,
			e.TopicPartition, e.Limit)
	}
	return fmt.Sprintf("the broker refused a batch of %d bytes for %s: raise the topic's "+
		"max.message.bytes (or the broker's message.max.bytes)", e.Bytes, e.TopicPartition)
}

// transactionAbortable is TRANSACTION_ABORTABLE (KIP-890), which kafka-go does
// not name.
const transactionAbortable kafka.Error = 120

// remedyOfCode classifies a broker's answer. Codes that are not listed are abortable: the producer
// gives the transaction up, and commits nothing that may be wrong.
func remedyOfCode(code kafka.Error) Remedy {
	switch code {
	case
		// Another producer has this transactional id.
		kafka.InvalidProducerEpoch, kafka.ProducerFenced,
		// The group has moved on.
		kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.FencedInstanceID,
		kafka.RebalanceInProgress,
		// The producer and the broker disagree about the log or the transaction.
		kafka.OutOfOrderSequenceNumber, kafka.InvalidTransactionState:
		return Fenced
	case kafka.ConcurrentTransactions, kafka.GroupLoadInProgress,
		kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup,
		kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition,
		kafka.FencedLeaderEpoch, kafka.UnknownTopicID, kafka.RequestTimedOut,
		kafka.NetworkException, kafka.BrokerNotAvailable, kafka.KafkaStorageError,
		kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.ThrottlingQuotaExceeded:
		return Retriable
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.TopicAuthorizationFailed,
		kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.TransactionalIDAuthorizationFailed, kafka.SASLAuthenticationFailed,
		kafka.InvalidTransactionTimeout, kafka.InvalidTopic, kafka.InvalidRecord,
		kafka.InvalidRequest, kafka.InvalidTimestamp, kafka.UnsupportedVersion,
		kafka.UnsupportedForMessageFormat, kafka.UnsupportedCompressionType, kafka.InvalidGroupId:
		return Fatal
	}
	return Abortable
}

// hintOfCode returns what a person can do about a fatal answer.
func hintOfCode(code kafka.Error) string {
	switch code {
	case kafka.TopicAuthorizationFailed:
		return "grant this client Write on the topic"
	case kafka.GroupAuthorizationFailed:
		return "grant this client Read on the consumer group"
	case kafka.TransactionalIDAuthorizationFailed:
		return "grant this client Write on the transactional id"
	case kafka.ClusterAuthorizationFailed:
		return "grant this client IdempotentWrite on the cluster"
	case kafka.InvalidTransactionTimeout:
		return "lower the transaction timeout (transaction.timeout) or raise the broker's " +
			"transaction.max.timeout.ms"
	case kafka.InvalidRecord:
		return "a record without a key, and the topic is compacted? Set its cleanup.policy=delete"
	case kafka.UnknownTopicOrPartition:
		return "does the topic exist, with that many partitions?"
	}
	return ""
}

// hintOfTimes names the setting of a topic that refuses a batch of records for their times, which
// are in milliseconds. The time that is furthest from the clock decides. Brokers take a negative
// one, which stands for none.
func hintOfTimes(first, last int64, now time.Time) string {
	at, setting, side := first, "message.timestamp.before.max.ms", "older"
	if ahead := last - now.UnixMilli(); first < 0 || ahead > now.UnixMilli()-first {
		at, setting, side = last, "message.timestamp.after.max.ms", "further ahead"
	}
	return fmt.Sprintf("a record of %s is %s than the topic takes: raise its %s, or its older "+
		"message.timestamp.difference.max.ms", time.UnixMilli(at).UTC().Format(time.RFC3339), side,
		setting)
}

// refused returns the error for a code that a broker answered.
func refused(op string, where *TopicPartition, code kafka.Error) *Error {
	return &Error{
		Op: op, Where: where, Remedy: remedyOfCode(code), Hint: hintOfCode(code), Err: code,
	}
}
