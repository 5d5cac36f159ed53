package topics

import (
	"fmt"
	"strings"
)

// ACL is what a principal may do with one resource of a cluster.
type ACL struct {
	Resource   string // Group, Topic or TransactionalId, as Kafka calls them
	Name       string
	Prefixed   bool     // all resources whose name begins with Name
	Operations []string // as Kafka calls them
}

// ACLs lists the rights that "geodither run" needs, and no others. Write and Read imply Describe.
// A transactional id that may be written needs no IdempotentWrite of the cluster (KAFKA-5259). With
// Topics.Create the service makes topics, and Create is among the rights.
func (c Cluster) ACLs() []ACL {
	t := c.WithDefaults().Topics
	acls := []ACL{
		{Resource: "Group", Name: c.Group, Operations: []string{"Read"}},
		// One transactional id for each partition: GROUP/TOPIC/PARTITION.
		{
			Resource: "TransactionalId", Name: c.Group + "/", Prefixed: true,
			Operations: []string{"Write"},
		},
		{Resource: "Topic", Name: t.Raw, Operations: []string{"Read", "DescribeConfigs"}},
	}
	for _, name := range append([]string{t.Changelog}, t.Outputs()...) {
		acls = append(acls, ACL{
			Resource: "Topic", Name: name, Operations: []string{"Read", "Write", "DescribeConfigs"},
		})
	}
	if !t.Create {
		return acls
	}
	for i := range acls {
		made := acls[i].Resource == "Topic" && (acls[i].Name != t.Raw || t.Partitions > 0)
		if made {
			acls[i].Operations = append(acls[i].Operations, "Create")
		}
	}
	return acls
}

// KafkaACLs writes rights as commands of Kafka's own kafka-acls.sh, one for each resource.
func KafkaACLs(acls []ACL, brokers []string, principal string) string {
	option := map[string]string{
		"Group": "--group", "Topic": "--topic", "TransactionalId": "--transactional-id",
	}
	var b strings.Builder
	for _, a := range acls {
		fmt.Fprintf(&b, "kafka-acls.sh --bootstrap-server %s --add --allow-principal %s",
			shell(strings.Join(brokers, ",")), shell(principal))
		for _, operation := range a.Operations {
			fmt.Fprintf(&b, " --operation %s", operation)
		}
		fmt.Fprintf(&b, " %s %s", option[a.Resource], shell(a.Name))
		if a.Prefixed {
			b.WriteString(" --resource-pattern-type prefixed")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// shell quotes a word for a shell, where it needs it.
func shell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("._-/:,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// StrimziACLs writes rights as a KafkaUser of the Strimzi operator, for an Apache Kafka with simple
// authorization. The user is the name of a principal without "User:".
func StrimziACLs(acls []ACL, cluster, user string) string {
	kinds := map[string]string{
		"Group": "group", "Topic": "topic", "TransactionalId": "transactionalId",
	}
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: %s
  labels: {strimzi.io/cluster: %s}
spec:
  authentication: {type: tls}
  authorization:
    type: simple
    acls:
`, user, cluster)
	for _, a := range acls {
		pattern := "literal"
		if a.Prefixed {
			pattern = "prefix"
		}
		fmt.Fprintf(&b, "      - resource: {type: %s, name: %q, patternType: %s}\n"+
			"        operations: [%s]\n",
			kinds[a.Resource], a.Name, pattern, strings.Join(a.Operations, ", "))
	}
	return b.String()
}
