package group

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// harness is a topic and a group of their own, in a cluster in this process
// or, if GEODITHER_BROKERS names one, in a real one.
type harness struct {
	*wiretest.Harness
	group string
}

func newHarness(t *testing.T, partitions int) *harness {
	t.Helper()
	return prepare(wiretest.OwnTopic(t, shortSessions), partitions)
}

// newFakeHarness is for what only the cluster in this process can do.
func newFakeHarness(t *testing.T, partitions int) *harness {
	t.Helper()
	h := wiretest.New(t, shortSessions)
	h.Topic = "group-test"
	return prepare(h, partitions)
}

// shortSessions lets tests of silence be quick.
var shortSessions = kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "500"})

func prepare(h *wiretest.Harness, partitions int) *harness {
	h.Helper()
	h.OK(admin.CreateTopics(h.Context(), h.Client, wiretest.Quick,
		admin.Topic{Name: h.Topic, Partitions: partitions, Replication: 1}))
	return &harness{h, h.Topic}
}

// process is one member of the group, which follows it and keeps its last
// generation.
type process struct {
	*Member
	h       *harness
	network *wiretest.Network
	told    chan error
	client  *kafka.Client
	last    *Generation
}

func (h *harness) start(o Options) *process {
	h.Helper()
	p := &process{h: h, told: make(chan error, 100)}
	p.client, p.network = h.NewClient()
	o.Options, o.ID, o.Topic = wiretest.Quick, h.group, h.Topic
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
	p.Member, err = Join(p.client, o)
	h.OK(err)
	h.Cleanup(func() { p.Close() })
	return p
}

// gen waits for the next generation.
func (p *process) gen() *Generation {
	p.h.Helper()
	ctx, cancel := context.WithTimeout(p.h.Context(), wiretest.Patience)
	defer cancel()
	gen, err := p.Next(ctx)
	p.h.OK(err)
	p.last = gen
	return gen
}

// settle lets all processes follow the group until they are in the same
// generation, and have all of the topic's partitions between them.
func (h *harness) settle(partitions int, processes ...*process) []*Generation {
	h.Helper()
	began := time.Now()
	last := make([]*Generation, len(processes))
	ctx, cancel := context.WithTimeout(h.Context(), wiretest.Patience)
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
			h.Logf("%d members have settled in generation %d after %v", len(processes), last[0].ID,
				time.Since(began).Round(time.Millisecond))
			return last
		}
	}
}

// settle2 is settle for the number of partitions that the topic has.
func (h *harness) settle2(processes ...*process) []*Generation {
	h.Helper()
	counts, err := admin.Partitions(h.Context(), h.Client, wiretest.Quick, h.Topic)
	h.OK(err)
	return h.settle(counts[h.Topic], processes...)
}

// ended waits for the end of a generation and returns why.
func (h *harness) ended(gen *Generation) error {
	h.Helper()
	select {
	case <-gen.life.ctx.Done():
		return context.Cause(gen.life.ctx)
	case <-time.After(wiretest.Patience):
		h.Fatalf("generation %d does not end", gen.ID)
		return nil
	}
}

// over waits until a lease is over.
func (h *harness) over(l *Lease) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), wiretest.Patience)
	defer cancel()
	h.Is(l.await(ctx, func() bool { return false }), ErrNotMember)
}
