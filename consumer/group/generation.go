package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/wire"
)

// ErrNotMember matches the error of Check when the group's coordinator says that a generation is
// over or that the member is not in it.
var ErrNotMember = errors.New("consumer: not a current member of the group")

// Generation is what this member may work on until the group changes.
type Generation struct {
	ID         int32
	MemberID   string
	InstanceID string  // empty for a dynamic member
	Partitions []int32 // of the group's topic, ascending; may be empty
	// Standbys are the partitions of others whose states this member should keep a copy of,
	// ascending; empty unless Options.Standbys asks for some.
	Standbys []int32

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
)

// ended returns the cause for the context of the functions that run in a generation.
func ended(why error) error { return fmt.Errorf("%w: %w", kafka.ErrGenerationEnded, why) }

// Start runs a function on its own goroutine. Its context ends with the generation, for the reason
// in context.Cause, and the next generation waits until the function has returned. The group waits
// for at most RebalanceTimeout and then goes on without this member. The function may return
// earlier; that ends nothing.
func (g *Generation) Start(run func(ctx context.Context)) {
	g.member.running.add()
	go func() {
		defer g.member.running.done()
		run(g.life.ctx)
	}()
}

// Rejoin ends the generation for this member: the functions' contexts end, and when all functions
// have returned the member joins again. Unless it leads the group, or the group has changed
// meanwhile, it gets the same generation again, and the others do not notice. Rejoin returns at
// once; to repeat it does nothing.
func (g *Generation) Rejoin() { g.life.end(ended(errRejoin)) }

// Check asks the coordinator whether the generation is still the group's and the member still in
// it; ErrNotMember says no. A worker asks this before it fences its transactional id, because a
// worker that is out would fence its successor.
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
	return requestHeartbeat(identity{g.member.options.ID, g.MemberID, g.InstanceID, g.ID})
}

// running counts functions, and says when there are none.
type running struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n is 0; nil if nobody waits
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

// idle returns a channel that is closed as soon as no function runs.
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
