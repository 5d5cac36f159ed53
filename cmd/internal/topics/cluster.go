package topics

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
)

// Set names the four topics of a service, by what they are to the one that sanitizes. All must have
// the same number of partitions: a user's records keep their partition number in each of them.
// A service that refuses no record has three.
type Set struct {
	Raw         string // read: raw fixes, keyed by user
	Sanitized   string // written: sanitized records
	Changelog   string // written and restored from: states, compacted
	DeadLetters string // written: what was refused, and why
	// NoDeadLetters says that the service refuses no record, so that it has no such topic.
	NoDeadLetters bool
	// Routed says that a record's partition in Sanitized is not that of the raw record which led to
	// it.
	Routed bool

	// Create makes the missing topics at start, with as many partitions as the
	// raw topic has. The raw topic itself is made only if Partitions says how large;
	// else it is waited for. A raw topic that is there must have Partitions if that is set.
	Create      bool
	Partitions  int // 0: whatever the raw topic has
	Replication int // default: the broker's
	// Appended says that a raw topic which is made has the times of its brokers: counts need them.
	Appended bool
	// Follows says that Raw is the output of another service, which makes it.
	Follows bool
}

// Names returns the topics, the input first.
func (t Set) Names() []string {
	return slices.Insert(append([]string{t.Raw}, t.Outputs()...), 2, t.Changelog)
}

// Outputs returns the topics that others read.
func (t Set) Outputs() []string {
	if t.NoDeadLetters {
		return []string{t.Sanitized}
	}
	return []string{t.Sanitized, t.DeadLetters}
}

// Cluster is a service's place in Kafka: where it is, and the group and the topics that
// are its own there.
type Cluster struct {
	Brokers    []string              // host:port
	Connection *kafkaconn.Connection // how to reach them; nil: in plain text, without a login
	Group      string                // consumer group; also the prefix of the transactional ids
	Topics     Set                   // Changelog and DeadLetters default to names under Group
	// TransactionTimeout is how long the broker leaves a silent instance's transaction open before
	// it aborts it. Default 15 s.
	TransactionTimeout time.Duration
}

// WithDefaults returns the cluster with what was left empty filled in.
func (c Cluster) WithDefaults() Cluster {
	c.Topics.Changelog = cmp.Or(c.Topics.Changelog, c.Group+"-changelog")
	if !c.Topics.NoDeadLetters {
		c.Topics.DeadLetters = cmp.Or(c.Topics.DeadLetters, c.Group+"-dead-letters")
	}
	c.TransactionTimeout = cmp.Or(c.TransactionTimeout, 15*time.Second)
	return c
}

// Validate reports everything that is missing or out of range, in one error, by the keys of
// the config.
func (c Cluster) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(len(c.Brokers) > 0, "brokers: name at least one host:port")
	need(c.Group != "", "group: name the consumer group")
	need(c.Topics.Raw != "", "topics.raw: name the topic of raw fixes")
	need(c.Topics.Sanitized != "", "topics.sanitized: name the topic to publish to")
	if err := kafkaconn.CheckBrokers(c.Brokers); err != nil {
		errs = append(errs, fmt.Errorf("brokers: %w", err))
	}
	need(c.Topics.Partitions >= 0 && c.Topics.Replication >= 0,
		"topics: partitions and replication must not be negative")
	need(c.TransactionTimeout == 0 || c.TransactionTimeout >= time.Millisecond,
		"transaction.timeout: must be at least 1ms")
	used, t := map[string]string{}, c.WithDefaults().Topics
	for _, named := range [][2]string{
		{"topics.raw", t.Raw},
		{"topics.sanitized", t.Sanitized},
		{"topics.changelog", t.Changelog},
		{"topics.dead_letters", t.DeadLetters},
	} {
		key, topic := named[0], named[1]
		other, taken := used[topic]
		need(!taken || topic == "", "%s: %q is already %s; give each its own topic",
			key, topic, other)
		used[topic] = key
	}
	return errors.Join(errs...)
}

// Counting returns the places of the two services that count what is in the raw topic, with
// defaults in place of an empty group and topic: the one that counts windows by raw partition into
// a topic of partial counts, and the one that publishes their totals.
func (c Cluster) Counting(group, topic string) (windows, totals Cluster) {
	t := c.Topics
	windows, totals = c, c
	windows.Group = cmp.Or(group, c.Group+"-counts")
	totals.Group = windows.Group + "-totals"
	if topic == "" && t.Sanitized != "" {
		topic = t.Sanitized + ".counts"
	}
	windows.Topics = Set{
		Raw: t.Raw, Sanitized: windows.Group + "-partial", NoDeadLetters: true, Routed: true,
		Create: t.Create, Partitions: t.Partitions, Replication: t.Replication, Appended: true,
	}
	totals.Topics = Set{
		Raw: windows.Topics.Sanitized, Sanitized: topic, NoDeadLetters: true,
		Create: t.Create, Replication: t.Replication, Follows: true,
	}
	return windows.WithDefaults(), totals.WithDefaults()
}

// TransactionalID names the producer that may write for one partition of the raw topic:
// the instance that takes the partition over fences its predecessor by it. The separator is one
// that no topic's name holds, so that two services never share an id.
func (c Cluster) TransactionalID(partition int32) string {
	return strings.Join([]string{c.Group, c.Topics.Raw, fmt.Sprint(partition)}, "/")
}

// Patience is how long to wait for open transactions to end: their timeout, and 30 s more, since
// the broker looks for expired ones only now and then.
func (c Cluster) Patience() time.Duration { return c.TransactionTimeout + 30*time.Second }

// Client returns a client of the cluster, which connects to nothing before it is used.
func (c Cluster) Client() *kafka.Client { return c.Connection.Client(c.Brokers) }

// CallPatience is how long one call to Kafka is tried again inside the client. A service tries
// again itself, and logs it.
const CallPatience = 5 * time.Second
