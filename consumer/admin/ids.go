package admin

import (
	"context"
	"slices"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// TopicIDs returns the ids of topics (KIP-516): a topic that is deleted and made
// anew under its old name has another one. Topics that do not exist are a
// MissingTopicsError that lists all of them, at once. Needs Kafka 2.8; an id is
// zero if the cluster gives none.
func TopicIDs(ctx context.Context, client *kafka.Client, o wire.Options, topics ...string) (map[string][16]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	ids := make(map[string][16]byte, len(topics))
	if len(topics) == 0 {
		return ids, nil
	}
	const op = "read the ids of topics"
	err := o.Retry(ctx, func(ctx context.Context) error {
		res, err := wire.RoundTrip(ctx, client, &wire.Exchange{Message: topicIDs(topics), To: wire.AnyBroker, Raw: true}, o.RequestTimeout)
		if err != nil {
			return wire.Failed(client, op, err)
		}
		answer, ok := res.(*wire.Frame)
		if !ok {
			return wire.Unexpected(op, res)
		}
		return readTopicIDs(op, answer.Body, ids)
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

// Encode writes:
//
//	topics array of (id 16 | name, nullable | tags) | create them 1 |
//	authorized operations of the cluster 1 | of the topics 1 | tags
func (q topicIDs) Encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 10
	w := wire.NewWriter(protocol.Metadata, version, correlationID, clientID)
	w.CompactCount(len(q))
	for _, name := range q {
		w.Int32(0).Int32(0).Int32(0).Int32(0) // by name, not by id
		w.CompactString(name).NoTags()
	}
	return w.Byte(0).Byte(0).Byte(0).NoTags().Request(), version
}

// readTopicIDs takes:
//
//	tags | throttle 4 | brokers array of (id 4 | host | port 4 | rack, nullable |
//	  tags) | cluster id, nullable | controller 4 |
//	topics array of (error 2 | name | id 16 | internal 1 | partitions array of
//	  (error 2 | index 4 | leader 4 | epoch 4 | three arrays of 4 | tags) |
//	  authorized operations 4 | tags) | authorized operations 4 | tags
func readTopicIDs(op string, body []byte, ids map[string][16]byte) error {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	for range r.CompactCount(11) {
		r.Int32()
		r.CompactString()
		r.Int32()
		r.CompactString()
		r.SkipTags()
	}
	r.CompactString() // cluster id
	r.Int32()         // controller
	var missing []string
	var failure *wire.Error
	for range r.CompactCount(25) {
		code := kafka.Error(r.Int16())
		name := string(r.CompactString())
		id := r.Take(16)
		r.Take(1) // internal
		for range r.CompactCount(18) {
			r.Take(2 + 4 + 4 + 4)
			for range 3 { // replicas: all, in sync, offline
				r.Take(4 * r.CompactCount(4))
			}
			r.SkipTags()
		}
		r.Int32() // authorized operations
		r.SkipTags()
		switch {
		case r.Short:
		case code == kafka.UnknownTopicOrPartition:
			missing = append(missing, name)
		case code != 0:
			failure = wire.Refused(op+": "+name, code)
		default:
			ids[name] = [16]byte(id)
		}
	}
	switch {
	case r.Short:
		return wire.CutShort(op)
	case len(missing) > 0:
		slices.Sort(missing)
		return &MissingTopicsError{missing}
	case failure != nil:
		return failure
	}
	return nil
}
