package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
)

// memory is what a member keeps from generation to generation.
type memory struct {
	id           string   // given by the coordinator, empty if not, or if it has forgotten us
	last         said     // of the last generation
	subscription []byte   // of the last join
	same         bool     // join with that once more: this member alone has asked for it
	telling      reporter // of errors
	asked        bool     // it has left and joined once, to ask whose settings count
}

// run is the group's goroutine: join, live, join again, until closed or refused
// for good.
func (g *Member) run() {
	defer close(g.done)
	pause := g.options.MinBackoff
	for g.closing.Err() == nil {
		gen, err := g.join(g.closing)
		if err == nil {
			g.retrying(nil)
			pause = g.options.MinBackoff
			err = g.live(gen)
		}
		if g.closing.Err() != nil {
			break
		}
		failure := g.classify(err)
		if failure == nil {
			continue
		}
		if !failure.Temporary {
			g.failure = failure
			break
		}
		g.retrying(failure)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-g.closing.Done():
			timer.Stop()
		}
		pause = min(2*pause, g.options.MaxBackoff)
	}
	// A member that was refused for good leaves, lest the others wait for it.
	// Whoever is fenced has no membership to give up.
	var other *SettingsError
	refused := g.failure != nil && (g.options.InstanceID == "" || errors.As(g.failure, &other))
	if (refused || g.leaving.Load()) && g.kept.id != "" {
		g.left = g.leave()
	}
}

// retrying keeps the last error for Next, and tells of it.
func (g *Member) retrying(failure *wire.Error) {
	g.mu.Lock()
	g.last = nil
	if failure != nil {
		g.last = failure
	}
	g.mu.Unlock()
	if g.kept.telling.dueAt(time.Now(), failure, g.options.MinBackoff) && g.options.Retrying != nil {
		g.options.Retrying(failure)
	}
}

// reporter spaces out the reports of errors that go on and on.
type reporter struct {
	gap  time.Duration
	last time.Time
}

// dueAt reports whether to tell of an error now; none begins anew. The gaps grow
// as the pauses between attempts do, and then on.
func (r *reporter) dueAt(now time.Time, failure *wire.Error, first time.Duration) bool {
	if failure == nil {
		*r = reporter{}
		return false
	}
	if now.Sub(r.last) < r.gap {
		return false
	}
	r.gap = min(max(2*r.gap, first/2), longestSilence)
	r.last = now
	return true
}

// classify takes an error of a join or the end of a generation, and forgets what
// it shows to be void. Nil: nothing is wrong, join again.
func (g *Member) classify(err error) *wire.Error {
	var e *wire.Error
	if !errors.As(err, &e) {
		return nil // the generation has ended as generations do
	}
	var code kafka.Error
	if !errors.As(err, &code) {
		return e
	}
	given := *e
	switch code {
	case kafka.RebalanceInProgress:
		return nil
	case kafka.IllegalGeneration, kafka.MemberIDRequired:
		given.Temporary = true
	case kafka.UnknownMemberId, kafka.GroupIdNotFound:
		g.kept.id = ""
		given.Temporary = true
	case kafka.FencedInstanceID:
		g.kept.id = "" // it is another's
		given.Temporary = false
		given.Hint = fmt.Sprintf("another instance runs with instance_id %q: give each one its own", g.options.InstanceID)
	case kafka.InvalidSessionTimeout:
		given.Hint = "keep SessionTimeout between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
	case kafka.InconsistentGroupProtocol:
		given.Hint = "another kind of member is in this group: use a group of its own"
	case groupMaxSizeReached:
		given.Hint = "the group has as many members as the broker's group.max.size allows"
	}
	return &given
}

// groupMaxSizeReached is GROUP_MAX_SIZE_REACHED, which kafka-go does not name.
const groupMaxSizeReached kafka.Error = 81

// live hands a generation over and keeps it alive until it ends and everything
// that was started in it has returned. The signs of life go on meanwhile: work
// that ends in time is to be committed. The answer is why it ended.
func (g *Member) live(gen *Generation) error {
	ctx, stop := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { g.beat(ctx, gen) })
	if gen.life.lead {
		helpers.Go(func() { g.watch(ctx, gen) })
	}
	select {
	case g.next <- gen:
		select {
		case <-gen.life.ctx.Done():
		case <-g.closing.Done():
		}
	case <-gen.life.ctx.Done():
	case <-g.closing.Done():
	}
	gen.life.end(ended(kafka.ErrGroupClosed)) // unless it has ended already
	g.drain(stop)
	stop()
	helpers.Wait()
	gen.life.out.Store(true)
	cause := context.Cause(gen.life.ctx)
	g.kept.same = errors.Is(cause, errRejoin)
	return cause
}

// drain waits for what was started. After RebalanceTimeout the signs of life
// stop, so that the group goes on without this member; it still waits, for the
// same partitions must not be worked on twice.
func (g *Member) drain(stopBeating func()) {
	late := time.NewTimer(g.options.RebalanceTimeout)
	defer late.Stop()
	for {
		select {
		case <-g.running.idle():
			return
		case <-late.C:
			stopBeating()
		case <-g.patience:
			g.left = fmt.Errorf("consumer: group %s is closed, but work that was started in it has not ended within %v", g.options.ID, g.options.RebalanceTimeout)
			return
		}
	}
}

// leavePatience bounds how long closing waits for a coordinator.
const leavePatience = 5 * time.Second

// leave gives the membership up. That the coordinator does not know it is fine.
func (g *Member) leave() error {
	op := "leave group " + g.options.ID
	ctx, cancel := context.WithTimeout(context.Background(), min(g.options.RequestTimeout, leavePatience))
	defer cancel()
	request := &leaveGroup{group: g.options.ID, member: g.kept.id, instance: g.options.InstanceID}
	err := g.options.Retry(ctx, func(ctx context.Context) error {
		broker, err := wire.FindCoordinator(ctx, g.client, g.options.Options, g.options.ID)
		if err != nil {
			return err
		}
		code, err := g.ask(ctx, broker, op, request, g.options.RequestTimeout)
		switch {
		case err != nil:
			return err
		case code == 0, code == kafka.UnknownMemberId, code == kafka.GroupIdNotFound, code == kafka.FencedInstanceID:
			return nil
		}
		return wire.Refused(op, code)
	})
	return errors.Join(g.left, err)
}
