package producer

import (
	"context"
	"slices"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// lead makes sure that the leader of every parcel is known.
func (s *sender) lead(ctx context.Context, parcels []*parcel) *Error {
	var topics []string
	missing := false
	for _, p := range parcels {
		if _, ok := s.leaders[p.to]; !ok {
			missing = true
		}
		if !slices.Contains(topics, p.to.Topic) {
			topics = append(topics, p.to.Topic)
		}
	}
	if !missing {
		return nil
	}
	res, err := s.metadata(ctx, topics)
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, part := range t.Partitions {
			if tp := (TopicPartition{t.Name, part.PartitionIndex}); part.LeaderID >= 0 {
				s.leaders[tp] = part.LeaderID
			}
		}
	}
	for _, p := range parcels {
		if _, ok := s.leaders[p.to]; !ok {
			return refused("produce", &p.to, kafka.UnknownTopicOrPartition)
		}
	}
	return nil
}

// metadata asks a broker, not the transport's cache.
func (s *sender) metadata(ctx context.Context, topics []string) (*metadata.Response, *Error) {
	var res *metadata.Response
	err := s.once(ctx, call{
		op: "find partition leaders",
		message: func() protocol.Message {
			return &metadata.Request{TopicNames: topics}
		},
		answer: func(m protocol.Message) (kafka.Error, *TopicPartition) {
			var ok bool
			if res, ok = m.(*metadata.Response); !ok {
				return kafka.Unknown, nil
			}
			for _, t := range res.Topics {
				if code := kafka.Error(t.ErrorCode); code != 0 && remedyOfCode(code) != Retriable {
					return code, &TopicPartition{Topic: t.Name}
				}
			}
			return 0, nil
		},
	})
	if err != nil {
		err.Uncertain = false // reading changes nothing
	}
	return res, err
}

// byLeader groups parcels by their leader, in the order of their appearance, and
// starts another group where a request would grow too large.
func (s *sender) byLeader(parcels []*parcel) [][]*parcel {
	var groups [][]*parcel
	open := map[int32]int{} // leader: its last group
	size := map[int32]int{}
	for _, p := range parcels {
		leader := s.leaders[p.to]
		i, ok := open[leader]
		if !ok || size[leader]+len(p.frame) > maxRequestBytes {
			i = len(groups)
			groups = append(groups, nil)
			open[leader], size[leader] = i, 0
		}
		groups[i] = append(groups[i], p)
		size[leader] += len(p.frame)
	}
	return groups
}
