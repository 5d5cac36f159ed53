package admin

import (
	"context"
	"errors"
	"math"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/geodither/geodither/consumer/wire"
)

// Rights are the operations on one resource that this client is authorized for (KIP-430). The zero
// value knows of none.
type Rights struct {
	known      bool
	operations int32 // a bit for each, at the number of its kafka.ACLOperationType
}

// Known reports whether a broker has told the rights. Brokers that know no authorized operations do
// not; a cluster without an authorizer tells that everything is allowed.
func (r Rights) Known() bool { return r.known }

// Denied reports whether the client is known not to have a right, by its name in Kafka, such as
// DescribeConfigs. A name that Kafka does not have panics.
func (r Rights) Denied(operation string) bool {
	var o kafka.ACLOperationType
	if err := o.UnmarshalText([]byte(operation)); err != nil {
		panic(err)
	}
	return r.known && r.operations&(1<<o) == 0
}

// told reads a bit field of authorized operations. A broker that speaks of a resource at all has
// granted Describe on it, so a field without that bit is one that was not filled in.
func told(operations int32) Rights {
	if operations < 0 || operations&(1<<kafka.ACLOperationTypeDescribe) == 0 {
		return Rights{}
	}
	return Rights{known: true, operations: operations}
}

// rightsBy reads what a broker answers on a topic or a group.
func rightsBy(op string, code int16, operations int32) (Rights, error) {
	switch code := kafka.Error(code); code {
	case 0:
		return told(operations), nil
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed:
		return nothing, nil
	default:
		return Rights{}, wire.Refused(op, code)
	}
}

// nothing are the rights of a client that may not even describe a resource: Read, Write and Delete
// bring Describe with them.
var nothing = Rights{known: true}

// TopicRights returns this client's rights to a topic. It needs none. A topic that does not exist,
// and that the client may see, is a MissingTopicsError.
func TopicRights(ctx context.Context, client *kafka.Client, o wire.Options, topic string) (
	rights Rights, err error,
) {
	op := "read this client's rights to topic " + topic
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		answer, err := wire.Ask[*metadata.Response](ctx, client, wire.Exchange{
			Op: op, To: wire.AnyBroker, Timeout: o.RequestTimeout, Message: &metadata.Request{
				TopicNames: []string{topic}, IncludeTopicAuthorizedOperations: true,
			},
		})
		if err != nil {
			return err
		}
		if len(answer.Topics) != 1 {
			return wire.CutShort(op)
		}
		t := answer.Topics[0]
		if kafka.Error(t.ErrorCode) == kafka.UnknownTopicOrPartition {
			return missingTopics([]string{topic})
		}
		rights, err = rightsBy(op, t.ErrorCode, t.TopicAuthorizedOperations)
		return err
	})
	return rights, err
}

// GroupRights returns this client's rights to a consumer group, which need not exist. It needs
// none.
func GroupRights(ctx context.Context, client *kafka.Client, o wire.Options, group string) (
	rights Rights, err error,
) {
	op := "read this client's rights to group " + group
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		broker, err := wire.FindCoordinator(ctx, client, o, group)
		if errors.Is(err, kafka.GroupAuthorizationFailed) {
			rights = nothing
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := wire.Ask[*describegroups.Response](ctx, client, wire.Exchange{
			Op: op, To: broker, Timeout: o.RequestTimeout, Message: &describegroups.Request{
				Groups: []string{group}, IncludeAuthorizedOperations: true,
			},
		})
		if err != nil {
			return err
		}
		if len(answer.Groups) != 1 {
			return wire.CutShort(op)
		}
		g := answer.Groups[0]
		rights, err = rightsBy(op, g.ErrorCode, g.AuthorizedOperations)
		return err
	})
	return rights, err
}

// MayDescribeTransactional reports whether this client has the right Describe on a transactional
// id, which Write brings with it. It only asks for the id's coordinator, so the id may be in use.
func MayDescribeTransactional(ctx context.Context, client *kafka.Client, o wire.Options,
	id string,
) (may bool, err error) {
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) (err error) {
		_, err = transactionCoordinator(ctx, client, o, id)
		return err
	})
	if errors.Is(err, kafka.TransactionalIDAuthorizationFailed) {
		return false, nil
	}
	return err == nil, err
}

// TransactionalRights returns whether this client has the rights Describe and Write on a
// transactional id that no producer has ever used.
//
// There is no request for that. So it asks to abort a transaction of the id, on behalf of a
// producer that there cannot be. A broker looks at the right first and at the id after it, so the
// answer is either that the right is missing or that the id has no such producer. Neither changes
// anything: no producer is made, and none is fenced, not even if the id were in use. InitProducerId
// would ask too, but it makes the id, and fences the producer of one that is in use.
func TransactionalRights(ctx context.Context, client *kafka.Client, o wire.Options,
	unused string,
) (rights Rights, err error) {
	op := "read this client's rights to transactional id " + unused
	const describe, write = 1 << kafka.ACLOperationTypeDescribe, 1 << kafka.ACLOperationTypeWrite
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		broker, err := transactionCoordinator(ctx, client, o, unused)
		if errors.Is(err, kafka.TransactionalIDAuthorizationFailed) {
			rights = nothing
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := wire.Ask[*endtxn.Response](ctx, client, wire.Exchange{
			Op: op, To: broker, Timeout: o.RequestTimeout, Message: &endtxn.Request{
				TransactionalID: unused, ProducerID: math.MaxInt64,
			},
		})
		if err != nil {
			return err
		}
		switch code := kafka.Error(answer.ErrorCode); code {
		case kafka.TransactionalIDAuthorizationFailed:
			rights = Rights{known: true, operations: describe}
		case kafka.InvalidProducerIDMapping:
			rights = Rights{known: true, operations: describe | write}
		default:
			return wire.Refused(op, code)
		}
		return nil
	})
	return rights, err
}

// transactionCoordinator asks a broker for the coordinator of a transactional id.
func transactionCoordinator(ctx context.Context, client *kafka.Client, o wire.Options,
	id string,
) (broker int32, err error) {
	op := "find the coordinator of transactional id " + id
	found, err := wire.Ask[*findcoordinator.Response](ctx, client, wire.Exchange{
		Op: op, To: wire.AnyBroker, Timeout: o.RequestTimeout,
		Message: &findcoordinator.Request{
			Key: id, KeyType: int8(kafka.CoordinatorKeyTypeTransaction),
		},
	})
	if err != nil {
		return 0, err
	}
	if found.ErrorCode != 0 {
		return 0, wire.Refused(op, kafka.Error(found.ErrorCode))
	}
	return found.NodeID, nil
}

// TryCreate asks whether a broker would make a topic for this client, and makes none. A topic that
// exists is no error.
func TryCreate(ctx context.Context, client *kafka.Client, o wire.Options, t Topic) error {
	return o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		return create(ctx, client, o, t, true)
	})
}
