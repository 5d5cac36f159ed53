package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
)

// Ping reads the cluster's metadata once. Its error names the brokers if none
// of them could be reached.
func Ping(ctx context.Context, client *kafka.Client, o wire.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	_, err := wire.Metadata(ctx, client, o.WithDefaults())
	return err
}

// ClusterID returns the id that the cluster gave itself when it was made, empty
// if its brokers do not tell.
func ClusterID(ctx context.Context, client *kafka.Client, o wire.Options) (string, error) {
	if err := o.Validate(); err != nil {
		return "", err
	}
	o = o.WithDefaults()
	var id string
	err := o.Retry(ctx, func(ctx context.Context) error {
		res, err := wire.Metadata(ctx, client, o)
		if err == nil {
			id = res.ClusterID
		}
		return err
	})
	return id, err
}

// Partitions returns the number of partitions of each topic. Topics that do not
// exist are a MissingTopicsError that lists all of them, at once: whoever has
// just created one waits for it there.
func Partitions(ctx context.Context, client *kafka.Client, o wire.Options, topics ...string) (map[string]int, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	counts := make(map[string]int, len(topics))
	if len(topics) == 0 {
		return counts, nil // to name none would ask for all
	}
	err := o.Retry(ctx, func(ctx context.Context) error {
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
		if len(missing) > 0 {
			slices.Sort(missing)
			return &MissingTopicsError{missing}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// Topics returns the names of all topics that this client may see, sorted, without
// those that Kafka keeps for itself.
func Topics(ctx context.Context, client *kafka.Client, o wire.Options) ([]string, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	var names []string
	err := o.Retry(ctx, func(ctx context.Context) error {
		res, err := wire.Metadata(ctx, client, o) // to name none asks for all
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

// CoPartitioned checks that all topics exist and have as many partitions as the
// first one, and returns that number. The error is a MissingTopicsError or a
// PartitionsError.
func CoPartitioned(ctx context.Context, client *kafka.Client, o wire.Options, topics ...string) (int, error) {
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

// Topic is a topic as it should be.
type Topic struct {
	Name       string
	Partitions int
	// Replication is the number of replicas of each partition, 0 the broker's
	// default.
	Replication int
	// Configs are settings that the topic must have, such as cleanup.policy.
	// Those that it has beside them are left alone.
	Configs map[string]string
	// Initial are settings that a topic gets when it is made here. A topic that
	// exists may have others.
	Initial map[string]string
}

// CreateTopics makes sure that topics exist as described. Those that exist are
// not changed; if one has another number of partitions or another value of one
// of Configs, the error is a PartitionsError or ConfigError. Safe to repeat, and
// to call from several processes at once.
func CreateTopics(ctx context.Context, client *kafka.Client, o wire.Options, topics ...Topic) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o = o.WithDefaults()
	for _, t := range topics {
		if err := o.Retry(ctx, func(ctx context.Context) error { return create(ctx, client, o, t) }); err != nil {
			return err
		}
		if err := o.Retry(ctx, func(ctx context.Context) error { return verify(ctx, client, o, t) }); err != nil {
			return err
		}
	}
	return nil
}

// create asks the controller for one topic; that it exists is no error.
func create(ctx context.Context, client *kafka.Client, o wire.Options, t Topic) error {
	op := "create topic " + t.Name
	meta, err := wire.Metadata(ctx, client, o, t.Name)
	if err != nil {
		return err
	}
	request := createtopics.RequestTopic{Name: t.Name, NumPartitions: int32(t.Partitions), ReplicationFactor: int16(t.Replication)}
	if t.Replication == 0 {
		request.ReplicationFactor = -1
	}
	configs := maps.Clone(t.Initial)
	if configs == nil {
		configs = map[string]string{}
	}
	maps.Copy(configs, t.Configs)
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		request.Configs = append(request.Configs, createtopics.RequestConfig{Name: name, Value: configs[name]})
	}
	res, err := wire.RoundTrip(ctx, client, &wire.Exchange{To: meta.ControllerID, Message: &createtopics.Request{
		Topics: []createtopics.RequestTopic{request}, TimeoutMs: int32(o.RequestTimeout.Milliseconds()),
	}}, o.RequestTimeout)
	if err != nil {
		return wire.Failed(client, op, err)
	}
	answer, ok := res.(*createtopics.Response)
	if !ok {
		return wire.Unexpected(op, res)
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
		return e
	}
	return nil
}

// verify compares a topic with its description. Metadata lags behind creation,
// so that a missing topic is temporary here.
func verify(ctx context.Context, client *kafka.Client, o wire.Options, t Topic) error {
	once := o
	once.RetryTimeout = o.RequestTimeout
	counts, err := Partitions(ctx, client, once, t.Name)
	var missing *MissingTopicsError
	if errors.As(err, &missing) {
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

// CheckConfigs compares settings of an existing topic, such as cleanup.policy,
// with the values they must have, and changes nothing. The first other value is
// a ConfigError. It needs the permission to describe the topic's configuration.
func CheckConfigs(ctx context.Context, client *kafka.Client, o wire.Options, topic string, configs map[string]string) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o = o.WithDefaults()
	return o.Retry(ctx, func(ctx context.Context) error { return verifyConfigs(ctx, client, o, topic, configs) })
}

// Configs reads settings of an existing topic, the broker's defaults where the
// topic has none of its own. A setting that the broker does not know is left
// out. It needs the permission to describe the topic's configuration.
func Configs(ctx context.Context, client *kafka.Client, o wire.Options, topic string, names ...string) (map[string]string, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	var have map[string]string
	err := o.Retry(ctx, func(ctx context.Context) error {
		var err error
		have, err = readConfigs(ctx, client, o, topic, names)
		return err
	})
	return have, err
}

// verifyConfigs is one attempt of CheckConfigs.
func verifyConfigs(ctx context.Context, client *kafka.Client, o wire.Options, topic string, configs map[string]string) error {
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
func readConfigs(ctx context.Context, client *kafka.Client, o wire.Options, topic string, names []string) (map[string]string, error) {
	have := make(map[string]string, len(names))
	if len(names) == 0 {
		return have, nil // to name none would ask for all
	}
	op := "read the configuration of topic " + topic
	res, err := wire.RoundTrip(ctx, client, &wire.Exchange{To: wire.AnyBroker, Message: &describeconfigs.Request{
		Resources: []describeconfigs.RequestResource{{
			ResourceType: int8(kafka.ResourceTypeTopic), ResourceName: topic, ConfigNames: names,
		}},
	}}, o.RequestTimeout)
	if err != nil {
		return nil, wire.Failed(client, op, err)
	}
	answer, ok := res.(*describeconfigs.Response)
	if !ok {
		return nil, wire.Unexpected(op, res)
	}
	for _, r := range answer.Resources {
		if code := kafka.Error(r.ErrorCode); code != 0 {
			e := wire.Refused(op, code)
			if code == kafka.TopicAuthorizationFailed {
				e.Hint = "grant this client DescribeConfigs on the topic"
			}
			return nil, e
		}
		for _, c := range r.ConfigEntries {
			have[c.ConfigName] = c.ConfigValue
		}
	}
	return have, nil
}

// MissingTopicsError lists the topics that do not exist.
type MissingTopicsError struct{ Topics []string }

// Error names them.
func (e *MissingTopicsError) Error() string {
	return fmt.Sprintf("no such topic: %s: create it, or check its name and this client's permission to see it", strings.Join(e.Topics, ", "))
}

// PartitionsError is a topic whose number of partitions is not the one needed.
type PartitionsError struct {
	Topic      string
	Have, Want int
	Like       string // the topic that it must match, empty if none
}

// Error says which number would do.
func (e *PartitionsError) Error() string {
	if e.Like != "" {
		return fmt.Sprintf("topic %s has %d partitions and %s has %d: they are written side by side and need the same number",
			e.Topic, e.Have, e.Like, e.Want)
	}
	return fmt.Sprintf("topic %s exists with %d partitions, not %d", e.Topic, e.Have, e.Want)
}

// ConfigError is a topic whose setting is not the one needed.
type ConfigError struct{ Topic, Name, Have, Want string }

// Error says what to set.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("topic %s has %s=%s and needs %s: alter its configuration", e.Topic, e.Name, e.Have, e.Want)
}
