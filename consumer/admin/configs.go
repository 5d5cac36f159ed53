package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"github.com/geodither/geodither/consumer/wire"
)

// Topic describes a topic as it should be.
type Topic struct {
	Name       string
	Partitions int
	// Replication is the number of replicas of each partition, 0 for the broker's default.
	Replication int
	// Configs are settings that the topic must have, such as cleanup.policy. CreateTopics leaves
	// all other settings alone.
	Configs map[string]string
	// Initial are settings that CreateTopics gives to a topic that it creates. A topic that exists
	// may have others.
	Initial map[string]string
}

// CreateTopics makes sure that topics exist as described. It does not change a topic that exists:
// if one has another number of partitions or another value of one of Configs, the error is a
// PartitionsError or a ConfigError. Safe to repeat, and to call from several processes at once.
func CreateTopics(ctx context.Context, client *kafka.Client, o wire.Options,
	topics ...Topic,
) error {
	for _, t := range topics {
		err := o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
			return create(ctx, client, o, t, false)
		})
		if err != nil {
			return err
		}
		err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
			return verify(ctx, client, o, t)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// create asks the controller for one topic, or only whether it would make it. That the topic exists
// is no error.
func create(ctx context.Context, client *kafka.Client, o wire.Options, t Topic, only bool) error {
	meta, err := wire.Metadata(ctx, client, o, t.Name)
	if err != nil {
		return err
	}
	for _, there := range meta.Topics {
		if there.Name == t.Name && there.ErrorCode == 0 && !only {
			return nil // to ask for it would need the right to make it
		}
	}
	request := createtopics.RequestTopic{
		Name: t.Name, NumPartitions: int32(t.Partitions), ReplicationFactor: int16(t.Replication),
	}
	if t.Replication == 0 {
		request.ReplicationFactor = -1
	}
	configs := map[string]string{}
	maps.Copy(configs, t.Initial)
	maps.Copy(configs, t.Configs)
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		request.Configs = append(request.Configs, createtopics.RequestConfig{
			Name: name, Value: configs[name],
		})
	}
	op := "create topic " + t.Name
	answer, err := wire.Ask[*createtopics.Response](ctx, client, wire.Exchange{
		Op: op, To: meta.ControllerID, Timeout: o.RequestTimeout,
		Message: &createtopics.Request{
			Topics:    []createtopics.RequestTopic{request},
			TimeoutMs: int32(o.RequestTimeout.Milliseconds()), ValidateOnly: only,
		},
	})
	if err != nil {
		return err
	}
	for _, a := range answer.Topics {
		code := kafka.Error(a.ErrorCode)
		if code == 0 || code == kafka.TopicAlreadyExists {
			continue
		}
		e := wire.Refused(op, code)
		if a.ErrorMessage != "" {
			e.Err = fmt.Errorf("%w: %s", code, a.ErrorMessage)
		}
		if code == kafka.TopicAuthorizationFailed || code == kafka.ClusterAuthorizationFailed {
			e.Hint = "grant this client Create on the topic"
		}
		return e
	}
	return nil
}

// verify compares a topic with its description. Metadata lags behind creation, so a missing topic
// is temporary here.
func verify(ctx context.Context, client *kafka.Client, o wire.Options, t Topic) error {
	once := o
	once.RetryTimeout = o.RequestTimeout
	counts, err := Partitions(ctx, client, once, t.Name)
	if errors.As(err, new(*MissingTopicsError)) {
		return &wire.Error{Op: "create topic " + t.Name, Temporary: true, Err: err}
	}
	if err != nil {
		return err
	}
	if counts[t.Name] != t.Partitions {
		return &PartitionsError{Topic: t.Name, Have: counts[t.Name], Want: t.Partitions}
	}
	return verifyConfigs(ctx, client, o, t.Name, t.Configs)
}

// CheckConfigs compares settings of an existing topic, such as cleanup.policy, with the values
// they must have, and changes nothing. The first setting with another value is a ConfigError. It
// needs the permission to describe the topic's configuration.
func CheckConfigs(ctx context.Context, client *kafka.Client, o wire.Options, topic string,
	configs map[string]string,
) error {
	return o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		return verifyConfigs(ctx, client, o, topic, configs)
	})
}

// Configs reads settings of an existing topic, with the broker's defaults where the topic has no
// value of its own. It leaves out settings that the broker does not know. It needs the permission
// to describe the topic's configuration.
func Configs(ctx context.Context, client *kafka.Client, o wire.Options, topic string,
	names ...string,
) (have map[string]string, err error) {
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) (err error) {
		have, err = readConfigs(ctx, client, o, topic, names)
		return err
	})
	return have, err
}

// BrokerConfigs reads settings of a broker, without those that it does not know. It needs the right
// DescribeConfigs on the cluster, which few clients have.
func BrokerConfigs(ctx context.Context, client *kafka.Client, o wire.Options, names ...string) (
	have map[string]string, err error,
) {
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		meta, err := wire.Metadata(ctx, client, o)
		if err != nil {
			return err
		}
		if len(meta.Brokers) == 0 {
			return wire.CutShort("list the brokers")
		}
		broker := meta.Brokers[0].NodeID
		have, err = describeConfigs(ctx, client, wire.Exchange{
			Op: fmt.Sprintf("read the configuration of broker %d", broker), To: broker,
			Timeout: o.RequestTimeout,
		}, describeconfigs.RequestResource{
			ResourceType: int8(kafka.ResourceTypeBroker), ResourceName: fmt.Sprint(broker),
			ConfigNames: names,
		})
		return err
	})
	return have, err
}

// verifyConfigs is one attempt of CheckConfigs.
func verifyConfigs(ctx context.Context, client *kafka.Client, o wire.Options, topic string,
	configs map[string]string,
) error {
	names := slices.Sorted(maps.Keys(configs))
	have, err := readConfigs(ctx, client, o, topic, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if have[name] != configs[name] {
			return &ConfigError{Topic: topic, Name: name, Have: have[name], Want: configs[name]}
		}
	}
	return nil
}

// readConfigs is one attempt of Configs.
func readConfigs(ctx context.Context, client *kafka.Client, o wire.Options, topic string,
	names []string,
) (map[string]string, error) {
	if len(names) == 0 {
		return map[string]string{}, nil // a request that names no setting asks for all of them
	}
	return describeConfigs(ctx, client, wire.Exchange{
		Op: "read the configuration of topic " + topic, To: wire.AnyBroker,
		Timeout: o.RequestTimeout,
	}, describeconfigs.RequestResource{
		ResourceType: int8(kafka.ResourceTypeTopic), ResourceName: topic, ConfigNames: names,
	})
}

// describeConfigs asks for settings of a resource by an exchange that has no message yet.
func describeConfigs(ctx context.Context, client *kafka.Client, x wire.Exchange,
	resource describeconfigs.RequestResource,
) (map[string]string, error) {
	x.Message = &describeconfigs.Request{Resources: []describeconfigs.RequestResource{resource}}
	answer, err := wire.Ask[*describeconfigs.Response](ctx, client, x)
	if err != nil {
		return nil, err
	}
	have := make(map[string]string, len(resource.ConfigNames))
	for _, r := range answer.Resources {
		switch code := kafka.Error(r.ErrorCode); code {
		case 0:
		case kafka.TopicAuthorizationFailed:
			e := wire.Refused(x.Op, code)
			e.Hint = "grant this client DescribeConfigs on the topic"
			return nil, e
		case kafka.ClusterAuthorizationFailed:
			e := wire.Refused(x.Op, code)
			e.Hint = "it needs DescribeConfigs on the cluster"
			return nil, e
		default:
			return nil, wire.Refused(x.Op, code)
		}
		for _, c := range r.ConfigEntries {
			have[c.ConfigName] = c.ConfigValue
		}
	}
	return have, nil
}

// ConfigError is a topic that has another value of a setting than it must have.
type ConfigError struct{ Topic, Name, Have, Want string }

// Error says what to set.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("topic %s has %s=%s and needs %s: alter its configuration",
		e.Topic, e.Name, e.Have, e.Want)
}
