package topics

import (
	"strings"
	"testing"
)

// TestACLs: the rights of a service in the words of kafka-acls.sh and of Strimzi.
func TestACLs(t *testing.T) {
	c := Cluster{
		Brokers: []string{"one:9092", "two:9092"}, Group: "my group",
		Topics: Set{Raw: "fleet.raw", Sanitized: "fleet.sanitized", Changelog: "c"},
	}
	const add = "kafka-acls.sh --bootstrap-server one:9092,two:9092 --add --allow-principal User:x "
	want := []string{
		"--operation Read --group 'my group'",
		"--operation Write --transactional-id 'my group/' --resource-pattern-type prefixed",
		"--operation Read --operation DescribeConfigs --topic fleet.raw",
		"--operation Read --operation Write --operation DescribeConfigs --topic c",
		"--operation Read --operation Write --operation DescribeConfigs --topic fleet.sanitized",
		"--operation Read --operation Write --operation DescribeConfigs " +
			"--topic 'my group-dead-letters'",
	}
	if have := KafkaACLs(c.ACLs(), c.Brokers, "User:x"); have !=
		add+strings.Join(want, "\n"+add)+"\n" {
		t.Errorf("without topics.create:\n%s", have)
	}
	c.Topics.Create = true
	if have := KafkaACLs(c.ACLs(), c.Brokers, "User:x"); strings.Count(have, "Create") != 3 ||
		!strings.Contains(have, "--operation Create --topic fleet.sanitized\n") {
		t.Errorf("with topics.create:\n%s", have)
	}
	c.Topics.Partitions = 4
	if have := KafkaACLs(c.ACLs(), c.Brokers, "User:x"); !strings.
		Contains(have, "Create --topic fleet.raw\n") {
		t.Errorf("with topics.partitions:\n%s", have)
	}
	have := StrimziACLs(c.ACLs(), "fleet", "x")
	for _, want := range []string{
		"  name: x\n  labels: {strimzi.io/cluster: fleet}\n",
		"      - resource: {type: transactionalId, name: \"my group/\", patternType: prefix}\n" +
			"        operations: [Write]\n",
		"      - resource: {type: topic, name: \"c\", patternType: literal}\n" +
			"        operations: [Read, Write, DescribeConfigs, Create]\n",
	} {
		if !strings.Contains(have, want) {
			t.Errorf("no %q in:\n%s", want, have)
		}
	}
	if word := shell("it's"); word != `'it'\''s'` {
		t.Errorf("a quote in a word: %s", word)
	}
}
