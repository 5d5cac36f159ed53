package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire"
)

// Member is this process's membership in a consumer group. Every change of members or partitions
// begins a new generation. Work on partitions that stay with this member goes on meanwhile.
// DESIGN.md says how.
type Member struct {
	client  *kafka.Client
	options Options

	next    chan *Generation // handed over while it lasts
	tenancy tenancy

	closing  context.Context // ends when Close begins
	close    context.CancelFunc
	once     sync.Once
	leaving  atomic.Bool   // Close also gives the membership up
	patience chan struct{} // closed when Close has waited long enough for functions
	done     chan struct{} // closed when the member's goroutine has ended
	failure  error         // why the goroutine ended by itself, if it did; read after done
	left     error         // what leaving came to; read after done

	mu    sync.Mutex
	last  error     // the error after which the member tries again, nil once a generation has begun
	heard time.Time // when the coordinator's session with this member began again, at the earliest

	kept memory // belongs to the member's goroutine
}

// memory is what a member keeps from generation to generation.
type memory struct {
	id           string   // given by the coordinator; empty if it has given none, or forgotten it
	last         said     // about the last generation
	subscription []byte   // of the last join
	same         bool     // join with that subscription once more: only this member asked to rejoin
	telling      reporter // of errors
	asked        bool     // it has left and joined once, to ask whose settings count
}

// Join starts joining a group in the background.
func Join(client *kafka.Client, o Options) (*Member, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	if client.Addr == nil {
		return nil, errors.New("consumer: the client has no broker address")
	}
	m := &Member{
		client: client, options: o, next: make(chan *Generation),
		patience: make(chan struct{}), done: make(chan struct{}),
		kept: memory{last: said{claim: claim{generation: -1}, settings: o.Settings}},
	}
	m.closing, m.close = context.WithCancel(context.Background())
	go m.run()
	return m, nil
}

// Next waits for the next generation. It retries temporary errors, such as an unreachable broker,
// until the context ends. Any other error is final: the member is out, the functions of its leases
// have returned, and every later call returns the same error. After Close the error is
// kafka.ErrGroupClosed.
func (m *Member) Next(ctx context.Context) (*Generation, error) {
	select {
	case gen := <-m.next:
		return gen, nil
	case <-m.done:
		if m.failure != nil {
			return nil, m.failure
		}
		return nil, kafka.ErrGroupClosed
	case <-ctx.Done():
		return nil, m.unfinished(ctx)
	}
}

// unfinished returns the context's error, with the error that keeps the member from joining.
func (m *Member) unfinished(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil {
		return fmt.Errorf("%w; last: %w", ctx.Err(), m.last)
	}
	return ctx.Err()
}

// Close ends all leases, waits at most RebalanceTimeout for their functions, and stops. A dynamic
// member then leaves the group. A static member tells the coordinator nothing and keeps its
// partitions until the session timeout, by when its next process can take them up. An error says
// that a function still runs, or that the coordinator could not be told; the member is closed all
// the same. Safe to repeat.
func (m *Member) Close() error { return m.shut(m.options.InstanceID == "") }

// Leave is Close, but a static member leaves the group too, so the others get its partitions at
// once.
func (m *Member) Leave() error { return m.shut(true) }

func (m *Member) shut(leave bool) error {
	m.once.Do(func() {
		m.leaving.Store(leave)
		limit := time.AfterFunc(m.options.RebalanceTimeout, func() { close(m.patience) })
		m.close()
		<-m.done
		limit.Stop()
	})
	<-m.done
	return m.left
}

// run is the member's goroutine. It joins, lives for a generation, and joins again, until the
// member is closed or refused for good.
func (m *Member) run() {
	defer close(m.done)
	first := wire.Backoff{Next: m.options.MinBackoff, Longest: m.options.MaxBackoff}
	pause := first
	for m.closing.Err() == nil {
		gen, err := m.join(m.closing)
		if err == nil {
			m.retrying(nil)
			pause = first
			err = m.live(gen)
		}
		if m.closing.Err() != nil {
			break
		}
		failure := m.classify(err)
		if failure == nil {
			continue
		}
		if m.isOut(failure) {
			m.tenancy.over(ended(failure))
			m.drain(func() {})
		}
		if !failure.Temporary {
			m.failure = failure
			break
		}
		m.retrying(failure)
		pause.Wait(m.closing)
	}
	m.tenancy.over(ended(kafka.ErrGroupClosed)) // unless they are over already
	m.drain(func() {})
	// A member that was refused for good leaves, so that the others do not wait for it. A fenced
	// member has no membership to give up.
	refused := m.failure != nil &&
		(m.options.InstanceID == "" || errors.As(m.failure, new(*SettingsError)))
	if (refused || m.leaving.Load()) && m.kept.id != "" {
		m.left = m.leave()
	}
}

// hear notes a sign of life that the coordinator has taken.
func (m *Member) hear(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = at
}

// isOut reports whether an error means that others may have this member's partitions: it is refused
// for good, the coordinator does not know it, or has not answered for a whole session.
func (m *Member) isOut(failure *wire.Error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !failure.Temporary || m.kept.id == "" ||
		time.Since(m.heard) > m.options.SessionTimeout
}

// retrying keeps the last error for Next, and reports it to Options.Retrying when that is due.
func (m *Member) retrying(failure *wire.Error) {
	m.mu.Lock()
	m.last = nil
	if failure != nil {
		m.last = failure
	}
	m.mu.Unlock()
	due := m.kept.telling.dueAt(time.Now(), failure, m.options.MinBackoff)
	if due && m.options.Retrying != nil {
		m.options.Retrying(failure)
	}
}

// reporter spaces out the reports of errors that go on and on.
type reporter struct {
	gap  time.Duration
	last time.Time
}

// longestSilence is the longest time between two reports while attempts keep failing.
const longestSilence = 5 * time.Second

// dueAt reports whether to report an error now. No error resets the reporter. The gaps grow as the
// pauses between attempts do, and further, up to longestSilence.
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

// classify takes the error of a join or the end of a generation, and forgets the member id if the
// error shows it to be void. Nil means that nothing is wrong: join again.
func (m *Member) classify(err error) *wire.Error {
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
		m.kept.id = ""
		given.Temporary = true
	case kafka.FencedInstanceID:
		m.kept.id = "" // it belongs to another process
		given.Temporary = false
		given.Hint = fmt.Sprintf("another instance runs with instance_id %q: give each one its own",
			m.options.InstanceID)
	case kafka.InvalidSessionTimeout:
		given.Hint = "keep SessionTimeout between the broker's group.min.session.timeout.ms " +
			"and group.max.session.timeout.ms"
	case kafka.InconsistentGroupProtocol:
		given.Hint = "another kind of member is in this group: use a group of its own"
	case groupMaxSizeReached:
		given.Hint = "the group has as many members as the broker's group.max.size allows"
	}
	return &given
}

// groupMaxSizeReached is GROUP_MAX_SIZE_REACHED, which kafka-go does not name.
const groupMaxSizeReached kafka.Error = 81

// live hands a generation over, and returns why it ended. If leases end with it, their functions
// have returned by then. Until then the heartbeats go on, because work that ends in time should
// still be committed.
func (m *Member) live(gen *Generation) error {
	ctx, stop := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { m.beat(ctx, gen) })
	if gen.life.lead {
		helpers.Go(func() { m.watch(ctx, gen) })
	}
	select {
	case m.next <- gen:
		select {
		case <-gen.life.ctx.Done():
		case <-m.closing.Done():
		}
	case <-gen.life.ctx.Done():
	case <-m.closing.Done():
	}
	gen.life.end(ended(kafka.ErrGroupClosed)) // unless it has ended already
	if m.closing.Err() != nil {
		m.tenancy.over(ended(kafka.ErrGroupClosed))
	}
	m.drain(stop)
	stop()
	helpers.Wait()
	m.drain(func() {}) // the last heartbeat may have been refused
	gen.life.out.Store(true)
	cause := context.Cause(gen.life.ctx)
	m.kept.same = errors.Is(cause, errRejoin)
	return cause
}

// drain waits for the functions of leases that are over. After RebalanceTimeout it stops the
// heartbeats, so that the group goes on without this member, and ends all leases. It still waits
// then: a member whose work does not end should get no more of it.
func (m *Member) drain(stopBeating func()) {
	late := time.NewTimer(m.options.RebalanceTimeout)
	defer late.Stop()
	for l := m.tenancy.finishing(); l != nil; l = m.tenancy.finishing() {
		select {
		case <-l.returned:
		case <-late.C:
			stopBeating()
			m.tenancy.over(ended(errSlow))
		case <-m.patience:
			m.left = fmt.Errorf("consumer: group %s is closed, but work has not ended within %v",
				m.options.ID, m.options.RebalanceTimeout)
			return
		}
	}
}

// leavePatience bounds how long closing waits for a coordinator.
const leavePatience = 5 * time.Second

// leave gives the membership up. It is no error if the coordinator does not know it.
func (m *Member) leave() error {
	op := "leave group " + m.options.ID
	ctx, cancel := context.WithTimeout(context.Background(),
		min(m.options.RequestTimeout, leavePatience))
	defer cancel()
	err := m.options.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		code, err := m.tell(ctx, o, op, requestLeave(m.identity(0)))
		if err != nil {
			return err
		}
		switch code {
		case 0, kafka.UnknownMemberId, kafka.GroupIdNotFound, kafka.FencedInstanceID:
			return nil
		}
		return wire.Refused(op, code)
	})
	return errors.Join(m.left, err)
}

// requestLeave gives a membership up.
//
//	group | members array of (member | instance, nullable | tags) | tags
func requestLeave(by Identity) *wire.Request {
	q := wire.NewRequest(protocol.LeaveGroup, 4).String(by.Group)
	q.Count(1).String(by.MemberID).Nullable(by.InstanceID).End()
	return q.End()
}
