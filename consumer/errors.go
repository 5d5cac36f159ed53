package consumer

import (
	"errors"
	"fmt"
)

// ErrOffsetOutOfRange is matched by the error of a fetch below the start or
// beyond the end of the log: retention or compaction has moved the start, or
// the topic was created anew. OffsetError has the details.
var ErrOffsetOutOfRange = errors.New("consumer: offset out of range")

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
