package producer

import (
	"context"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// addPartitions tells the coordinator which partitions the transaction writes
// to, those of them that it does not know yet.
func (t *Transactional) addPartitions(ctx context.Context, batches []Batch) *Error {
	var topics []addpartitionstotxn.RequestTopic
	var news []TopicPartition
	for _, b := range batches {
		if len(b.Records) == 0 || t.added[b.TopicPartition] {
			continue
		}
		t.added[b.TopicPartition] = true
		news = append(news, b.TopicPartition)
		topics = append(topics, addpartitionstotxn.RequestTopic{Name: b.Topic, Partitions: []int32{b.Partition}})
	}
	if len(news) == 0 {
		return nil
	}
	t.state = open
	err := t.sender.do(ctx, call{
		op: "add partitions to transaction", to: t.coordinator(),
		message: func() protocol.Message {
			return &addpartitionstotxn.Request{
				TransactionalID: t.session.transactionalID,
				ProducerID:      t.session.producerID, ProducerEpoch: t.session.producerEpoch,
				Topics: mergeTopics(topics),
			}
		},
		answer: addPartitionsAnswer,
	})
	t.confirmed = t.confirmed || err == nil
	return err
}

// addPartitionsAnswer returns the first refusal of a partition. One refused
// partition makes Kafka answer the others with OPERATION_NOT_ATTEMPTED, which
// says nothing.
func addPartitionsAnswer(m protocol.Message) (kafka.Error, *TopicPartition) {
	const operationNotAttempted = 55
	res, ok := m.(*addpartitionstotxn.Response)
	if !ok {
		return kafka.Unknown, nil
	}
	var code kafka.Error
	var where *TopicPartition
	for _, topic := range res.Results {
		for _, p := range topic.Results {
			if p.ErrorCode != 0 && (code == 0 || code == operationNotAttempted) {
				code, where = kafka.Error(p.ErrorCode), &TopicPartition{topic.Name, p.PartitionIndex}
			}
		}
	}
	return code, where
}

// mergeTopics lists each topic once, as the coordinator wants it.
func mergeTopics(topics []addpartitionstotxn.RequestTopic) []addpartitionstotxn.RequestTopic {
	merged := make([]addpartitionstotxn.RequestTopic, 0, len(topics))
next:
	for _, t := range topics {
		for i := range merged {
			if merged[i].Name == t.Name {
				merged[i].Partitions = append(merged[i].Partitions, t.Partitions...)
				continue next
			}
		}
		merged = append(merged, addpartitionstotxn.RequestTopic{Name: t.Name, Partitions: append([]int32(nil), t.Partitions...)})
	}
	return merged
}

// addGroup tells the coordinator that the transaction carries offsets of a group.
func (t *Transactional) addGroup(ctx context.Context, group string) *Error {
	if t.groups[group] {
		return nil
	}
	t.groups[group] = true
	t.state = open
	err := t.sender.do(ctx, call{
		op: "add offsets to transaction", to: t.coordinator(),
		message: func() protocol.Message {
			return &addoffsetstotxn.Request{
				TransactionalID: t.session.transactionalID, GroupID: group,
				ProducerID: t.session.producerID, ProducerEpoch: t.session.producerEpoch,
			}
		},
		answer: func(m protocol.Message) (kafka.Error, *TopicPartition) {
			res, ok := m.(*addoffsetstotxn.Response)
			if !ok {
				return kafka.Unknown, nil
			}
			return kafka.Error(res.ErrorCode), nil
		},
	})
	t.confirmed = t.confirmed || err == nil
	return err
}

func offsetTopics(offsets map[TopicPartition]int64) []txnoffsetcommit.RequestTopic {
	byTopic := map[string][]txnoffsetcommit.RequestPartition{}
	for tp, offset := range offsets {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], txnoffsetcommit.RequestPartition{
			Partition: tp.Partition, CommittedOffset: offset, CommittedLeaderEpoch: -1,
		})
	}
	topics := make([]txnoffsetcommit.RequestTopic, 0, len(byTopic))
	for name, partitions := range byTopic {
		topics = append(topics, txnoffsetcommit.RequestTopic{Name: name, Partitions: partitions})
	}
	return topics
}
