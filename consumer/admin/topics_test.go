package admin

import (
	"errors"
	"slices"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

func TestCreateTopics(t *testing.T) {
	h := wiretest.New(t)
	compact := Topic{
		Name: "log", Partitions: 4, Replication: 1,
		Configs: map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"},
	}
	for range 3 { // safe to repeat
		h.OK(CreateTopics(t.Context(), h.Client, wiretest.Quick, compact,
			Topic{Name: "out", Partitions: 4}))
	}
	counts, err := Partitions(t.Context(), h.Client, wiretest.Quick, "log", "out")
	h.OK(err)
	if counts["log"] != 4 || counts["out"] != 4 || len(counts) != 2 {
		t.Errorf("counts %v", counts)
	}
	n, err := CoPartitioned(t.Context(), h.Client, wiretest.Quick, "in", "log", "out")
	h.OK(err)
	if n != 4 {
		t.Errorf("%d partitions", n)
	}

	err = CreateTopics(t.Context(), h.Client, wiretest.Quick, Topic{Name: "log", Partitions: 5})
	var count *PartitionsError
	if !errors.As(err, &count) || *count != (PartitionsError{Topic: "log", Have: 4, Want: 5}) {
		t.Errorf("another number of partitions: %v", err)
	}
	err = CreateTopics(t.Context(), h.Client, wiretest.Quick,
		Topic{Name: "out", Partitions: 4, Configs: map[string]string{"cleanup.policy": "compact"}})
	var config *ConfigError
	if !errors.As(err, &config) ||
		*config != (ConfigError{"out", "cleanup.policy", "delete", "compact"}) {
		t.Errorf("another policy: %v", err)
	}
}

func TestMissingAndMismatchedTopics(t *testing.T) {
	h := wiretest.New(t)
	h.OK(h.CreateTopic("two", 2, nil))
	_, err := CoPartitioned(t.Context(), h.Client, wiretest.Quick, "in", "missing", "absent")
	var missing *MissingTopicsError
	if !errors.As(err, &missing) || !slices.Equal(missing.Topics, []string{"absent", "missing"}) {
		t.Errorf("missing topics: %v", err)
	}
	_, err = CoPartitioned(t.Context(), h.Client, wiretest.Quick, "in", "two")
	var count *PartitionsError
	if !errors.As(err, &count) || *count != (PartitionsError{"two", 2, 4, "in"}) {
		t.Errorf("mismatched topics: %v", err)
	}
	names, err := Topics(t.Context(), h.Client, wiretest.Quick)
	if err != nil || !slices.Contains(names, "two") || !slices.Contains(names, "in") ||
		!slices.IsSorted(names) {
		t.Errorf("the topics are %v, %v", names, err)
	}
	if counts, err := Partitions(t.Context(), h.Client, wiretest.Quick); err != nil ||
		len(counts) != 0 {
		t.Errorf("no topic: %v, %v", counts, err)
	}
}

func TestCreateTopicsRepeatsAndRefuses(t *testing.T) {
	h := wiretest.New(t)
	h.Refuse(kmsg.CreateTopics, 41, 2)
	h.OK(CreateTopics(t.Context(), h.Client, wiretest.Quick, Topic{Name: "a", Partitions: 1}))
	h.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: nil})
	if err := CreateTopics(t.Context(), h.Client, wiretest.Quick,
		Topic{Name: "b", Partitions: 1}); err == nil {
		t.Error("an unknown error is taken for success")
	}
	h.Refuse(kmsg.CreateTopics, 31, 1)
	err := CreateTopics(t.Context(), h.Client, wiretest.Quick, Topic{Name: "c", Partitions: 1})
	h.Is(err, kafka.ClusterAuthorizationFailed)
	if err := CreateTopics(t.Context(), h.Client, wire.Options{MinBackoff: -1},
		Topic{}); err == nil {
		t.Error("bad options are accepted")
	}
}

func TestCheckConfigs(t *testing.T) {
	h := wiretest.New(t)
	h.OK(h.CreateTopic("log", 1, map[string]string{"cleanup.policy": "compact"}))
	check := func(topic string, configs map[string]string) error {
		return CheckConfigs(t.Context(), h.Client, wiretest.Quick, topic, configs)
	}
	compacted := map[string]string{"cleanup.policy": "compact"}
	h.OK(check("log", compacted))
	h.OK(check("log", nil))
	var config *ConfigError
	if err := check("in", compacted); !errors.As(err, &config) ||
		*config != (ConfigError{"in", "cleanup.policy", "delete", "compact"}) {
		t.Errorf("another policy: %v", err)
	}
	if err := check("log", map[string]string{"no.such.setting": "1"}); !errors.As(err, &config) ||
		config.Have != "" {
		t.Errorf("a setting that the broker does not name passes: %v", err)
	}
	h.Refuse(kmsg.DescribeConfigs, 41, 1) // asked again
	h.OK(check("log", compacted))
	h.Refuse(kmsg.DescribeConfigs, 29, 1)
	err := check("log", compacted)
	h.Is(err, kafka.TopicAuthorizationFailed)
	var refusal *wire.Error
	if !errors.As(err, &refusal) || refusal.Hint == "" {
		t.Errorf("a missing permission comes without a hint: %v", err)
	}
	if err := CheckConfigs(t.Context(), h.Client, wire.Options{MinBackoff: -1}, "log",
		nil); err == nil {
		t.Error("bad options are accepted")
	}
}
