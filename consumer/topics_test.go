package consumer

import (
	"errors"
	"slices"
	"testing"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCreateTopics(t *testing.T) {
	h := newHarness(t)
	compact := Topic{Name: "log", Partitions: 4, Replication: 1, Configs: map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}}
	for range 3 { // safe to repeat
		h.ok(CreateTopics(t.Context(), h.client, quick, compact, Topic{Name: "out", Partitions: 4}))
	}
	counts, err := Partitions(t.Context(), h.client, quick, "log", "out")
	h.ok(err)
	if counts["log"] != 4 || counts["out"] != 4 || len(counts) != 2 {
		t.Errorf("counts %v", counts)
	}
	n, err := CoPartitioned(t.Context(), h.client, quick, "in", "log", "out")
	h.ok(err)
	if n != 4 {
		t.Errorf("%d partitions", n)
	}

	err = CreateTopics(t.Context(), h.client, quick, Topic{Name: "log", Partitions: 5})
	var count *PartitionsError
	if !errors.As(err, &count) || *count != (PartitionsError{Topic: "log", Have: 4, Want: 5}) {
		t.Errorf("another number of partitions: %v", err)
	}
	err = CreateTopics(t.Context(), h.client, quick, Topic{Name: "out", Partitions: 4, Configs: map[string]string{"cleanup.policy": "compact"}})
	var config *ConfigError
	if !errors.As(err, &config) || *config != (ConfigError{"out", "cleanup.policy", "delete", "compact"}) {
		t.Errorf("another policy: %v", err)
	}
}

func TestMissingAndMismatchedTopics(t *testing.T) {
	h := newHarness(t)
	h.ok(h.CreateTopic("two", 2, nil))
	_, err := CoPartitioned(t.Context(), h.client, quick, "in", "missing", "absent")
	var missing *MissingTopicsError
	if !errors.As(err, &missing) || !slices.Equal(missing.Topics, []string{"absent", "missing"}) {
		t.Errorf("missing topics: %v", err)
	}
	_, err = CoPartitioned(t.Context(), h.client, quick, "in", "two")
	var count *PartitionsError
	if !errors.As(err, &count) || *count != (PartitionsError{"two", 2, 4, "in"}) {
		t.Errorf("mismatched topics: %v", err)
	}
	names, err := Topics(t.Context(), h.client, quick)
	if err != nil || !slices.Contains(names, "two") || !slices.Contains(names, "in") || !slices.IsSorted(names) {
		t.Errorf("the topics are %v, %v", names, err)
	}
	if counts, err := Partitions(t.Context(), h.client, quick); err != nil || len(counts) != 0 {
		t.Errorf("no topic: %v, %v", counts, err)
	}
}

func TestCreateTopicsRepeatsAndRefuses(t *testing.T) {
	h := newHarness(t)
	h.refuse(kmsg.CreateTopics, 41, 2)
	h.ok(CreateTopics(t.Context(), h.client, quick, Topic{Name: "a", Partitions: 1}))
	h.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: nil})
	if err := CreateTopics(t.Context(), h.client, quick, Topic{Name: "b", Partitions: 1}); err == nil {
		t.Error("an unknown error is taken for success")
	}
	h.refuse(kmsg.CreateTopics, 31, 1)
	err := CreateTopics(t.Context(), h.client, quick, Topic{Name: "c", Partitions: 1})
	h.is(err, kafka.ClusterAuthorizationFailed)
	if err := CreateTopics(t.Context(), h.client, wire.Options{MinBackoff: -1}, Topic{}); err == nil {
		t.Error("bad options are accepted")
	}
}

func TestCheckConfigs(t *testing.T) {
	h := newHarness(t)
	h.ok(h.CreateTopic("log", 1, map[string]string{"cleanup.policy": "compact"}))
	check := func(topic string, configs map[string]string) error {
		return CheckConfigs(t.Context(), h.client, quick, topic, configs)
	}
	compacted := map[string]string{"cleanup.policy": "compact"}
	h.ok(check("log", compacted))
	h.ok(check("log", nil))
	var config *ConfigError
	if err := check("in", compacted); !errors.As(err, &config) || *config != (ConfigError{"in", "cleanup.policy", "delete", "compact"}) {
		t.Errorf("another policy: %v", err)
	}
	if err := check("log", map[string]string{"no.such.setting": "1"}); !errors.As(err, &config) || config.Have != "" {
		t.Errorf("a setting that the broker does not name passes: %v", err)
	}
	h.refuse(kmsg.DescribeConfigs, 41, 1) // asked again
	h.ok(check("log", compacted))
	h.refuse(kmsg.DescribeConfigs, 29, 1)
	err := check("log", compacted)
	h.is(err, kafka.TopicAuthorizationFailed)
	var refusal *wire.Error
	if !errors.As(err, &refusal) || refusal.Hint == "" {
		t.Errorf("a missing permission comes without a hint: %v", err)
	}
	if err := CheckConfigs(t.Context(), h.client, wire.Options{MinBackoff: -1}, "log", nil); err == nil {
		t.Error("bad options are accepted")
	}
}
