package consumer

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupHarness is a topic and a group of their own, in a cluster in this process
// or, if GEODITHER_BROKERS names one, in a real one.
type groupHarness struct {
	*harness
	brokers      []string
	real         bool
	topic, group string
}

func newGroupHarness(t *testing.T, partitions int) *groupHarness {
	t.Helper()
	named := os.Getenv("GEODITHER_BROKERS")
	if named == "" {
		return newFakeGroupHarness(t, partitions)
	}
	h := &groupHarness{harness: &harness{T: t}, real: true, brokers: strings.Split(named, ",")}
	return h.prepare(partitions)
}

// newFakeGroupHarness is for what only the cluster in this process can do.
func newFakeGroupHarness(t *testing.T, partitions int) *groupHarness {
	t.Helper()
	h := &groupHarness{harness: newHarness(t, kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "500"}))}
	h.brokers = h.ListenAddrs()
	return h.prepare(partitions)
}

func (h *groupHarness) prepare(partitions int) *groupHarness {
	h.Helper()
	h.topic = fmt.Sprintf("group-test-%d", time.Now().UnixNano())
	h.group = h.topic
	h.client, h.lossy = h.newClient()
	h.ok(CreateTopics(h.Context(), h.client, quick, Topic{Name: h.topic, Partitions: partitions, Replication: 1}))
	return h
}

// newClient is one more process's, whose requests can be lost.
func (h *groupHarness) newClient() (*kafka.Client, *lossy) {
	transport := &kafka.Transport{}
	h.Cleanup(transport.CloseIdleConnections)
	network := &lossy{real: transport}
	return &kafka.Client{Addr: kafka.TCP(h.brokers...), Transport: network}, network
}

// process is one member of the group, which follows it and keeps its last
// generation.
type process struct {
	*Group
	h       *groupHarness
	network *lossy
	told    chan error
	client  *kafka.Client
	last    *Generation
}

func (h *groupHarness) start(o GroupOptions) *process {
	h.Helper()
	p := &process{h: h, told: make(chan error, 100)}
	p.client, p.network = h.newClient()
	o.Options, o.ID, o.Topic = quick, h.group, h.topic
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, 20*time.Millisecond)
	o.WatchInterval = cmp.Or(o.WatchInterval, 20*time.Millisecond)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 6*time.Second)
	o.Retrying = func(err error) {
		select {
		case p.told <- err:
		default:
		}
	}
	var err error
	p.Group, err = NewGroup(p.client, o)
	h.ok(err)
	h.Cleanup(func() { p.Close() })
	return p
}

// gen waits for the next generation.
func (p *process) gen() *Generation {
	p.h.Helper()
	ctx, cancel := context.WithTimeout(p.h.Context(), patience)
	defer cancel()
	gen, err := p.Next(ctx)
	p.h.ok(err)
	p.last = gen
	return gen
}

// patience is more than anything takes here, on a busy machine too.
const patience = 2 * time.Minute

// settle lets all processes follow the group until they are in the same
// generation, and have all of the topic's partitions between them.
func (h *groupHarness) settle(partitions int, processes ...*process) []*Generation {
	h.Helper()
	began := time.Now()
	last := make([]*Generation, len(processes))
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	for {
		for i, p := range processes {
			wait, stop := context.WithTimeout(ctx, 50*time.Millisecond)
			if p.last == nil || p.last.life.ctx.Err() != nil {
				if gen, err := p.Next(wait); err == nil {
					p.last = gen
				}
			}
			last[i] = p.last
			stop()
		}
		if ctx.Err() != nil {
			h.Fatalf("the group does not settle: %+v", last)
		}
		var all []int32
		same := true
		for _, gen := range last {
			same = same && gen != nil && gen.ID == last[0].ID && gen.life.ctx.Err() == nil
			if gen != nil {
				all = append(all, gen.Partitions...)
			}
		}
		slices.Sort(all)
		if !same || len(all) != partitions {
			time.Sleep(5 * time.Millisecond)
		}
		if same && len(all) == partitions && len(slices.Compact(all)) == partitions {
			h.Logf("%d members have settled in generation %d after %v", len(processes), last[0].ID, time.Since(began).Round(time.Millisecond))
			return last
		}
	}
}

// settle2 is settle for the number of partitions that the topic has.
func (h *groupHarness) settle2(processes ...*process) []*Generation {
	h.Helper()
	counts, err := Partitions(h.Context(), h.client, quick, h.topic)
	h.ok(err)
	return h.settle(counts[h.topic], processes...)
}

// franz is an admin client.
func (h *groupHarness) franz() *kgo.Client {
	h.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(h.brokers...))
	h.ok(err)
	h.Cleanup(c.Close)
	return c
}

// ended waits for the end of a generation and returns why.
func (h *groupHarness) ended(gen *Generation) error {
	h.Helper()
	select {
	case <-gen.life.ctx.Done():
		return context.Cause(gen.life.ctx)
	case <-time.After(patience):
		h.Fatalf("generation %d does not end", gen.ID)
		return nil
	}
}

// within fails the test unless something happens in time.
func (h *groupHarness) within(what string, happens func() bool) {
	h.Helper()
	for deadline := time.Now().Add(patience); !happens(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatalf("%s does not happen", what)
		}
	}
}
