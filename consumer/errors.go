package consumer

import (
	"errors"
	"fmt"
	"net"
	"strings"

	kafka "github.com/segmentio/kafka-go"
)

// ErrTemporary is matched by errors that may be gone the next time: a broker
// that is away, a leader that is being elected. The call that returned it has
// repeated the request for as long as Options.RetryTimeout allowed.
var ErrTemporary = errors.New("consumer: temporary")

// ErrOffsetOutOfRange is matched by the error of a fetch below the start or
// beyond the end of the log: retention or compaction has moved the start, or
// the topic was created anew. OffsetError has the details.
var ErrOffsetOutOfRange = errors.New("consumer: offset out of range")

// ErrNotMember is matched when the group's coordinator says that a generation
// is over or that the member is not in it.
var ErrNotMember = errors.New("consumer: not a current member of the group")

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

// OffsetError is a fetch outside of the log.
type OffsetError struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Error names the place and the reasons it can have.
func (e *OffsetError) Error() string {
	return fmt.Sprintf("%s/%d holds no offset %d: retention or compaction has moved its start, or the topic was created anew",
		e.Topic, e.Partition, e.Offset)
}

// Is matches ErrOffsetOutOfRange.
func (e *OffsetError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// CorruptError is a record batch that is not what a producer wrote. It is not
// temporary: the log itself is damaged, or something on the way alters it.
type CorruptError struct {
	Topic     string
	Partition int32
	Offset    int64 // base offset of the batch, or the offset asked for
	Reason    string
}

// Error names the place; it holds nothing of the record.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s/%d is corrupt at offset %d: %s: check the broker's disk and network, or start behind it",
		e.Topic, e.Partition, e.Offset, e.Reason)
}

// MissingTopicsError lists the topics that do not exist.
type MissingTopicsError struct{ Topics []string }

// Error names them.
func (e *MissingTopicsError) Error() string {
	return fmt.Sprintf("no such topic: %s: create it, or check its name and this client's permission to see it", strings.Join(e.Topics, ", "))
}

// PartitionsError is a topic whose number of partitions is not the one needed.
type PartitionsError struct {
	Topic      string
	Have, Want int
	Like       string // the topic that it must match, empty if none
}

// Error says which number would do.
func (e *PartitionsError) Error() string {
	if e.Like != "" {
		return fmt.Sprintf("topic %s has %d partitions and %s has %d: they are written side by side and need the same number",
			e.Topic, e.Have, e.Like, e.Want)
	}
	return fmt.Sprintf("topic %s exists with %d partitions, not %d", e.Topic, e.Have, e.Want)
}

// ConfigError is a topic whose setting is not the one needed.
type ConfigError struct{ Topic, Name, Have, Want string }

// Error says what to set.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("topic %s has %s=%s and needs %s: alter its configuration", e.Topic, e.Name, e.Have, e.Want)
}

// temporary reports codes that a later attempt may not see again.
func temporary(code kafka.Error) bool {
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

// refused turns a broker's answer into an error.
func refused(op string, code kafka.Error) *Error {
	e := &Error{Op: op, Temporary: temporary(code), Err: code}
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

// failed turns a lost exchange into an error, and names the brokers if none of
// them could be reached.
func failed(client *kafka.Client, op string, err error) *Error {
	e := &Error{Op: op, Temporary: true, Err: err}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && client.Addr != nil {
		e.Hint = fmt.Sprintf("cannot reach any of %s: is Kafka running there?", client.Addr)
	}
	return e
}
