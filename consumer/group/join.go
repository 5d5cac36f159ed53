package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
)

// join makes this member one of the group's next generation, or of its current
// one, and learns its partitions. It makes one attempt; an answer that is lost
// on the way is asked for again by the next one, with the same member id.
func (g *Member) join(ctx context.Context) (*Generation, error) {
	a, err := g.enter(ctx)
	if err != nil {
		return nil, err
	}
	g.kept.id = a.member
	lead := a.leader == a.member
	request := &syncGroup{group: g.options.ID, member: a.member, instance: g.options.InstanceID, generation: a.generation}
	if lead && !a.skip {
		if request.assignments, err = g.shareOut(ctx, a); err != nil {
			return nil, err
		}
	}
	body, err := g.sync(ctx, request)
	if err != nil {
		return nil, err
	}
	given, ok := readAssignment(body, g.options.Topic)
	if !ok {
		return nil, &wire.Error{Op: "join group " + g.options.ID, Temporary: true, Err: errors.New("the assignment is cut short")}
	}
	if !fits(given.settings, g.options.Settings) {
		return nil, g.differs(given.settings)
	}
	g.kept.last = said{claim{generation: a.generation, partitions: given.own}, given.all, g.options.Settings}
	life := &life{lead: lead, total: given.total}
	life.ctx, life.end = context.WithCancelCause(context.Background())
	return &Generation{
		ID: a.generation, MemberID: a.member, InstanceID: g.options.InstanceID, Partitions: append([]int32(nil), given.own...),
		member: g, life: life,
	}, nil
}

// enter sends JoinGroup, and once more if the coordinator has only given out a
// member id (KIP-394). The coordinator answers when everybody has joined, or
// when those that have not have used up their RebalanceTimeout.
func (g *Member) enter(ctx context.Context) (joined, error) {
	op := "join group " + g.options.ID
	broker, err := wire.FindCoordinator(ctx, g.client, g.options.Options, g.options.ID)
	if err != nil {
		return joined{}, err
	}
	if !g.kept.same || g.kept.subscription == nil {
		g.kept.subscription = appendSubscription(nil, g.options.Topic, g.kept.last)
	}
	g.kept.same = false
	for attempt := 0; ; attempt++ {
		request := &joinGroup{
			group: g.options.ID, member: g.kept.id, instance: g.options.InstanceID,
			sessionMS: int32(g.options.SessionTimeout.Milliseconds()), rebalanceMS: int32(g.options.RebalanceTimeout.Milliseconds()),
			subscription: g.kept.subscription,
		}
		body, err := g.send(ctx, broker, op, request, g.options.RebalanceTimeout+g.options.RequestTimeout)
		if err != nil {
			return joined{}, err
		}
		a, ok := readJoined(body)
		switch {
		case !ok:
			return joined{}, wire.CutShort(op)
		case a.code == kafka.MemberIDRequired && attempt == 0 && a.member != "":
			g.kept.id = a.member
		case a.code != 0:
			return joined{}, wire.Refused(op, a.code)
		default:
			return a, nil
		}
	}
}

// shareOut is the leader's work: everybody's assignment. The others wait for it
// and so does this member's own session, so that it gives up before that ends.
func (g *Member) shareOut(ctx context.Context, a joined) (map[string][]byte, error) {
	o := g.options.Options
	o.RetryTimeout = g.options.SessionTimeout / 3
	o.RequestTimeout = min(o.RequestTimeout, o.RetryTimeout)
	counts, err := admin.Partitions(ctx, g.client, o, g.options.Topic)
	if err != nil {
		var missing *admin.MissingTopicsError
		if errors.As(err, &missing) { // it may be on its way
			err = &wire.Error{Op: "share out the partitions of " + g.options.Topic, Temporary: true, Err: err}
		}
		return nil, err
	}
	total := counts[g.options.Topic]
	heard := make([]said, len(a.members))
	for i, m := range a.members {
		heard[i] = readSubscription(m.subscription, g.options.Topic)
	}
	settings := inForce(a.members, heard, a.leader)
	var fitting []joinedMember
	var shares []share
	for i, m := range a.members {
		if fits(heard[i].settings, settings) {
			fitting = append(fitting, m)
		} else {
			shares = append(shares, share{member: m.id, instance: m.instance}) // nothing: it is told why
		}
	}
	shares = append(shares, assign(int32(total), candidates(g.options.Topic, fitting, g.kept.last))...)
	known := fewEnough(shares)
	assignments := make(map[string][]byte, len(shares))
	for _, s := range shares {
		assignments[s.member] = appendAssignment(nil, g.options.Topic, s.partitions, int32(total), known, settings)
	}
	return assignments, nil
}

// candidates gathers what is known of what the members had: by their own
// accounts, and by the newest account of everybody's shares, the leader's or
// another's.
func candidates(topic string, members []joinedMember, newest said) []candidate {
	all := make([]candidate, len(members))
	for i, m := range members {
		s := readSubscription(m.subscription, topic)
		all[i] = candidate{member: m.id, instance: m.instance, claims: []claim{s.claim}}
		if len(s.shares) > 0 && (s.generation > newest.generation || len(newest.shares) == 0) {
			newest = s
		}
	}
	for i := range all {
		for _, s := range newest.shares {
			if s.member == all[i].member || s.instance != "" && s.instance == all[i].instance {
				all[i].claims = append(all[i].claims, claim{newest.generation, s.partitions})
			}
		}
	}
	return all
}

// sync is repeated while its answer is lost: to join again would have the whole
// group start over.
func (g *Member) sync(ctx context.Context, request *syncGroup) ([]byte, error) {
	op := "join group " + g.options.ID
	o := g.options.Options
	o.RetryTimeout = g.options.SessionTimeout / 3
	var assignment []byte
	err := o.Retry(ctx, func(ctx context.Context) error {
		broker, err := wire.FindCoordinator(ctx, g.client, o, g.options.ID)
		if err != nil {
			return err
		}
		body, err := g.send(ctx, broker, op, request, g.options.RebalanceTimeout+g.options.RequestTimeout)
		if err != nil {
			return err
		}
		code, got, ok := readSynced(body)
		switch {
		case !ok:
			return wire.CutShort(op)
		case code != 0:
			return wire.Refused(op, code)
		}
		assignment = got
		return nil
	})
	return assignment, err
}

// send makes one exchange with the coordinator, and ends with the context: its
// connection is cut then, for the answer may be a long time coming.
func (g *Member) send(ctx context.Context, broker int32, op string, message wire.Encoder, timeout time.Duration) ([]byte, error) {
	res, err := wire.RoundTrip(ctx, g.client, &wire.Exchange{Message: message, To: broker, Raw: true, Cut: ctx}, timeout)
	if err != nil {
		return nil, wire.Failed(g.client, op, err)
	}
	answer, ok := res.(*wire.Frame)
	if !ok {
		return nil, wire.Unexpected(op, res)
	}
	return answer.Body, nil
}

// ask sends a request whose answer is a code.
func (g *Member) ask(ctx context.Context, broker int32, op string, message wire.Encoder, timeout time.Duration) (kafka.Error, error) {
	body, err := g.send(ctx, broker, op, message, timeout)
	if err != nil {
		return 0, err
	}
	code, ok := readCode(message.ApiKey(), body)
	if !ok {
		return 0, wire.CutShort(op)
	}
	return code, nil
}

// beat gives signs of life until the context ends, or until the member is out:
// refused by the coordinator, or without an answer for a whole session. The
// session is counted from when an answered request was sent, so that this member
// never believes in it for longer than the coordinator does, and a process that
// was stopped finds out when it goes on.
func (g *Member) beat(ctx context.Context, gen *Generation) {
	op := fmt.Sprintf("keep the membership in group %s", g.options.ID)
	session := g.options.SessionTimeout
	attempt := min(g.options.RequestTimeout, max(session/3, g.options.HeartbeatInterval))
	broker, alive := wire.AnyBroker, time.Now()
	var last error
	out := func(err error) {
		gen.life.end(ended(err)) // first: Check tells why
		gen.life.out.Store(true)
	}
	for ctx.Err() == nil {
		sent := time.Now()
		left := session - sent.Sub(alive)
		if left <= 0 {
			out(&wire.Error{Op: op, Temporary: true, Err: errors.Join(fmt.Errorf("no answer within the session timeout of %v", session), last)})
			return
		}
		code, err := g.pulse(ctx, gen, op, &broker, min(attempt, left))
		wait := g.options.HeartbeatInterval
		switch {
		case err != nil:
			last, broker = err, wire.AnyBroker
			wait = min(wait, g.options.MaxBackoff)
		case code == 0:
			alive, last = sent, nil
		case code == kafka.RebalanceInProgress:
			alive, last = sent, nil
			gen.life.end(ended(code)) // the membership lasts while the work is finished
		default:
			out(wire.Refused(op, code))
			return
		}
		timer := time.NewTimer(min(wait, max(0, session-time.Since(alive))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// pulse makes one heartbeat. A temporary refusal is an error.
func (g *Member) pulse(ctx context.Context, gen *Generation, op string, broker *int32, timeout time.Duration) (kafka.Error, error) {
	if *broker == wire.AnyBroker {
		o := g.options.Options
		o.RequestTimeout = timeout
		found, err := wire.FindCoordinator(ctx, g.client, o, g.options.ID)
		if err != nil {
			return 0, err
		}
		*broker = found
	}
	code, err := g.ask(ctx, *broker, op, gen.heartbeat(), timeout)
	if err == nil && wire.Temporary(code) {
		err = wire.Refused(op, code)
	}
	return code, err
}

// watch ends the generation when the topic's number of partitions is no longer
// the one that was shared out, or if it was another topic's. Only the leader does: it is the one whose joining
// makes the others join.
func (g *Member) watch(ctx context.Context, gen *Generation) {
	o := g.options.Options
	o.RetryTimeout = g.options.WatchInterval
	ticker := time.NewTicker(g.options.WatchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gen.life.ctx.Done():
			return
		case <-ticker.C:
		}
		counts, err := admin.Partitions(ctx, g.client, o, g.options.Topic)
		if err == nil && int32(counts[g.options.Topic]) != gen.life.total {
			gen.life.end(ended(errGrown))
			return
		}
	}
}
