package group

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// moved counts the partitions of the topic whose member is another one, by name.
func moved(before, after map[string][]int32) int {
	n := 0
	for name, partitions := range after {
		for _, p := range partitions {
			if !slices.Contains(before[name], p) {
				n++
			}
		}
	}
	return n
}

func byName(names string, gens []*Generation) map[string][]int32 {
	m := map[string][]int32{}
	for i, gen := range gens {
		m[names[i:i+1]] = gen.Partitions
	}
	return m
}

// TestScaling: members that come and go take no more partitions with them than
// they must, whether they have instance ids or not.
func TestScaling(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprint("static=", static), func(t *testing.T) {
			h := newHarness(t, 12)
			start := func(name string) *process {
				if static {
					return h.start(Options{InstanceID: name})
				}
				return h.start(Options{})
			}
			a := start("a")
			one := byName("a", h.settle(12, a))
			b := start("b")
			two := byName("ab", h.settle(12, a, b))
			c := start("c")
			three := byName("abc", h.settle(12, a, b, c))
			if n := moved(one, two); n != 6 {
				t.Errorf("from 1 to 2: %d partitions move, want 6: %v", n, two)
			}
			if n := moved(two, three); n != 4 {
				t.Errorf("from 2 to 3: %d partitions move, want 4: %v, %v", n, two, three)
			}
			h.OK(a.Leave()) // the leader
			four := byName("bc", h.settle(12, b, c))
			if n := moved(three, four); n != 4 {
				t.Errorf("from 3 to 2: %d partitions move, want 4: %v, %v", n, three, four)
			}
			h.OK(b.Leave())
			h.settle(12, c)
		})
	}
}

// TestRollingRestart: static members that restart one after the other find their
// partitions again, and the others do not even stop. kfake compares what a
// member says of itself when it comes back, so that it does begin a generation.
func TestRollingRestart(t *testing.T) {
	h := newHarness(t, 6)
	names := "abc"
	processes := make([]*process, len(names))
	for i := range processes {
		processes[i] = h.start(Options{InstanceID: names[i : i+1]})
	}
	first := h.settle(6, processes...)
	for i := range processes {
		h.OK(processes[i].Close())
		processes[i] = h.start(Options{InstanceID: names[i : i+1]})
		if !h.Real {
			h.settle(6, processes...)
			continue
		}
		back := processes[i].gen()
		if back.ID != first[i].ID || !slices.Equal(back.Partitions, first[i].Partitions) ||
			back.MemberID == first[i].MemberID {
			t.Errorf("%s had %v in generation %d and is back with %v in %d", names[i:i+1],
				first[i].Partitions, first[i].ID, back.Partitions, back.ID)
		}
		h.OK(back.Check(t.Context()))
		for j := range processes {
			if j > i && first[j].life.ctx.Err() != nil {
				t.Errorf("%s was stopped: %v", names[j:j+1], context.Cause(first[j].life.ctx))
			}
		}
		first[i] = back
	}
	if h.Real {
		// The member that led the group still leads it, and sees new partitions.
		h.grow(7)
		last := h.settle(7, processes...)
		if n := moved(byName(names, first), byName(names, last)); n != 1 {
			t.Errorf("one new partition moves %d: %v", n, byName(names, last))
		}
		return
	}
	if last := h.settle2(processes...); moved(byName(names, first), byName(names, last)) != 0 {
		t.Errorf("partitions have moved: %v, %v", byName(names, first), byName(names, last))
	}
}

// TestStaticRestartDuringRebalance: a static member that comes back while the
// group is changing is known by its instance id, though it says nothing of what
// it had.
func TestStaticRestartDuringRebalance(t *testing.T) {
	h := newHarness(t, 9)
	a, b := h.start(Options{InstanceID: "a"}), h.start(Options{InstanceID: "b"})
	two := byName("ab", h.settle(9, a, b))
	h.OK(b.Close())
	c := h.start(Options{InstanceID: "c"})
	b = h.start(Options{InstanceID: "b"})
	three := byName("abc", h.settle(9, a, b, c))
	if n := moved(two, three); n != 3 {
		t.Errorf("%d partitions move, want 3: %v, %v", n, two, three)
	}
}

// grow adds partitions.
func (h *harness) grow(count int32) {
	h.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = h.Topic, count
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 5000
	res, err := req.RequestWith(h.Context(), h.Franz())
	h.OK(err)
	if code := res.Topics[0].ErrorCode; code != 0 {
		h.Fatal(kafka.Error(code))
	}
}

// TestStartRejoinAndCheck: returning ends nothing, Rejoin does, and the next lease of a partition
// waits for what runs.
func TestStartRejoinAndCheck(t *testing.T) {
	h := newHarness(t, 4)
	a, b := h.start(Options{}), h.start(Options{})
	gens := h.settle(4, a, b)
	returned := make(chan struct{})
	for _, gen := range gens {
		gen.Leases[1].Start(func(context.Context) { returned <- struct{}{} })
		<-returned
		gen.Leases[1].Start(func(context.Context) { t.Error("a lease's work begins twice") })
	}
	for _, gen := range gens {
		h.OK(gen.Check(t.Context()))
		if err := gen.Leases[1].ctx.Err(); err != nil {
			t.Errorf("a function that returned has ended the lease: %v", err)
		}
	}
	for i, p := range []*process{a, b} {
		var running bool
		let := make(chan struct{})
		begun, stopped := make(chan struct{}), make(chan error, 1)
		lease := gens[i].Leases[0]
		lease.Start(func(ctx context.Context) {
			running = true
			close(begun)
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			<-let
			running = false
		})
		<-begun
		lease.Rejoin()
		lease.Rejoin()
		h.Is(<-stopped, kafka.ErrGenerationEnded)
		h.Is(lease.Check(t.Context()), ErrNotMember)
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if gen, err := p.Next(short); err == nil {
			t.Errorf("generation %d began beside work on a lease that is over", gen.ID)
		}
		cancel()
		close(let)
		again := h.settle(4, a, b)
		if running {
			t.Error("the last one's work still runs")
		}
		if !slices.Equal(again[0].Partitions, gens[0].Partitions) ||
			!slices.Equal(again[1].Partitions, gens[1].Partitions) {
			t.Errorf("joining again moves partitions: %v, %v", gens, again)
		}
		if again[i].Leases[0] == lease || again[i].Leases[1] != gens[i].Leases[1] {
			t.Error("the lease that ended goes on, or the other one does not")
		}
		h.Is(gens[i].Check(t.Context()), ErrNotMember)
		gens = again
	}
}

// TestLeasesGoOn: while a member comes and goes, work on partitions that stay is not stopped, and
// may be committed at every moment. What moves is stopped, with the reason.
func TestLeasesGoOn(t *testing.T) {
	h := newHarness(t, 4)
	a := h.start(Options{})
	gen := h.settle(4, a)[0]
	type end struct {
		partition int32
		cause     error
	}
	ends := make(chan end, 4)
	for _, l := range gen.Leases {
		l.Start(func(ctx context.Context) {
			<-ctx.Done()
			ends <- end{l.Partition, context.Cause(ctx)}
		})
	}
	before := gen.Leases
	b := h.start(Options{})
	gens := h.settle(4, a, b)
	for range 2 {
		e := <-ends
		h.Is(e.cause, errMoved)
		if !slices.Contains(gens[1].Partitions, e.partition) {
			t.Errorf("partition %d was stopped, and %v have moved", e.partition, gens[1].Partitions)
		}
	}
	stay := func(gen *Generation) (n int) {
		for _, l := range gen.Leases {
			if slices.Contains(before, l) {
				n++
				h.OK(l.Check(t.Context()))
				if by := l.Identity(); by.Generation != gen.ID || by.MemberID != gen.MemberID {
					t.Errorf("in generation %d the lease commits as %+v", gen.ID, by)
				}
			}
		}
		return n
	}
	if n := stay(gens[0]); n != 2 || len(gens[0].Leases) != 2 {
		t.Errorf("%d leases of %d go on", n, len(gens[0].Leases))
	}
	h.OK(b.Leave())
	if n := stay(h.settle(4, a)[0]); n != 2 {
		t.Errorf("%d leases go on when the other has left", n)
	}
	if len(ends) > 0 {
		t.Errorf("stopped: %v", <-ends)
	}
	h.OK(a.Leave())
	for range 2 {
		h.Is((<-ends).cause, kafka.ErrGroupClosed)
	}
}

// TestRenewed: who is refused for its generation gets the next one as soon as the coordinator has
// told, and no answer once the lease is over.
func TestRenewed(t *testing.T) {
	h := newHarness(t, 2)
	a := h.start(Options{})
	lease := h.settle(2, a)[0].Leases[0]
	old := lease.Identity()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if by, err := lease.Renewed(short, old); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in a generation that lasts: %+v, %v", by, err)
	}
	b := h.start(Options{})
	by, err := lease.Renewed(t.Context(), old)
	h.OK(err)
	if by.Generation <= old.Generation || by.MemberID != old.MemberID {
		t.Errorf("after %+v comes %+v", old, by)
	}
	h.settle(2, a, b)
	h.OK(a.Leave())
	if by, err := lease.Renewed(t.Context(), lease.Identity()); !errors.Is(err, ErrNotMember) {
		t.Errorf("after the end: %+v, %v", by, err)
	}
	h.Is(lease.Settle(t.Context()), ErrNotMember)
}

// TestOneAtATime: work on a partition that comes back waits for what still runs in this process.
func TestOneAtATime(t *testing.T) {
	m := &Member{options: Options{ID: "g"}}
	generation := func(own ...int32) *Generation {
		gen := &Generation{Partitions: own, member: m, life: &life{}}
		gen.life.ctx, gen.life.end = context.WithCancelCause(t.Context())
		m.tenancy.begin(gen, Identity{})
		return gen
	}
	var mu sync.Mutex
	var order []string
	let := map[string]chan struct{}{}
	run := func(name string, l *Lease) {
		end := make(chan struct{})
		let[name] = end
		l.Start(func(ctx context.Context) {
			<-ctx.Done()
			<-end
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
		})
	}
	first := generation(0).Leases[0]
	run("first", first)
	generation()
	run("second", generation(0).Leases[0])
	generation()
	third := generation(0).Leases[0] // while the first lease's work still runs
	run("third", third)
	if l := m.tenancy.finishing(); l != first {
		t.Errorf("still at work on a lease that is over: %+v", l)
	}
	m.tenancy.over(kafka.ErrGroupClosed)
	for _, name := range []string{"third", "second", "first"} {
		close(let[name])
	}
	<-third.returned
	if m.tenancy.finishing() != nil || fmt.Sprint(order) != "[first]" {
		t.Errorf("the order is %q; those that ended while they waited need not run", order)
	}
}

// TestCheckWaits: who asks while the group shares out, and before the heartbeat has told, gets the
// answer of the next generation.
func TestCheckWaits(t *testing.T) {
	h := newHarness(t, 4)
	a := h.start(Options{HeartbeatInterval: 2 * time.Second})
	gen := h.settle(4, a)[0]
	b := h.start(Options{})
	h.Within("the other's JoinGroup", func() bool { return b.network.Sent(protocol.JoinGroup) > 1 })
	for _, l := range gen.Leases {
		if err := l.Check(t.Context()); err != nil && !errors.Is(err, errMoved) {
			t.Errorf("partition %d: %v", l.Partition, err)
		}
	}
	if gens := h.settle(4, a, b); gens[0].ID != gen.ID+1 {
		t.Errorf("generation %d became %d", gen.ID, gens[0].ID)
	}
}

// TestOutWhileItWaits: a member that waits for work on what it has lost, and is evicted meanwhile,
// has lost the rest too. So has one whose work does not end within RebalanceTimeout.
func TestOutWhileItWaits(t *testing.T) {
	for name, patience := range map[string]time.Duration{
		"silent": time.Hour, "slow": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, 4)
			slow := h.start(Options{SessionTimeout: time.Second, RebalanceTimeout: patience})
			let := make(chan struct{})
			defer close(let)
			for _, l := range h.settle(4, slow)[0].Leases {
				l.Start(func(context.Context) { <-let })
			}
			other := h.start(Options{})
			gen := h.settle(4, slow, other)[0]
			h.start(Options{})
			h.ended(gen) // it waits now
			if name == "silent" {
				slow.network.Lose(protocol.Heartbeat, wiretest.Loss{Times: -1})
			}
			h.over(gen.Leases[0])
		})
	}
}

// TestRefusalsAreNoSignOfLife: a member that hears nothing but refusals is out after a session, by
// its own judgement.
func TestRefusalsAreNoSignOfLife(t *testing.T) {
	h := newFakeHarness(t, 4)
	p := h.start(Options{SessionTimeout: time.Second, RebalanceTimeout: time.Second})
	gen := h.settle(4, p)[0]
	h.Refuse(kmsg.JoinGroup, int16(kafka.NotCoordinatorForGroup), 1<<30)
	gen.Leases[0].Rejoin()
	h.over(gen.Leases[1])
}

// TestNoGenerationBesideWork: a member that is out joins again when work on what it had has ended.
func TestNoGenerationBesideWork(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.JoinGroup} {
		h := newFakeHarness(t, 4)
		p := h.start(Options{SessionTimeout: time.Second, RebalanceTimeout: time.Second})
		gen := h.settle(4, p)[0]
		let := make(chan struct{})
		gen.Leases[1].Start(func(context.Context) { <-let })
		h.Refuse(key, int16(kafka.UnknownMemberId), 1)
		if key == kmsg.JoinGroup {
			gen.Leases[0].Rejoin()
		}
		h.ended(gen)
		// longer than the coordinator waits for the member that it has forgotten
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if next, err := p.Next(short); err == nil {
			t.Errorf("%v: generation %d began beside work", key, next.ID)
		}
		cancel()
		close(let)
		h.settle(4, p)
	}
}

// TestWhoAsksAloneStopsNobody: a member that does not lead the group and joins
// again leaves the others alone.
func TestWhoAsksAloneStopsNobody(t *testing.T) {
	h := newHarness(t, 4)
	a, b := h.start(Options{}), h.start(Options{})
	gens := h.settle(4, a, b)
	follower, leads, of := a, gens[1], gens[0]
	if gens[0].life.lead {
		follower, leads, of = b, gens[0], gens[1]
	}
	of.Leases[0].Rejoin()
	again := follower.gen()
	if again.ID != of.ID || !slices.Equal(again.Partitions, of.Partitions) {
		t.Errorf("generation %d with %v became %d with %v", of.ID, of.Partitions, again.ID,
			again.Partitions)
	}
	h.OK(again.Check(t.Context()))
	h.OK(leads.Check(t.Context()))
	if leads.life.ctx.Err() != nil {
		t.Errorf("the leader was stopped: %v", context.Cause(leads.life.ctx))
	}
}

// TestLostConnections loses requests, or answers, of each kind, in a row.
func TestLostConnections(t *testing.T) {
	for _, key := range []protocol.ApiKey{
		protocol.FindCoordinator, protocol.JoinGroup,
		protocol.SyncGroup, protocol.Heartbeat, protocol.Metadata,
	} {
		for _, instance := range []string{"", "a"} {
			for _, drop := range []bool{false, true} {
				t.Run(fmt.Sprint(key, " static=", instance != "", " request=", drop),
					func(t *testing.T) {
						h := newHarness(t, 4)
						o := Options{InstanceID: instance}
						quiet := h.start(Options{})
						h.settle(4, quiet)
						p := h.start(o)
						p.network.Lose(key, wiretest.Loss{Times: 3, Answer: !drop})
						gens := h.settle(4, quiet, p)
						if key == protocol.Heartbeat {
							h.Within("the loss", func() bool { return p.network.Lost(key) })
							if err := gens[1].life.ctx.Err(); err != nil {
								t.Errorf("a few lost signs of life end the membership: %v", err)
							}
						}
						h.OK(gens[1].Check(t.Context()))
						h.OK(p.Leave())
					})
			}
		}
	}
}

// TestLostLeave: a coordinator that hears nothing of the leaving learns of it in
// the end, and closing takes no longer for it.
func TestLostLeave(t *testing.T) {
	h := newHarness(t, 4)
	a, b := h.start(Options{}), h.start(Options{SessionTimeout: 1500 * time.Millisecond})
	h.settle(4, a, b)
	b.network.Lose(protocol.LeaveGroup, wiretest.Loss{Times: 2})
	h.OK(b.Close())
	h.settle(4, a)
	c := h.start(Options{SessionTimeout: 1500 * time.Millisecond})
	h.settle(4, a, c)
	c.network.Lose(protocol.LeaveGroup, wiretest.Loss{Times: -1})
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "leave group") {
		t.Errorf("nobody was told, and closing says %v", err)
	}
	h.settle(4, a)
}

// TestSilence: a member that gets no answer for a session is out, by its own
// judgement, and the others have its partitions.
func TestSilence(t *testing.T) {
	h := newHarness(t, 4)
	a, b := h.start(Options{}), h.start(Options{SessionTimeout: 1500 * time.Millisecond})
	gens := h.settle(4, a, b)
	b.network.Lose(protocol.Heartbeat, wiretest.Loss{Times: -1})
	cause := h.ended(gens[1])
	h.Is(cause, kafka.ErrGenerationEnded)
	if !strings.Contains(cause.Error(), "no answer within the session timeout") {
		t.Errorf("it ended for %v", cause)
	}
	h.Is(gens[1].Check(t.Context()), ErrNotMember)
	if err := <-b.told; !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("told of %v", err)
	}
	b.network.Heal()
	h.settle(4, a, b)
}

// TestPause: a process that was stopped for longer than its session has lost its
// membership, whatever the answer that was waiting for it says.
func TestPause(t *testing.T) {
	for _, instance := range []string{"", "b"} {
		h := newHarness(t, 4)
		a, b := h.start(Options{}),
			h.start(Options{SessionTimeout: 1500 * time.Millisecond, InstanceID: instance})
		gens := h.settle(4, a, b)
		resume := b.network.Hold(protocol.Heartbeat)
		h.settle(4, a)
		if err := gens[1].life.ctx.Err(); err != nil {
			t.Errorf("a stopped process knows: %v", err)
		}
		resume()
		h.Is(h.ended(gens[1]), kafka.ErrGenerationEnded)
		h.Is(gens[1].Check(t.Context()), ErrNotMember)
		h.settle(4, a, b)
	}
}

// TestFenced: of two instances with one id the newer stays, and the older is
// told why and tries no more.
func TestFenced(t *testing.T) {
	h := newHarness(t, 4)
	old := h.start(Options{InstanceID: "one"})
	gen := h.settle(4, old)[0]
	young := h.start(Options{InstanceID: "one"})
	h.settle(4, young)
	h.ended(gen)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wiretest.Patience)
		_, err := old.Next(ctx)
		cancel()
		h.Is(err, kafka.FencedInstanceID)
		if err == nil || !strings.Contains(err.Error(),
			`another instance runs with instance_id "one"`) || errors.Is(err, wire.ErrTemporary) {
			t.Errorf("%v does not say what to do, or asks to try again", err)
		}
	}
	h.Is(gen.Check(t.Context()), ErrNotMember)
	h.OK(old.Leave()) // which takes nothing from the younger
	if gens := h.settle2(young); len(gens[0].Partitions) != 4 {
		t.Errorf("the younger has %v", gens[0].Partitions)
	}
}

// TestCloseAndLeave: a static member that closes keeps its partitions, one that
// leaves gives them up, and both are out.
func TestCloseAndLeave(t *testing.T) {
	h := newHarness(t, 4)
	a, b := h.start(Options{}), h.start(Options{InstanceID: "b"})
	gens := h.settle(4, a, b)
	h.OK(b.Close())
	h.OK(b.Close())
	h.Is(gens[1].Check(t.Context()), ErrNotMember)
	h.OK(gens[0].Check(t.Context()))
	if gens[0].life.ctx.Err() != nil {
		t.Error("a static member that closes stops the others")
	}
	b = h.start(Options{InstanceID: "b"})
	h.settle2(a, b)
	h.OK(b.Leave())
	h.settle(4, a)
	if _, err := b.Next(t.Context()); !errors.Is(err, kafka.ErrGroupClosed) {
		t.Errorf("a closed group: %v", err)
	}
}

// TestCloseEndsEverything: no goroutine of the group is left, whatever it was
// doing: waiting for others to join, for a broker, for its turn.
func TestCloseEndsEverything(t *testing.T) {
	h := newHarness(t, 4)
	busy := h.start(Options{})
	gen := h.settle(4, busy)[0]
	let := make(chan struct{})
	gen.Leases[0].Start(func(context.Context) { <-let })
	waiting := h.start(Options{})
	h.ended(gen)
	h.OK(waiting.Close())
	unreachable, err := Join(&kafka.Client{
		Addr:      kafka.TCP("127.0.0.1:1"),
		Transport: &kafka.Transport{},
	}, Options{Options: wiretest.Quick, ID: "g", Topic: "t"})
	h.OK(err)
	h.OK(unreachable.Close())
	close(let)
	h.OK(busy.Close())
	h.Within("the end of the group's goroutines", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "group.(*Member)")
	})
}

// TestSlowWork: nobody waits for work on a partition that moves. A member that still works on what
// it has lost when the group changes again is waited for no longer than for RebalanceTimeout, and
// joins again when the work is done. Closing says if it is not.
func TestSlowWork(t *testing.T) {
	h := newHarness(t, 4)
	slow := h.start(Options{
		RebalanceTimeout: 3 * time.Second,
		SessionTimeout:   1500 * time.Millisecond,
	})
	let := make(chan struct{})
	for _, l := range h.settle(4, slow)[0].Leases {
		l.Start(func(context.Context) { <-let })
	}
	other := h.start(Options{RebalanceTimeout: 3 * time.Second})
	h.settle(4, slow, other)
	third := h.start(Options{RebalanceTimeout: 3 * time.Second})
	h.settle(4, other, third)
	close(let)
	gens := h.settle(4, slow, other, third)
	never := make(chan struct{})
	defer close(never)
	gens[0].Leases[0].Start(func(context.Context) { <-never })
	if err := slow.Close(); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("work that does not end: %v", err)
	}
}

// TestWorkIsFinishedInTime: while a member finishes its work on what it has lost, it is in the
// group, beyond its session timeout, and what it commits counts.
func TestWorkIsFinishedInTime(t *testing.T) {
	h := newHarness(t, 4)
	a := h.start(Options{SessionTimeout: time.Second})
	lease := h.settle(4, a)[0].Leases[0]
	let, committed := make(chan struct{}), make(chan error, 1)
	lease.Start(func(ctx context.Context) {
		<-ctx.Done()
		<-let
		by := lease.Identity()
		res, err := a.client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: h.group, GenerationID: int(by.Generation), MemberID: by.MemberID,
			Topics: map[string][]kafka.OffsetCommit{h.Topic: {{Partition: 0, Offset: 7}}},
		})
		if err == nil {
			err = res.Topics[h.Topic][0].Error
		}
		committed <- err
	})
	lease.end(errMoved)
	b := h.start(Options{})
	// until the session is over, and for nothing else, without the signs of life
	time.Sleep(2 * time.Second)
	close(let)
	h.OK(<-committed)
	h.settle(4, a, b)
}

// TestGrownTopic: new partitions are shared out, and the old ones stay.
func TestGrownTopic(t *testing.T) {
	h := newHarness(t, 4)
	a, b := h.start(Options{}), h.start(Options{})
	before := byName("ab", h.settle(4, a, b))
	h.grow(6)
	after := byName("ab", h.settle(6, a, b))
	if moved(before, after) != 2 {
		t.Errorf("%v became %v", before, after)
	}
}

// TestRefusals answers each of a member's requests with what a coordinator may
// say. Which of it passes is in the table; the member gets in all the same, and
// reports what is not part of a group's daily life.
func TestRefusals(t *testing.T) {
	const quiet, told = false, true
	for _, c := range []struct {
		key   kmsg.Key
		code  kafka.Error
		tells bool
	}{
		{kmsg.FindCoordinator, kafka.GroupCoordinatorNotAvailable, told},
		{kmsg.JoinGroup, kafka.GroupLoadInProgress, told},
		{kmsg.JoinGroup, kafka.GroupCoordinatorNotAvailable, told},
		{kmsg.JoinGroup, kafka.NotCoordinatorForGroup, told},
		{kmsg.JoinGroup, kafka.UnknownMemberId, told},
		{kmsg.JoinGroup, kafka.RebalanceInProgress, quiet},
		{kmsg.SyncGroup, kafka.GroupLoadInProgress, quiet}, // asked again at once
		{kmsg.SyncGroup, kafka.NotCoordinatorForGroup, quiet},
		{kmsg.SyncGroup, kafka.RebalanceInProgress, quiet},
		{kmsg.SyncGroup, kafka.IllegalGeneration, told},
		{kmsg.SyncGroup, kafka.UnknownMemberId, told},
		{kmsg.Heartbeat, kafka.GroupLoadInProgress, quiet},
		{kmsg.Heartbeat, kafka.NotCoordinatorForGroup, quiet},
		{kmsg.Heartbeat, kafka.RebalanceInProgress, quiet},
		{kmsg.Heartbeat, kafka.IllegalGeneration, told},
		{kmsg.Heartbeat, kafka.UnknownMemberId, told},
		{kmsg.Heartbeat, kafka.GroupIdNotFound, told},
	} {
		t.Run(fmt.Sprint(c.key.Name(), " ", int(c.code)), func(t *testing.T) {
			h := newFakeHarness(t, 4)
			fault := h.Refuse(c.key, int16(c.code), 2)
			p := h.start(Options{SessionTimeout: time.Second, RebalanceTimeout: time.Second})
			p.gen()
			h.Within("the refusal", func() bool { return fault.Hits() == 2 })
			if c.tells {
				if err := <-p.told; !errors.Is(err, c.code) || !errors.Is(err, wire.ErrTemporary) {
					t.Errorf("told of %v", err)
				}
			}
			// A generation may be about to end for the last refusal.
			h.Within("a lasting generation", func() bool {
				return h.settle(4, p)[0].Check(t.Context()) == nil
			})
			if !c.tells && len(p.told) > 0 {
				t.Errorf("told of %v", <-p.told)
			}
		})
	}
	for _, c := range []struct {
		key  kmsg.Key
		code kafka.Error
		hint string
	}{
		{kmsg.JoinGroup, kafka.FencedInstanceID, "give each one its own"},
		{kmsg.SyncGroup, kafka.FencedInstanceID, "give each one its own"},
		{kmsg.Heartbeat, kafka.FencedInstanceID, "give each one its own"},
		{
			kmsg.JoinGroup, kafka.GroupAuthorizationFailed,
			"grant this client Read on the consumer group",
		},
		{kmsg.JoinGroup, kafka.InvalidSessionTimeout, "group.min.session.timeout.ms"},
		{kmsg.JoinGroup, kafka.InconsistentGroupProtocol, "use a group of its own"},
		{kmsg.JoinGroup, groupMaxSizeReached, "group.max.size"},
	} {
		t.Run(fmt.Sprint(c.key.Name(), " ", int(c.code), " for good"), func(t *testing.T) {
			h := newFakeHarness(t, 4)
			fault := h.Refuse(c.key, int16(c.code), 1)
			p := h.start(Options{InstanceID: "i"})
			ctx, cancel := context.WithTimeout(t.Context(), wiretest.Patience)
			defer cancel()
			var err error
			for err == nil {
				_, err = p.Next(ctx)
			}
			if !errors.Is(err, c.code) || errors.Is(err, wire.ErrTemporary) ||
				!strings.Contains(err.Error(), c.hint) {
				t.Errorf("%v", err)
			}
			if fault.Hits() != 1 {
				t.Errorf("%d refusals", fault.Hits())
			}
		})
	}
}

// TestErrorsAreToldLessAndLess: a coordinator that is away for long is not told of
// with every attempt.
func TestErrorsAreToldLessAndLess(t *testing.T) {
	var r reporter
	now := time.Now()
	away := &wire.Error{Temporary: true}
	var told []time.Duration
	for at, pause := time.Duration(0), 10*time.Millisecond; at < time.Minute; at, pause = at+pause,
		min(2*pause, 500*time.Millisecond) {
		if r.dueAt(now.Add(at), away, 10*time.Millisecond) {
			told = append(told, at.Round(10*time.Millisecond))
		}
	}
	if len(told) < 12 || len(told) > 25 || told[0] != 0 {
		t.Errorf("in a minute it is told at %v", told)
	}
	for i := 2; i < len(told); i++ {
		if gap := told[i] - told[i-1]; gap < told[i-1]-told[i-2] && gap < longestSilence ||
			gap > longestSilence+500*time.Millisecond {
			t.Errorf("gap %d is %v: %v", i, gap, told)
		}
	}
	r.dueAt(now, nil, 0)
	if !r.dueAt(now, away, 10*time.Millisecond) {
		t.Error("after a success the first error is not told")
	}
}
