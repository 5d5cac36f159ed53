package consumer

import (
	"context"
	"slices"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// TopicIDs returns the ids of topics (KIP-516): a topic that is deleted and made
// anew under its old name has another one. Topics that do not exist are a
// MissingTopicsError that lists all of them, at once. Needs Kafka 2.8; an id is
// zero if the cluster gives none.
func TopicIDs(ctx context.Context, client *kafka.Client, o Options, topics ...string) (map[string][16]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	ids := make(map[string][16]byte, len(topics))
	if len(topics) == 0 {
		return ids, nil
	}
	const op = "read the ids of topics"
	err := o.retry(ctx, func(ctx context.Context) error {
		res, err := roundTrip(ctx, client, &exchange{message: topicIDs(topics), broker: anyBroker, raw: true}, o.RequestTimeout)
		if err != nil {
			return failed(client, op, err)
		}
		answer, ok := res.(*frame)
		if !ok {
			return unexpected(op, res)
		}
		return readTopicIDs(op, answer.body, ids)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// topicIDs is Metadata version 10, the first that answers with ids. kafka-go has
// 8.
type topicIDs []string

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (topicIDs) ApiKey() protocol.ApiKey { return protocol.Metadata } //nolint:revive // kafka-go's name

// encode writes:
//
//	topics array of (id 16 | name, nullable | tags) | create them 1 |
//	authorized operations of the cluster 1 | of the topics 1 | tags
func (q topicIDs) encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 10
	w := newFlexible(protocol.Metadata, version, correlationID, clientID)
	w.count(len(q))
	for _, name := range q {
		w.int32(0).int32(0).int32(0).int32(0) // by name, not by id
		w.string(name).tags()
	}
	return w.byte(0).byte(0).byte(0).tags().request(), version
}

// readTopicIDs takes:
//
//	tags | throttle 4 | brokers array of (id 4 | host | port 4 | rack, nullable |
//	  tags) | cluster id, nullable | controller 4 |
//	topics array of (error 2 | name | id 16 | internal 1 | partitions array of
//	  (error 2 | index 4 | leader 4 | epoch 4 | three arrays of 4 | tags) |
//	  authorized operations 4 | tags) | authorized operations 4 | tags
func readTopicIDs(op string, body []byte, ids map[string][16]byte) error {
	r := &reader{b: body}
	r.tags()
	r.int32() // throttle time
	for range r.compactCount(11) {
		r.int32()
		r.compactString()
		r.int32()
		r.compactString()
		r.tags()
	}
	r.compactString() // cluster id
	r.int32()         // controller
	var missing []string
	var failure *Error
	for range r.compactCount(25) {
		code := kafka.Error(r.int16())
		name := string(r.compactString())
		id := r.take(16)
		r.take(1) // internal
		for range r.compactCount(18) {
			r.take(2 + 4 + 4 + 4)
			for range 3 { // replicas: all, in sync, offline
				r.take(4 * r.compactCount(4))
			}
			r.tags()
		}
		r.int32() // authorized operations
		r.tags()
		switch {
		case r.short:
		case code == kafka.UnknownTopicOrPartition:
			missing = append(missing, name)
		case code != 0:
			failure = refused(op+": "+name, code)
		default:
			ids[name] = [16]byte(id)
		}
	}
	switch {
	case r.short:
		return cutShort(op)
	case len(missing) > 0:
		slices.Sort(missing)
		return &MissingTopicsError{missing}
	case failure != nil:
		return failure
	}
	return nil
}
