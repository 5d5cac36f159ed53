package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
)

// ErrNotMember is matched when the group's coordinator says that a generation
// is over or that the member is not in it.
var ErrNotMember = errors.New("consumer: not a current member of the group")

// Generation is what this member may work on until the group changes.
type Generation struct {
	ID         int32
	MemberID   string
	InstanceID string  // empty for a dynamic member
	Partitions []int32 // of the group's topic, ascending; may be empty

	member *Member
	life   *life
}

// life is how long a generation lasts for this member.
type life struct {
	ctx   context.Context // its cause says why it ended
	end   context.CancelCauseFunc
	out   atomic.Bool // the member is not in it any more, as far as it knows
	total int32       // the topic's partitions that were shared out, -1 if nobody says: the leader then does it anew
	lead  bool        // this member shared them out, or is to do so next
}

// Causes of a generation's end, behind kafka.ErrGenerationEnded.
var (
	errRejoin = errors.New("this member asked to join again")
	errGrown  = errors.New("the topic's number of partitions has changed")
)

// ended is the cause of the context of everything that runs in a generation.
func ended(why error) error { return fmt.Errorf("%w: %w", kafka.ErrGenerationEnded, why) }

// Start runs a function on its own goroutine. Its context ends with the
// generation, for the reason in context.Cause, and the next generation waits for
// it to return: the group for at most RebalanceTimeout, after which it goes on
// without this member. It may return before; that ends nothing.
func (g *Generation) Start(run func(ctx context.Context)) {
	g.member.running.add()
	go func() {
		defer g.member.running.done()
		run(g.life.ctx)
	}()
}

// Rejoin ends the generation for this member: the functions' contexts end, and
// when all have returned it joins again. Unless it leads the group, or the group
// has changed meanwhile, it gets the same generation again, and the others do
// not notice. Returns at once; repeating it does nothing.
func (g *Generation) Rejoin() { g.life.end(ended(errRejoin)) }

// Check asks the coordinator whether the generation is still the group's and
// the member still in it. ErrNotMember says no. It is what a worker asks before
// it fences its transactional id, lest it fence its successor.
func (g *Generation) Check(ctx context.Context) error {
	o := g.member.options
	op := fmt.Sprintf("check generation %d of group %s", g.ID, o.ID)
	return o.Retry(ctx, func(ctx context.Context) error {
		if g.life.out.Load() {
			return &wire.Error{Op: op, Err: fmt.Errorf("%w: %w", ErrNotMember, context.Cause(g.life.ctx))}
		}
		broker, err := wire.FindCoordinator(ctx, g.member.client, o.Options, o.ID)
		if err != nil {
			return err
		}
		code, err := g.member.ask(ctx, broker, op, g.heartbeat(), o.RequestTimeout)
		if err != nil {
			return err
		}
		switch code {
		case 0:
			return nil
		case kafka.RebalanceInProgress, kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.FencedInstanceID, kafka.GroupIdNotFound:
			return &wire.Error{Op: op, Err: fmt.Errorf("%w: %w", ErrNotMember, code)}
		}
		return wire.Refused(op, code)
	})
}

func (g *Generation) heartbeat() *heartbeat {
	return &heartbeat{group: g.member.options.ID, member: g.MemberID, instance: g.InstanceID, generation: g.ID}
}

// running counts functions, and tells when there are none.
type running struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n is 0; nil if nobody has asked since
}

func (r *running) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
}

func (r *running) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n--
	if r.n == 0 && r.empty != nil {
		close(r.empty)
		r.empty = nil
	}
}

// idle returns a channel that is closed when no function runs, or already is.
func (r *running) idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	return r.empty
}
