package admin

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire"
)

// Ping reads the cluster's metadata once. Its error names the brokers if none of them could be
// reached.
func Ping(ctx context.Context, client *kafka.Client, o wire.Options) error {
	o, err := o.Checked()
	if err != nil {
		return err
	}
	_, err = wire.Metadata(ctx, client, o)
	return err
}

// Brokers returns the addresses, host:port, under which the cluster says that its brokers can be
// reached.
func Brokers(ctx context.Context, client *kafka.Client, o wire.Options) (all []string, err error) {
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		all = nil
		res, err := wire.Metadata(ctx, client, o)
		if err != nil {
			return err
		}
		for _, b := range res.Brokers {
			all = append(all, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		}
		return nil
	})
	return all, err
}

// ClusterID returns the id that the cluster gave itself when it was made, empty if its brokers do
// not tell.
func ClusterID(ctx context.Context, client *kafka.Client, o wire.Options) (id string, err error) {
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		res, err := wire.Metadata(ctx, client, o)
		if err == nil {
			id = res.ClusterID
		}
		return err
	})
	return id, err
}

// Topics returns the names of all topics that this client may see, sorted, without those that
// Kafka keeps for itself.
func Topics(ctx context.Context, client *kafka.Client, o wire.Options) (names []string, err error) {
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		res, err := wire.Metadata(ctx, client, o)
		if err != nil {
			return err
		}
		names = names[:0]
		for _, t := range res.Topics {
			if !t.IsInternal {
				names = append(names, t.Name)
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

// Partitions returns the number of partitions of each topic. Topics that do not exist are a
// MissingTopicsError that lists all of them. It comes at once: a caller that has just created a
// topic has waited for it there.
func Partitions(ctx context.Context, client *kafka.Client, o wire.Options, topics ...string) (
	map[string]int, error,
) {
	counts := make(map[string]int, len(topics))
	err := o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		if len(topics) == 0 {
			return nil // a request that names no topic asks for all of them
		}
		res, err := wire.Metadata(ctx, client, o, topics...)
		if err != nil {
			return err
		}
		var missing []string
		for _, t := range res.Topics {
			switch code := kafka.Error(t.ErrorCode); code {
			case 0:
				counts[t.Name] = len(t.Partitions)
			case kafka.UnknownTopicOrPartition:
				missing = append(missing, t.Name)
			default:
				return wire.Refused("read metadata of topic "+t.Name, code)
			}
		}
		return missingTopics(missing)
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// CoPartitioned checks that all topics exist and have as many partitions as the first one, and
// returns that number. The error is a MissingTopicsError or a PartitionsError.
func CoPartitioned(ctx context.Context, client *kafka.Client, o wire.Options, topics ...string) (
	int, error,
) {
	counts, err := Partitions(ctx, client, o, topics...)
	if err != nil || len(topics) == 0 {
		return 0, err
	}
	want := counts[topics[0]]
	for _, t := range topics[1:] {
		if counts[t] != want {
			return 0, &PartitionsError{Topic: t, Have: counts[t], Want: want, Like: topics[0]}
		}
	}
	return want, nil
}

// TopicIDs returns the ids of topics (KIP-516): a topic that is deleted and created again under
// its old name has another id. Topics that do not exist are a MissingTopicsError that lists all of
// them. It needs Kafka 2.8; an id is zero if the cluster gives none.
func TopicIDs(ctx context.Context, client *kafka.Client, o wire.Options, topics ...string) (
	map[string][16]byte, error,
) {
	ids := make(map[string][16]byte, len(topics))
	err := o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		if len(topics) == 0 {
			return nil
		}
		const op = "read the ids of topics"
		answer, err := wire.Ask[*wire.Frame](ctx, client, wire.Exchange{
			Op: op, Message: requestIDs(topics), To: wire.AnyBroker, Timeout: o.RequestTimeout,
		})
		if err != nil {
			return err
		}
		return readTopicIDs(op, answer.Body, ids)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// requestIDs is Metadata version 10, the first that answers with ids; kafka-go has version 8:
//
//	topics array of (id 16 | name, nullable | tags) | create them 1 |
//	authorized operations of the cluster 1 | of the topics 1 | tags
func requestIDs(topics []string) *wire.Request {
	q := wire.NewRequest(protocol.Metadata, 10).Count(len(topics))
	for _, name := range topics {
		q.Int32(0).Int32(0).Int32(0).Int32(0) // no id: the name counts
		q.String(name).End()
	}
	return q.Byte(0).Byte(0).Byte(0).End()
}

// readTopicIDs reads the answer to requestIDs:
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
	var failure error
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
		return missingTopics(missing)
	}
	return failure
}

// MissingTopicsError lists the topics that do not exist, sorted.
type MissingTopicsError struct{ Topics []string }

// missingTopics returns nil if no topic is missing.
func missingTopics(names []string) error {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return &MissingTopicsError{names}
}

// Error names the topics.
func (e *MissingTopicsError) Error() string {
	return fmt.Sprintf("no such topic: %s: create it, or check its name and this client's "+
		"permission to see it", strings.Join(e.Topics, ", "))
}

// PartitionsError is a topic that has not the number of partitions that it needs.
type PartitionsError struct {
	Topic      string
	Have, Want int
	Like       string // the topic that it must match, empty if none
}

// Error says which number would do.
func (e *PartitionsError) Error() string {
	if e.Like != "" {
		return fmt.Sprintf("topic %s has %d partitions and %s has %d: they are written side by "+
			"side and need the same number", e.Topic, e.Have, e.Like, e.Want)
	}
	return fmt.Sprintf("topic %s exists with %d partitions, not %d", e.Topic, e.Have, e.Want)
}
