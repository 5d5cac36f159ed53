package group

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/wire"
)

// ErrNotMember matches the error of Check when the group's coordinator says that a generation is
// over or that the member is not in it.
var ErrNotMember = errors.New("consumer: not a current member of the group")

// Generation is what this member has until the group changes.
type Generation struct {
	ID         int32
	MemberID   string
	InstanceID string  // empty for a dynamic member
	Partitions []int32 // of the group's topic, ascending; may be empty
	// Standbys are the partitions of others whose states this member should keep a copy of,
	// ascending; empty unless Options.Standbys asks for some.
	Standbys []int32
	// Leases are the rights to both: those that go on, and new ones.
	Leases []*Lease

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
