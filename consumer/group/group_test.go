package group

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

func join(h *wiretest.Harness, group string) *Member {
	h.Helper()
	g, err := Join(h.Client, Options{
		Options: wire.Options{MaxBackoff: 20 * time.Millisecond}, ID: group, Topic: "in",
		HeartbeatInterval: 20 * time.Millisecond, WatchInterval: 20 * time.Millisecond,
	})
	h.OK(err)
	h.Cleanup(func() { g.Close() })
	return g
}

func next(h *wiretest.Harness, g *Member) *Generation {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 20*time.Second)
	defer cancel()
	gen, err := g.Next(ctx)
	h.OK(err)
	return gen
}

func TestGroupSharesPartitions(t *testing.T) {
	h := wiretest.New(t)
	a := join(h, "group")
	alone := next(h, a)
	if !slices.Equal(alone.Partitions, []int32{0, 1, 2, 3}) || alone.MemberID == "" {
		t.Fatalf("a member alone has %+v", alone)
	}
	h.OK(alone.Check(t.Context()))
	stopped := make(chan error, 4)
	for _, l := range alone.Leases {
		l.Start(func(ctx context.Context) {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
		})
	}

	b := join(h, "group")
	var first, second *Generation
	var wg sync.WaitGroup
	wg.Go(func() { first = next(h, a) })
	wg.Go(func() { second = next(h, b) })
	wg.Wait()
	for range 2 { // the others go on
		h.Is(<-stopped, kafka.ErrGenerationEnded)
	}
	for first.ID != second.ID { // a generation that b's arrival has already ended
		if first.ID < second.ID {
			first = next(h, a)
		} else {
			second = next(h, b)
		}
	}
	all := append(slices.Clone(first.Partitions), second.Partitions...)
	slices.Sort(all)
	if !slices.Equal(all, []int32{0, 1, 2, 3}) || len(first.Partitions) != 2 {
		t.Errorf("two members have %v and %v", first.Partitions, second.Partitions)
	}
	h.OK(first.Check(t.Context()))
	h.OK(second.Check(t.Context()))
	h.Is(alone.Check(t.Context()), ErrNotMember)
	stranger := *first
	stranger.MemberID = "somebody-else"
	h.Is(stranger.Check(t.Context()), ErrNotMember)

	if n := len(stopped); n > 0 {
		t.Errorf("%d of the partitions that stay were stopped", n)
	}

	h.OK(b.Close())
	h.Is(second.Check(t.Context()), ErrNotMember)
	if again := next(h, a); len(again.Partitions) != 4 {
		t.Errorf("after the other has left: %v", again.Partitions)
	}
	if _, err := b.Next(t.Context()); !errors.Is(err, kafka.ErrGroupClosed) {
		t.Errorf("a closed group: %v", err)
	}
}

func TestNewPartitionsBeginAGeneration(t *testing.T) {
	h := wiretest.New(t)
	g := join(h, "group")
	next(h, g)
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "in", 6
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 5000
	_, err := req.RequestWith(t.Context(), h.Writer(""))
	h.OK(err)
	if gen := next(h, g); len(gen.Partitions) != 6 {
		t.Errorf("partitions %v", gen.Partitions)
	}
}

func TestGroupWaitsForItsBrokers(t *testing.T) {
	h := wiretest.New(t)
	var told atomic.Int32
	h.Refuse(kmsg.JoinGroup, 15, 2)
	g, err := Join(h.Client, Options{
		Options: wire.Options{MaxBackoff: 5 * time.Millisecond}, ID: "group", Topic: "in",
		Retrying: func(error) { told.Add(1) },
	})
	h.OK(err)
	defer g.Close()
	next(h, g)
	if told.Load() != 2 {
		t.Errorf("told of %d errors, want 2", told.Load())
	}
}

func TestGroupErrorsForGood(t *testing.T) {
	h := wiretest.New(t)
	h.Refuse(kmsg.JoinGroup, 26, 1)
	_, err := join(h, "group").Next(t.Context())
	h.Is(err, kafka.InvalidSessionTimeout)
	if !strings.Contains(err.Error(), "group.min.session.timeout.ms") {
		t.Errorf("%v does not say what to do", err)
	}
	for _, bad := range []Options{
		{},
		{ID: "g"},
		{ID: "g", Topic: "t", SessionTimeout: time.Second, HeartbeatInterval: time.Second},
		{ID: "g", Topic: "t", Options: wire.Options{MinBackoff: -1}},
	} {
		if _, err := Join(h.Client, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestUnreachableBrokersAreNamed(t *testing.T) {
	client := &kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: &kafka.Transport{}}
	const hint = "cannot reach any of 127.0.0.1:1: is Kafka running there?"
	if err := admin.Ping(t.Context(), client, wiretest.Impatient); err == nil ||
		!strings.Contains(err.Error(), hint) {
		t.Errorf("Ping: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	g, err := Join(client, Options{Options: wiretest.Impatient, ID: "group", Topic: "in"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Next(ctx); err == nil || !strings.Contains(err.Error(), hint) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next: %v", err)
	}
	if _, err := admin.Partitions(t.Context(), client, wiretest.Impatient, "in"); err == nil ||
		!strings.Contains(err.Error(), hint) || !errors.Is(err, wire.ErrTemporary) {
		t.Errorf("Partitions: %v", err)
	}
}
