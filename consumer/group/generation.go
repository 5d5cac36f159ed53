package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire"
)

// ErrNotMember matches the error of Check when the group's coordinator says that a generation is
// over or that the member is not in it.
var ErrNotMember = errors.New("consumer: not a current member of the group")

// Generation is what this member has until the group changes.
type Generation struct {
	ID         int32
	MemberID   string
	InstanceID string   // empty for a dynamic member
	Partitions []int32  // of the group's topic, ascending; may be empty
	Leases     []*Lease // the rights to them: those that go on, and new ones

	member *Member
	life   *life
}

// life is how long a generation lasts for this member.
type life struct {
	ctx  context.Context // its cause says why it ended
	end  context.CancelCauseFunc
	out  atomic.Bool // the member is no longer in it, as far as the member knows
	lead bool        // this member shared the partitions out, or does so next
	// total is how many partitions of the topic were shared out, -1 if the assignment does not
	// say. The leader shares them out again when that is not the topic's number.
	total int32
}

// Causes of a generation's end, beside kafka.ErrGenerationEnded.
var (
	errRejoin = errors.New("this member asked to join again")
	errGrown  = errors.New("the topic's number of partitions has changed")
	errMoved  = errors.New("the group has given the partition to another member")
	errSlow   = errors.New("work on another partition that was lost has not ended in time")
)

// ended returns the cause for the context of a generation, or of a lease.
func ended(why error) error { return fmt.Errorf("%w: %w", kafka.ErrGenerationEnded, why) }

// Check asks the coordinator whether the generation is still the group's and the member still in
// it; ErrNotMember says no.
func (g *Generation) Check(ctx context.Context) error {
	o := g.member.options
	op := fmt.Sprintf("check generation %d of group %s", g.ID, o.ID)
	out := func(why error) error {
		return &wire.Error{Op: op, Err: fmt.Errorf("%w: %w", ErrNotMember, why)}
	}
	return o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		if g.life.out.Load() {
			return out(context.Cause(g.life.ctx))
		}
		code, err := g.member.tell(ctx, o, op, g.heartbeat())
		if err != nil {
			return err
		}
		switch code {
		case 0:
			return nil
		case kafka.RebalanceInProgress, kafka.IllegalGeneration, kafka.UnknownMemberId,
			kafka.FencedInstanceID, kafka.GroupIdNotFound:
			return out(code)
		}
		return wire.Refused(op, code)
	})
}

func (g *Generation) heartbeat() *wire.Request {
	return requestHeartbeat(Identity{g.member.options.ID, g.ID, g.MemberID, g.InstanceID})
}

// requestHeartbeat tells the coordinator that the member is alive, and asks whether its generation
// lasts.
//
//	group | generation 4 | member | instance, nullable | tags
func requestHeartbeat(by Identity) *wire.Request {
	q := wire.NewRequest(protocol.Heartbeat, 4).String(by.Group).Int32(by.Generation)
	return q.String(by.MemberID).Nullable(by.InstanceID).End()
}

// Lease is this member's right to work on a partition. It lasts from generation to generation,
// until the group gives the partition to another member, or this member is out. So work goes on
// while the group shares out; DESIGN.md says why it may.
type Lease struct {
	Partition int32

	member   *Member
	ctx      context.Context // its cause says why the lease is over
	end      context.CancelCauseFunc
	returned chan struct{} // closed when the function has returned

	// Under the lock of the tenancy.
	started  bool
	identity Identity
}

// Start runs a function on its own goroutine, unless an earlier generation has started one for
// this lease. The function's context ends with the lease, for the reason in context.Cause. If the
// function of this process's last lease of the partition still runs, it begins when that has
// returned, so two never work on one partition, and not at all if the lease is over by then. It
// may return before the lease is over; that ends nothing.
func (l *Lease) Start(run func(ctx context.Context)) {
	before, ok := l.member.tenancy.start(l)
	if !ok {
		return
	}
	go func() {
		defer l.member.tenancy.returned(l)
		if before != nil {
			<-before.returned
			if l.ctx.Err() != nil {
				return
			}
		}
		run(l.ctx)
	}()
}

// Identity is how the member names itself when it commits for this lease. It changes as soon as the
// coordinator has said which generation begins.
func (l *Lease) Identity() Identity {
	t := &l.member.tenancy
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.identity
}

// Renewed returns the identity after one whose generation the coordinator has refused. It waits for
// the answer to JoinGroup that brings it, if need be. ErrNotMember says that there is none, because
// the lease is over.
func (l *Lease) Renewed(ctx context.Context, refused Identity) (Identity, error) {
	by := refused
	err := l.await(ctx, func() bool {
		by = l.identity
		return by != refused
	})
	return by, err
}

// Settle waits while the group shares out. ErrNotMember says that the lease is over.
func (l *Lease) Settle(ctx context.Context) error {
	_, err := l.settled(ctx)
	return err
}

// Check asks the coordinator whether the member is still in the group, and waits while that shares
// out; ErrNotMember says that it is not, or that the lease is over. A worker asks this before it
// fences its transactional id, because a worker that is out would fence its successor.
func (l *Lease) Check(ctx context.Context) error {
	for {
		gen, err := l.settled(ctx)
		if err != nil {
			return err
		}
		err = gen.Check(ctx)
		if errors.Is(err, kafka.RebalanceInProgress) {
			gen.life.end(ended(kafka.RebalanceInProgress)) // no need to wait for the heartbeat
		}
		if !errors.Is(err, ErrNotMember) || gen.life.ctx.Err() == nil {
			return err
		}
	}
}

// Rejoin ends the lease, and lets the member join again when its function has returned. If the
// group leaves the partition with this member, that has a new lease then. Unless it leads the
// group, or the group has changed meanwhile, it gets the same generation again, and the others do
// not notice. Rejoin returns at once; to repeat it does nothing.
func (l *Lease) Rejoin() {
	if l.ctx.Err() != nil {
		return
	}
	l.end(ended(errRejoin))
	t := &l.member.tenancy
	t.mu.Lock()
	gen := t.current
	t.mu.Unlock()
	gen.life.end(ended(errRejoin))
}

// settled returns the group's generation, and waits for it while the group shares out.
func (l *Lease) settled(ctx context.Context) (gen *Generation, err error) {
	err = l.await(ctx, func() bool {
		gen = l.member.tenancy.current
		return l.ctx.Err() == nil && gen.life.ctx.Err() == nil
	})
	return gen, err
}

// await waits until something is true of the tenancy, which is locked meanwhile. It gives up when
// the lease is over.
func (l *Lease) await(ctx context.Context, is func() bool) error {
	t := &l.member.tenancy
	for {
		t.mu.Lock()
		done, changed := is(), t.changed
		t.mu.Unlock()
		switch {
		case done:
			return nil
		case l.ctx.Err() != nil:
			return &wire.Error{
				Op: fmt.Sprintf("work on partition %d for group %s", l.Partition,
					l.member.options.ID),
				Err: fmt.Errorf("%w: %w", ErrNotMember, context.Cause(l.ctx)),
			}
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tenancy is a member's leases, and what they must know of its generations.
type tenancy struct {
	mu      sync.Mutex
	leases  []*Lease      // of the current generation
	working []*Lease      // whose functions run, in the order in which they were started
	current *Generation   // the last one that has begun; nil before the first
	changed chan struct{} // closed, and replaced, when a generation or an identity is new
}

// start notes that a lease's function begins, and returns the lease whose function must return
// before. It is not ok if the function has been started, or the lease is over.
func (t *tenancy) start(l *Lease) (before *Lease, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.started || l.ctx.Err() != nil {
		return nil, false
	}
	l.started = true
	for _, w := range t.working {
		if w.Partition == l.Partition {
			before = w
		}
	}
	t.working = append(t.working, l)
	return before, true
}

func (t *tenancy) returned(l *Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working = slices.DeleteFunc(t.working, func(w *Lease) bool { return w == l })
	close(l.returned)
}

// joined says that the coordinator has begun a generation with this member. From now on it takes
// commits of that generation alone.
func (t *tenancy) joined(by Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		if l.ctx.Err() == nil {
			l.identity = by
		}
	}
	t.stir()
}

func newLease(partition int32, of *Member, by Identity) *Lease {
	l := &Lease{
		Partition: partition, member: of, identity: by, returned: make(chan struct{}),
	}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	return l
}

// begin makes the leases of a generation. A lease goes on if its partition stays here.
func (t *tenancy) begin(gen *Generation, by Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.leases
	t.leases = nil
	for _, p := range gen.Partitions {
		i := slices.IndexFunc(last, func(l *Lease) bool {
			return l.Partition == p && l.ctx.Err() == nil
		})
		if i >= 0 {
			t.leases = append(t.leases, last[i])
			continue
		}
		t.leases = append(t.leases, newLease(p, gen.member, by))
	}
	for _, l := range last {
		if !slices.Contains(t.leases, l) {
			l.end(ended(errMoved))
		}
	}
	gen.Leases = slices.Clone(t.leases)
	t.current = gen
	t.stir()
}

// over ends all leases.
func (t *tenancy) over(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		l.end(cause)
	}
}

// stir wakes those that wait for a change.
func (t *tenancy) stir() {
	if t.changed != nil {
		close(t.changed)
	}
	t.changed = make(chan struct{})
}

// finishing returns a lease that is over and whose function still runs; nil if there is none.
func (t *tenancy) finishing() *Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.working {
		if l.ctx.Err() != nil {
			return l
		}
	}
	return nil
}
