//go:build kafka

package kafkatest

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alter sets one setting of a topic or, with an empty name, of all brokers.
func (h *harness) alter(topic, key, value string) {
	h.Helper()
	h.ok(h.tryAlter(topic, key, &value))
}

func (h *harness) tryAlter(topic, key string, value *string) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	if topic == "" {
		resource.ResourceType = kmsg.ConfigResourceTypeBroker
	}
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, value
	if value == nil {
		config.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	resource.Configs = append(resource.Configs, config)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	res, err := req.RequestWith(h.Context(), h.admin)
	if err != nil {
		return err
	}
	for _, r := range res.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("set %s of %q: %w", key, topic, err)
		}
	}
	return nil
}

// dynamic changes a setting of all brokers and leaves it: tests that run at the
// same time may want the same.
func (h *harness) dynamic(key, value string) {
	h.Helper()
	h.alter("", key, value)
}

// deleteRecords moves the start of a partition's log.
func (h *harness) deleteRecords(topic string, partition int32, before int64) {
	h.Helper()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, before
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, t)
	h.eventually("the records are deleted", func() bool {
		// Right after a change of the topic's policy the broker may still refuse.
		res, err := req.RequestWith(h.Context(), h.admin)
		h.ok(err)
		code := res.Topics[0].Partitions[0].ErrorCode
		if code != 0 && code != kerr.PolicyViolation.Code {
			h.ok(kerr.ErrorForCode(code))
		}
		return code == 0
	})
	f := h.fetcher(topic, partition, false)
	h.eventually("the log begins there", func() bool {
		first, _, err := f.Bounds(h.Context())
		h.ok(err)
		return first == before
	})
}

// partition describes one partition as the cluster sees it, or as one of its
// nodes does: others may be frozen.
func (h *harness) partition(topic string, partition int32,
	node ...int32,
) kmsg.MetadataResponseTopicPartition {
	h.Helper()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, t)
	var to kmsg.Requestor = h.admin
	if len(node) > 0 {
		to = h.admin.Broker(int(node[0]))
	}
	res, err := req.RequestWith(h.Context(), to)
	h.ok(err)
	for _, p := range res.Topics[0].Partitions {
		if p.Partition == partition {
			return p
		}
	}
	h.Fatalf("%s has no partition %d", topic, partition)
	panic("unreachable")
}

// coordinator is the node in charge of a group (kind 0) or a transactional id
// (kind 1).
func (h *harness) coordinator(key string, kind int8) int32 {
	h.Helper()
	node := int32(-1)
	h.eventually("the coordinator is known", func() bool {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = key, kind, []string{key}
		res, err := req.RequestWith(h.Context(), h.admin)
		h.ok(err)
		node = res.NodeID
		if len(res.Coordinators) > 0 {
			node = res.Coordinators[0].NodeID
		}
		return node >= 0
	})
	return node
}

// since is for the log: how long something took.
func since(start time.Time) time.Duration { return time.Since(start).Round(time.Millisecond) }

// producers are the producer ids that a partition remembers.
func (h *harness) producers(topic string, partition int32) []int64 {
	h.Helper()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(h.Context(), h.admin)
	h.ok(err)
	p := res.Topics[0].Partitions[0]
	h.ok(kerr.ErrorForCode(p.ErrorCode))
	ids := []int64{}
	for _, active := range p.ActiveProducers {
		ids = append(ids, active.ProducerID)
	}
	return ids
}

// knows reports whether the coordinator knows a transactional id.
func (h *harness) knows(id string) bool {
	h.Helper()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	res, err := req.RequestWith(h.Context(), h.admin)
	h.ok(err)
	code := res.TransactionStates[0].ErrorCode
	if code != 0 && code != kerr.TransactionalIDNotFound.Code {
		h.ok(kerr.ErrorForCode(code))
	}
	return code == 0
}

// transactionalIDs are all that the cluster knows.
func (h *harness) transactionalIDs() []string {
	h.Helper()
	req := kmsg.NewPtrListTransactionsRequest()
	var ids []string
	for _, shard := range h.admin.RequestSharded(h.Context(), req) {
		h.ok(shard.Err)
		for _, s := range shard.Resp.(*kmsg.ListTransactionsResponse).TransactionStates {
			ids = append(ids, s.TransactionalID)
		}
	}
	return ids
}
