//go:build kafka

package kafkatest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// TestEveryVersionIsTaken sends every kind of request that the service makes
// through a proxy that notes its version, and holds them against what the broker
// says that it takes.
func TestEveryVersionIsTaken(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	network := newProxy(t)
	watched := *h
	watched.client, _ = h.newClient(network.dial)

	topic := watched.topic("in", 1, nil)
	for _, instanceID := range []string{"", "instance"} {
		group := h.prefix + "group" + instanceID
		g, generation := watched.join(group, topic, instanceID)
		h.ok(generation.Check(t.Context()))
		p := watched.transactional(watched.client, "id", producer.Options{})
		watched.produce(p, topic, 0, "record")
		h.ok(watched.commitOffsets(p, group, member{generation.ID, generation.MemberID, instanceID},
			map[producer.TopicPartition]int64{at(topic, 0): 1}))
		watched.commit(p)
		if got := watched.committed(group, topic); got != 1 {
			t.Errorf("the group is at %d", got)
		}
		h.ok(g.Leave())
	}
	watched.expect(topic, 0, "record", "record")
	feed, err := producer.NewIdempotent(watched.client, producer.Options{})
	h.ok(err)
	_, err = feed.Send(t.Context(), topic, 1, batch(topic, 0, "fed").Records)
	h.ok(err)
	h.ok(admin.CheckConfigs(t.Context(), watched.client, wire.Options{}, topic,
		map[string]string{"cleanup.policy": "delete"}))
	_, err = admin.TopicIDs(t.Context(), watched.client, wire.Options{}, topic)
	h.ok(err)

	res, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), h.admin)
	h.ok(err)
	var spokenOf []string
	for what := range network.seen {
		if what.key == protocol.ApiVersions {
			continue // its answer says which versions there are, also to one that is not
		}
		i := slices.IndexFunc(res.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == int16(what.key)
		})
		if i < 0 || what.version < res.ApiKeys[i].MinVersion ||
			what.version > res.ApiKeys[i].MaxVersion {
			t.Errorf("the broker does not take %v version %d", what.key, what.version)
			continue
		}
		spokenOf = append(spokenOf, fmt.Sprintf("%v %d (of %d-%d)", what.key, what.version,
			res.ApiKeys[i].MinVersion, res.ApiKeys[i].MaxVersion))
	}
	slices.Sort(spokenOf)
	t.Log(strings.Join(spokenOf, ", "))
	for _, key := range []protocol.ApiKey{
		protocol.Produce, protocol.Fetch, protocol.ListOffsets, protocol.Metadata,
		protocol.FindCoordinator,
		protocol.JoinGroup, protocol.SyncGroup, protocol.Heartbeat, protocol.LeaveGroup,
		protocol.OffsetFetch,
		protocol.InitProducerId, protocol.AddPartitionsToTxn, protocol.AddOffsetsToTxn,
		protocol.TxnOffsetCommit, protocol.EndTxn,
		protocol.CreateTopics, protocol.DescribeConfigs,
	} {
		if !slices.ContainsFunc(spokenOf,
			func(s string) bool { return strings.HasPrefix(s, key.String()+" ") }) {
			t.Errorf("no %v was sent", key)
		}
	}
}

// TestTheNextTransactionMayComeTooSoon begins a transaction right after the last
// one. The coordinator may still be writing the markers and answers 51 then; the
// producer asks again, and the caller notices nothing.
func TestTheNextTransactionMayComeTooSoon(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic("out", 1, nil)
	const transactions = 100
	for _, pause := range []time.Duration{0, 20 * time.Millisecond} {
		client, spied := h.newClient(nil)
		p := h.transactional(client, fmt.Sprint("pause-", pause), producer.Options{})
		start := time.Now()
		for i := range transactions {
			h.produce(p, topic, 0, fmt.Sprint(pause, i))
			h.commit(p)
			time.Sleep(pause)
		}
		t.Logf("%d transactions with pauses of %v took %v: 51 in %d of %d answers to "+
			"AddPartitionsToTxn; %v", transactions, pause, since(start),
			spied.saw(kafka.ConcurrentTransactions, protocol.AddPartitionsToTxn),
			spied.count(protocol.AddPartitionsToTxn), spied)
	}
	h.settled(topic, 0)
	if got := len(h.read(topic, 0, false)); got != 2*transactions {
		t.Errorf("%d records, want %d", got, 2*transactions)
	}
}
