package consumer

import (
	"errors"
	"fmt"
)

// ErrOffsetOutOfRange matches the error of a fetch before the start or after the end of the log:
// retention or compaction has moved the start, or the topic was deleted and created again.
// OffsetError has the details.
var ErrOffsetOutOfRange = errors.New("consumer: offset out of range")

// OffsetError is a fetch outside the log.
type OffsetError struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Error names the place and the possible reasons.
func (e *OffsetError) Error() string {
	return fmt.Sprintf("%s/%d holds no offset %d: retention or compaction has moved its start, "+
		"or the topic was deleted and created again", e.Topic, e.Partition, e.Offset)
}

// Is matches ErrOffsetOutOfRange.
func (e *OffsetError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// CorruptError is a record batch that is not what a producer wrote. It is not temporary: the log
// itself is damaged, or something between it and this process alters it.
type CorruptError struct {
	Topic     string
	Partition int32
	Offset    int64 // base offset of the batch, or the offset asked for
	Reason    string
}

// Error names the place. It contains nothing of the record.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s/%d is corrupt at offset %d: %s: check the broker's disk and network, "+
		"or start after it", e.Topic, e.Partition, e.Offset, e.Reason)
}
