package consumer

import (
	"slices"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
)

// nearCluster has three brokers, whose leader names another one to clients of rack b.
type nearCluster struct {
	*harness
	leader, near int32

	mu      sync.Mutex
	healthy bool    // the near replica answers
	asked   []int32 // by fetches
}

func newNearCluster(t *testing.T) *nearCluster {
	t.Helper()
	c := &nearCluster{harness: newHarness(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))}
	c.Client.Transport = &wire.Transport{Transport: &kafka.Transport{}, Rack: "b"}
	c.Write(c.Writer(""), "t", 0, "one", "two")
	c.leader = c.LeaderFor("t", 0)
	c.near = (c.leader + 1) % 3
	c.ControlKey(int16(kmsg.Fetch), func(k kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req, node := k.(*kmsg.FetchRequest), c.CurrentNode()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, node)
		res := req.ResponseKind().(*kmsg.FetchResponse)
		part := kmsg.NewFetchResponseTopicPartition()
		switch {
		case node == c.leader && req.Rack == "b":
			part.PreferredReadReplica = c.near
		case node == c.near && c.healthy:
			part.HighWatermark, part.LastStableOffset = 2, 2
		case node == c.near:
			part.ErrorCode = kerr.OffsetOutOfRange.Code
		default:
			return nil, nil, false
		}
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = "t", append(topic.Partitions, part)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	return c
}

// fetch makes one call, and wants the brokers that were asked for it.
func (c *nearCluster) fetch(f *Fetcher, want ...int32) Fetched {
	c.Helper()
	c.asked = nil
	got, err := f.Fetch(c.Context(), 0)
	c.OK(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.asked, want) {
		c.Errorf("brokers %v were asked, want %v (the leader is %d)", c.asked, want, c.leader)
	}
	return got
}

// TestNearReplica: a client with a rack reads from the replica that the leader names, until that
// fails; then the leader answers, and is not asked for another replica for a while.
func TestNearReplica(t *testing.T) {
	c := newNearCluster(t)
	f := c.fetcher("t", 0, FetcherOptions{})
	c.healthy = true
	c.fetch(f, c.leader, c.near)
	c.fetch(f, c.near)
	c.healthy = false
	if got := c.fetch(f, c.near, c.leader); len(got.Records) != 2 {
		t.Errorf("%d records, want 2", len(got.Records))
	}
	c.healthy = true
	c.fetch(f, c.leader)
	f.nearUntil = time.Time{} // the pause is over
	c.fetch(f, c.leader, c.near)
	f.nearUntil = time.Time{} // and so is the replica's time
	c.fetch(f, c.leader, c.near)
}

// TestWithoutRack: a client that has no rack, or is in another one, reads from the leader.
func TestWithoutRack(t *testing.T) {
	for _, rack := range []string{"", "a"} {
		c := newNearCluster(t)
		c.Client.Transport.(*wire.Transport).Rack = rack
		if got := c.fetch(c.fetcher("t", 0, FetcherOptions{}), c.leader); len(got.Records) != 2 {
			t.Errorf("rack %q: %d records, want 2", rack, len(got.Records))
		}
	}
}
