package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// join makes this member part of the group's next generation, or of its current one, and learns
// its partitions. Work on those that it has goes on meanwhile. It makes one attempt. If an answer
// is lost, the next attempt asks again with the same member id.
func (m *Member) join(ctx context.Context) (*Generation, error) {
	a, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	m.kept.id = a.member
	m.tenancy.joined(m.identity(a.generation))
	lead := a.leader == a.member
	var assignments map[string][]byte
	if lead && !a.skip {
		if assignments, err = m.shareOut(ctx, a); err != nil {
			return nil, err
		}
	}
	body, err := m.sync(ctx, requestSync(m.identity(a.generation), assignments))
	if err != nil {
		return nil, err
	}
	given, ok := readAssignment(body, m.options.Topic)
	if !ok {
		return nil, &wire.Error{
			Op: m.joinOp(), Temporary: true, Err: errors.New("the assignment is cut short"),
		}
	}
	if !fits(given.settings, m.options.Settings) {
		return nil, m.differs(given.settings)
	}
	m.kept.last = said{
		claim:  claim{generation: a.generation, partitions: given.own},
		shares: given.all, settings: m.options.Settings,
	}
	life := &life{lead: lead, total: given.total}
	life.ctx, life.end = context.WithCancelCause(context.Background())
	gen := &Generation{
		ID: a.generation, MemberID: a.member, InstanceID: m.options.InstanceID,
		Partitions: slices.Clone(given.own), member: m, life: life,
	}
	m.tenancy.begin(gen, m.identity(a.generation))
	return gen, nil
}

func (m *Member) joinOp() string { return "join group " + m.options.ID }

// identity returns how this member names itself in a generation.
func (m *Member) identity(generation int32) Identity {
	return Identity{m.options.ID, generation, m.kept.id, m.options.InstanceID}
}

// enter sends JoinGroup, and sends it again if the coordinator has only given out a member id
// (KIP-394). The coordinator answers when all members have joined, or when those that have not
// have used up their RebalanceTimeout.
func (m *Member) enter(ctx context.Context) (joined, error) {
	o := m.options
	broker, err := wire.FindCoordinator(ctx, m.client, o.Options, o.ID)
	if err != nil {
		return joined{}, err
	}
	if !m.kept.same || m.kept.subscription == nil {
		say := m.kept.last
		if o.Copies != nil {
			say.copies = fewEnoughCopies(o.Copies(), say.shares)
		}
		m.kept.subscription = appendSubscription(nil, o.Topic, say)
	}
	m.kept.same = false
	for attempt := 0; ; attempt++ {
		request := requestJoin(m.identity(0), int32(o.SessionTimeout.Milliseconds()),
			int32(o.RebalanceTimeout.Milliseconds()), m.kept.subscription)
		body, err := m.ask(ctx, wire.Exchange{
			Op: m.joinOp(), Message: request, To: broker,
			Timeout: o.RebalanceTimeout + o.RequestTimeout,
		})
		if err != nil {
			return joined{}, err
		}
		a, ok := readJoined(body)
		switch {
		case !ok:
			return joined{}, wire.CutShort(m.joinOp())
		case a.code == kafka.MemberIDRequired && attempt == 0 && a.member != "":
			m.kept.id = a.member
		case a.code != 0:
			return joined{}, wire.Refused(m.joinOp(), a.code)
		default:
			m.hear(time.Now()) // the session has begun again: joining may take longer than one
			return a, nil
		}
	}
}

// shareOut is the leader's work: it returns the assignments of all members, by member id. The
// others wait for it, and the leader's own session goes on meanwhile, so it gives up before the
// session ends.
func (m *Member) shareOut(ctx context.Context, a joined) (map[string][]byte, error) {
	topic, o := m.options.Topic, m.options.Options
	o.RetryTimeout = m.options.SessionTimeout / 3
	o.RequestTimeout = min(o.RequestTimeout, o.RetryTimeout)
	counts, err := admin.Partitions(ctx, m.client, o, topic)
	if errors.As(err, new(*admin.MissingTopicsError)) { // somebody may be about to create it
		err = &wire.Error{Op: "share out the partitions of " + topic, Temporary: true, Err: err}
	}
	if err != nil {
		return nil, err
	}
	heard := make([]said, len(a.members))
	for i, member := range a.members {
		heard[i] = readSubscription(member.subscription, topic)
	}
	settings := inForce(a.members, heard, a.leader)
	var fitting []joinedMember
	var shares []share
	for i, member := range a.members {
		if fits(heard[i].settings, settings) {
			fitting = append(fitting, member)
		} else { // it gets no partition, and learns which settings count
			shares = append(shares, share{member: member.id, instance: member.instance})
		}
	}
	total := int32(counts[topic])
	given := assign(total, candidates(topic, fitting, m.kept.last))
	shares = append(shares, given...)
	known := fewEnough(shares)
	assignments := make(map[string][]byte, len(shares))
	for _, s := range shares {
		assignments[s.member] = appendAssignment(nil, topic, assignment{
			s.partitions, total, known, settings,
		})
	}
	return assignments, nil
}

// inForce chooses the settings that the group goes by. Members that hold partitions decide, and not
// the leader: a newcomer that happens to lead must not stop those that work.
//
// Guarantee: inForce returns the settings whose members have the most partitions by their own
// accounts, where of two claims to a partition the newer one counts. Among equals it prefers the
// settings of the most members; then the leader's, who was usually there first; then the smaller
// bytes. It returns nil if no member names any; such members fit all. Members with
// the chosen settings, or with none, get partitions.
func inForce(members []joinedMember, said []said, leader string) []byte {
	claims := make([]candidate, len(members))
	most := int32(0)
	for i, s := range said {
		claims[i] = candidate{member: members[i].id, claims: []claim{s.claim}}
		for _, p := range s.partitions {
			most = max(most, min(p, maxPartitions)+1)
		}
	}
	had := owners(most, claims)
	var parties []party
	for i, s := range said {
		if len(s.settings) == 0 {
			continue
		}
		at := slices.IndexFunc(parties, func(p party) bool {
			return bytes.Equal(p.settings, s.settings)
		})
		if at < 0 {
			at, parties = len(parties), append(parties, party{settings: s.settings})
		}
		p := &parties[at]
		p.partitions += len(had[i])
		p.size++
		if members[i].id == leader {
			p.leaders = 1
		}
	}
	if len(parties) == 0 {
		return nil
	}
	return slices.MaxFunc(parties, party.compare).settings
}

// candidates gathers what is known about which partitions the members had: from their own accounts,
// and from the newest account of all members' shares, which may be the leader's or another
// member's.
func candidates(topic string, members []joinedMember, newest said) []candidate {
	all := make([]candidate, len(members))
	for i, member := range members {
		s := readSubscription(member.subscription, topic)
		all[i] = candidate{
			member: member.id, instance: member.instance, claims: []claim{s.claim},
			copies: s.copies,
		}
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

// sync sends SyncGroup and repeats it while the answer is lost, because to join again would make
// the whole group start over.
func (m *Member) sync(ctx context.Context, request *wire.Request) (assignment []byte, err error) {
	o := m.options.Options
	o.RetryTimeout = m.options.SessionTimeout / 3
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		broker, err := wire.FindCoordinator(ctx, m.client, o, m.options.ID)
		if err != nil {
			return err
		}
		body, err := m.ask(ctx, wire.Exchange{
			Op: m.joinOp(), Message: request, To: broker,
			Timeout: m.options.RebalanceTimeout + o.RequestTimeout,
		})
		if err != nil {
			return err
		}
		code, got, ok := readSynced(body)
		switch {
		case !ok:
			return wire.CutShort(m.joinOp())
		case code != 0:
			return wire.Refused(m.joinOp(), code)
		}
		assignment = got
		return nil
	})
	return assignment, err
}

// differs returns the error for an assignment that names other settings than this member's.
//
// A static member may have been given the assignment of its last run, whose settings were different
// and whose companions may be gone. So it leaves and joins once more, and the members who are
// present decide. For any other member the answer is final.
func (m *Member) differs(found []byte) error {
	if m.options.InstanceID != "" && !m.kept.asked {
		m.kept.asked = true
		if err := m.leave(); err != nil {
			return err
		}
		m.kept.id, m.kept.subscription = "", nil
		return &wire.Error{
			Op: m.joinOp(), Temporary: true,
			Err: errors.New("the settings differ from this instance's last run"),
		}
	}
	return &wire.Error{Op: m.joinOp(), Err: &SettingsError{
		Group: m.options.ID, Found: found, Own: m.options.Settings,
	}}
}

// ask makes one exchange with the coordinator. It cuts the connection when the context ends,
// because the answer may be a long time coming.
func (m *Member) ask(ctx context.Context, x wire.Exchange) ([]byte, error) {
	x.Cut = ctx
	answer, err := wire.Ask[*wire.Frame](ctx, m.client, x)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// askCode is ask for a request whose answer is a code.
func (m *Member) askCode(ctx context.Context, x wire.Exchange) (kafka.Error, error) {
	body, err := m.ask(ctx, x)
	if err != nil {
		return 0, err
	}
	code, ok := readCode(x.Message.ApiKey(), body)
	if !ok {
		return 0, wire.CutShort(x.Op)
	}
	return code, nil
}

// tell finds the coordinator and sends it a request whose answer is a code.
func (m *Member) tell(ctx context.Context, o wire.Options, op string, request *wire.Request) (
	kafka.Error, error,
) {
	broker, err := wire.FindCoordinator(ctx, m.client, o, m.options.ID)
	if err != nil {
		return 0, err
	}
	return m.askCode(ctx, wire.Exchange{
		Op: op, Message: request, To: broker, Timeout: o.RequestTimeout,
	})
}

// beat sends heartbeats until the context ends, or until the member is out: refused by the
// coordinator, or without an answer for a whole session. It counts the session from when an
// answered request was sent. So this member never believes in its session for longer than the
// coordinator does, and a process that was stopped finds out when it goes on.
func (m *Member) beat(ctx context.Context, gen *Generation) {
	op := fmt.Sprintf("keep the membership in group %s", m.options.ID)
	session := m.options.SessionTimeout
	attempt := min(m.options.RequestTimeout, max(session/3, m.options.HeartbeatInterval))
	broker, alive := wire.AnyBroker, time.Now()
	var last error
	out := func(err error) {
		m.tenancy.over(ended(err))
		gen.life.end(ended(err)) // before out is set: Check says why
		gen.life.out.Store(true)
	}
	for ctx.Err() == nil {
		sent := time.Now()
		left := session - sent.Sub(alive)
		if left <= 0 {
			silent := fmt.Errorf("no answer within the session timeout %v", session)
			out(&wire.Error{Op: op, Temporary: true, Err: errors.Join(silent, last)})
			return
		}
		code, err := m.pulse(ctx, gen, op, &broker, min(attempt, left))
		wait := m.options.HeartbeatInterval
		switch {
		case err != nil:
			last, broker = err, wire.AnyBroker
			wait = min(wait, m.options.MaxBackoff)
		case code == 0:
			alive, last = sent, nil
			m.hear(sent)
		case code == kafka.RebalanceInProgress:
			alive, last = sent, nil
			m.hear(sent)
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
func (m *Member) pulse(ctx context.Context, gen *Generation, op string, broker *int32,
	timeout time.Duration,
) (kafka.Error, error) {
	if *broker == wire.AnyBroker {
		o := m.options.Options
		o.RequestTimeout = timeout
		found, err := wire.FindCoordinator(ctx, m.client, o, m.options.ID)
		if err != nil {
			return 0, err
		}
		*broker = found
	}
	code, err := m.askCode(ctx, wire.Exchange{
		Op: op, Message: gen.heartbeat(), To: *broker, Timeout: timeout,
	})
	if err == nil && wire.Temporary(code) {
		err = wire.Refused(op, code)
	}
	return code, err
}

// watch ends the generation when the topic's number of partitions is no longer the one that was
// shared out, or if another topic's partitions were. Only the leader watches, because the others
// join when the leader does.
func (m *Member) watch(ctx context.Context, gen *Generation) {
	o := m.options.Options
	o.RetryTimeout = m.options.WatchInterval
	ticker := time.NewTicker(m.options.WatchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gen.life.ctx.Done():
			return
		case <-ticker.C:
		}
		counts, err := admin.Partitions(ctx, m.client, o, m.options.Topic)
		if err == nil && int32(counts[m.options.Topic]) != gen.life.total {
			gen.life.end(ended(errGrown))
			return
		}
	}
}

// The four requests of a group's member, in versions that kafka-go does not have, or encodes or
// decodes wrongly: JoinGroup 9, SyncGroup 5, Heartbeat 4, LeaveGroup 4. JoinGroup 9 (Kafka 3.2) is
// the first whose answer tells a leader that came back under its instance id to keep the
// assignment (KIP-814). All of them carry the instance id (KIP-345).

// Identity is how a member names itself to the coordinator.
type Identity struct {
	Group      string
	Generation int32
	MemberID   string
	InstanceID string // empty for a dynamic member
}

// requestJoin asks to be in the next generation. The answer comes when that has begun.
//
//	group | session timeout 4 | rebalance timeout 4 | member | instance, nullable |
//	protocol type | protocols array of (name | metadata bytes | tags) |
//	reason, nullable | tags
func requestJoin(by Identity, sessionMS, rebalanceMS int32, subscription []byte) *wire.Request {
	q := wire.NewRequest(protocol.JoinGroup, 9).String(by.Group).Int32(sessionMS).Int32(rebalanceMS)
	q.String(by.MemberID).Nullable(by.InstanceID).String(protocolType)
	q.Count(1).String(protocolName).Bytes(subscription).End()
	return q.Nullable("").End()
}

// joined is the answer to requestJoin.
type joined struct {
	code       kafka.Error
	generation int32
	leader     string
	skip       bool // the leader leaves the assignment as it is
	member     string
	members    []joinedMember // if this member is the leader
}

// readJoined reads:
//
//	tags | throttle 4 | error 2 | generation 4 | protocol type, nullable |
//	protocol, nullable | leader | skip 1 | member |
//	members array of (member | instance, nullable | metadata bytes | tags) | tags
func readJoined(body []byte) (joined, bool) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	a := joined{code: kafka.Error(r.Int16()), generation: r.Int32()}
	r.CompactString() // protocol type
	r.CompactString() // protocol
	a.leader = string(r.CompactString())
	a.skip = r.Int8() != 0
	a.member = string(r.CompactString())
	for range r.CompactCount(4) {
		a.members = append(a.members, joinedMember{
			id: string(r.CompactString()), instance: string(r.CompactString()),
			subscription: r.CompactString(),
		})
		r.SkipTags()
	}
	return a, !r.Short
}

// requestSync asks for this member's assignment. The leader's request brings the assignments of
// all members, by member id.
//
//	group | generation 4 | member | instance, nullable | protocol type, nullable |
//	protocol, nullable | assignments array of (member | bytes | tags) | tags
func requestSync(by Identity, assignments map[string][]byte) *wire.Request {
	q := wire.NewRequest(protocol.SyncGroup, 5).String(by.Group).Int32(by.Generation)
	q.String(by.MemberID).Nullable(by.InstanceID).Nullable(protocolType).Nullable(protocolName)
	q.Count(len(assignments))
	for member, assignment := range assignments {
		q.String(member).Bytes(assignment).End()
	}
	return q.End()
}

// readSynced reads:
//
//	tags | throttle 4 | error 2 | protocol type, nullable | protocol, nullable |
//	assignment bytes | tags
func readSynced(body []byte) (code kafka.Error, assignment []byte, ok bool) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	code = kafka.Error(r.Int16())
	r.CompactString() // protocol type
	r.CompactString() // protocol
	assignment = r.CompactString()
	return code, assignment, !r.Short
}

// readCode reads tags | throttle 4 | error 2, which is all that matters of the answer to a
// heartbeat. In the answer to requestLeave the members' codes follow. readCode returns the first
// code that is not 0.
func readCode(key protocol.ApiKey, body []byte) (kafka.Error, bool) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	code := kafka.Error(r.Int16())
	if key == protocol.LeaveGroup {
		for range r.CompactCount(5) {
			r.CompactString() // member
			r.CompactString() // instance
			if of := kafka.Error(r.Int16()); code == 0 {
				code = of
			}
			r.SkipTags()
		}
	}
	return code, !r.Short
}

// maxSharesBytes bounds what the shares add to all subscriptions, or to all assignments, of a
// group: the coordinator keeps both in one record, which may usually have 1 MiB. A larger group,
// from some fifty members on, does without the shares.
const maxSharesBytes = 256 << 10

// Bounds of what the copies add to all subscriptions, for the same reason: maxCopiesBytes where the
// members know how many they are, and else fewCopies a member.
const (
	maxCopiesBytes = 256 << 10
	fewCopies      = 128
)

// fewEnoughCopies returns the first of the copies. The shares are those of the last generation.
func fewEnoughCopies(copies []Copy, shares []share) []Copy {
	most := fewCopies
	if len(shares) > 0 {
		most = maxCopiesBytes / copyBytes / len(shares)
	}
	return copies[:min(len(copies), most)]
}

// fewEnough returns the shares if they are small enough to be sent to all members, else nil.
func fewEnough(shares []share) []share {
	size := len(appendUserData(nil, userData{shares: shares})) + maxSettingsBytes
	if size*len(shares) > maxSharesBytes {
		return nil
	}
	return shares
}
