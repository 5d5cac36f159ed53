//go:build kafka

package kafkatest

import (
	"github.com/geodither/geodither/producer"
)

// member is who commits offsets: the zero value with generation -1 is nobody in
// particular.
type member struct {
	generation     int32
	id, instanceID string
}

func (h *harness) commitOffsets(p *producer.Transactional, group string, m member,
	offsets map[producer.TopicPartition]int64,
) error {
	by := producer.Member{
		Group: group, Generation: m.generation, MemberID: m.id, InstanceID: m.instanceID,
	}
	return p.CommitOffsets(h.Context(), by, offsets)
}
