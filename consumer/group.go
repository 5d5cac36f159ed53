package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
)

// GroupOptions are the settings of a Group; ID and Topic have no default.
type GroupOptions struct {
	Options
	ID    string // of the consumer group
	Topic string // whose partitions the members share
	// SessionTimeout is how long the coordinator waits for a sign of life
	// before it gives a member's partitions to others. Default 30 s.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between signs of life, and so the delay
	// with which a member learns of a new generation. Default 1 s; at most a
	// third of SessionTimeout.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long the others wait for a member to finish its
	// work and to join the new generation. Default 30 s.
	RebalanceTimeout time.Duration
	// WatchInterval is how often the topic is checked for new partitions.
	// Default 5 s.
	WatchInterval time.Duration
	// Retrying, if set, is told of every error that Next is going to retry.
	Retrying func(error)
}

// Group is a membership in a consumer group. Every change of members or
// partitions begins a new generation: the old one's work is stopped before the
// next begins.
type Group struct {
	client  *kafka.Client
	options GroupOptions
	group   *kafka.ConsumerGroup
}

// NewGroup starts joining in the background, with its own connections: to the
// client's address, with TLS, SASL and client id of its transport.
func NewGroup(client *kafka.Client, o GroupOptions) (*Group, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.ID == "" || o.Topic == "" {
		return nil, errors.New("consumer: a group needs an ID and a Topic")
	}
	if client.Addr == nil {
		return nil, errors.New("consumer: the client has no broker address")
	}
	o.Options = o.withDefaults()
	o.SessionTimeout = orDefault(o.SessionTimeout, 30*time.Second)
	o.HeartbeatInterval = orDefault(o.HeartbeatInterval, min(time.Second, o.SessionTimeout/3))
	o.RebalanceTimeout = orDefault(o.RebalanceTimeout, 30*time.Second)
	o.WatchInterval = orDefault(o.WatchInterval, 5*time.Second)
	if 3*o.HeartbeatInterval > o.SessionTimeout {
		return nil, fmt.Errorf("consumer: HeartbeatInterval %v is more than a third of SessionTimeout %v", o.HeartbeatInterval, o.SessionTimeout)
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:      o.ID,
		Topics:  []string{o.Topic},
		Brokers: strings.Split(client.Addr.String(), ","),
		Dialer:  dialer(client),
		// The co-partitioned topics follow the input's assignment, so that any
		// strategy would do; all members have to offer the same one.
		GroupBalancers:         []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		SessionTimeout:         o.SessionTimeout,
		HeartbeatInterval:      o.HeartbeatInterval,
		RebalanceTimeout:       o.RebalanceTimeout,
		JoinGroupBackoff:       o.MaxBackoff,
		Timeout:                o.RequestTimeout,
		WatchPartitionChanges:  true,
		PartitionWatchInterval: o.WatchInterval,
	})
	if err != nil {
		return nil, fmt.Errorf("consumer: group %s: %w", o.ID, err)
	}
	return &Group{client: client, options: o, group: group}, nil
}

// dialer is the transport's way to connect, for the part of kafka-go that does
// not use transports.
func dialer(client *kafka.Client) *kafka.Dialer {
	d := &kafka.Dialer{Timeout: 5 * time.Second, DualStack: true, ClientID: "geodither"}
	if t, ok := client.Transport.(*kafka.Transport); ok {
		d.TLS, d.SASLMechanism, d.DialFunc = t.TLS, t.SASL, t.Dial
		d.ClientID = orDefault(t.ClientID, d.ClientID)
		d.Timeout = orDefault(t.DialTimeout, d.Timeout)
	}
	return d
}

// Generation is what this member may work on until the group changes.
type Generation struct {
	ID         int32
	MemberID   string
	Partitions []int32 // of the group's topic, ascending; may be empty

	group *Group
	of    *kafka.Generation
}

// Next waits for the next generation, and before that for everything that was
// started in the last one. Temporary errors, of which an unreachable broker is
// one, are retried until the context ends. kafka.ErrGroupClosed follows Close.
func (g *Group) Next(ctx context.Context) (*Generation, error) {
	var last error
	for {
		of, err := g.group.Next(ctx)
		if err == nil {
			return g.generation(of), nil
		}
		if ctx.Err() != nil {
			if last != nil {
				return nil, fmt.Errorf("%w; last: %w", err, last)
			}
			return nil, err
		}
		if errors.Is(err, kafka.ErrGroupClosed) {
			return nil, err
		}
		failure := g.failure(err)
		if !failure.Temporary {
			return nil, failure
		}
		last = failure
		if g.options.Retrying != nil {
			g.options.Retrying(failure)
		}
	}
}

func (g *Group) generation(of *kafka.Generation) *Generation {
	gen := &Generation{ID: of.ID, MemberID: of.MemberID, group: g, of: of}
	// The assignment's offsets are left alone: they are read without waiting
	// for pending transactions (see Committed).
	for _, a := range of.Assignments[g.options.Topic] {
		gen.Partitions = append(gen.Partitions, int32(a.ID))
	}
	slices.Sort(gen.Partitions)
	return gen
}

// failure classifies an error of kafka-go's group: a lost connection is
// temporary, and so are the codes that a new attempt to join clears up.
func (g *Group) failure(err error) *Error {
	op := "join group " + g.options.ID
	var code kafka.Error
	if !errors.As(err, &code) {
		e := failed(g.client, op, err)
		var network net.Error
		if e.Hint == "" && errors.As(err, &network) {
			e.Hint = fmt.Sprintf("cannot reach any of %s: is Kafka running there?", g.client.Addr)
		}
		return e
	}
	e := refused(op, code)
	e.Err = err
	switch code {
	case kafka.RebalanceInProgress, kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.MemberIDRequired:
		e.Temporary = true
	case kafka.InvalidSessionTimeout:
		e.Hint = "keep SessionTimeout between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
	case kafka.InconsistentGroupProtocol:
		e.Hint = "another kind of member is in this group: use a group of its own"
	}
	return e
}

// Close leaves the group, after everything that was started in the current
// generation has returned.
func (g *Group) Close() error { return g.group.Close() }

// Start runs a function for as long as the generation lasts, on its own
// goroutine. Its context ends with the generation, and the next generation
// waits for it to return: for at most RebalanceTimeout, after which the group
// goes on without this member. If it returns before, it ends the generation for
// this member, which joins again.
func (g *Generation) Start(run func(ctx context.Context)) { g.of.Start(run) }

// Check asks the coordinator whether the generation is still the group's and
// the member still in it. ErrNotMember says no. It is what a worker asks before
// it fences its transactional id, lest it fence its successor.
func (g *Generation) Check(ctx context.Context) error {
	o := g.group.options
	op := fmt.Sprintf("check generation %d of group %s", g.ID, o.ID)
	return o.retry(ctx, func(ctx context.Context) error {
		broker, err := findCoordinator(ctx, g.group.client, o.Options, o.ID)
		if err != nil {
			return err
		}
		res, err := roundTrip(ctx, g.group.client, &exchange{broker: broker, raw: true, message: &heartbeat.Request{
			GroupID: o.ID, GenerationID: g.ID, MemberID: g.MemberID,
		}}, o.RequestTimeout)
		if err != nil {
			return failed(g.group.client, op, err)
		}
		answer, ok := res.(*frame)
		if !ok {
			return unexpected(op, res)
		}
		switch code := readHeartbeat(answer); code {
		case 0:
			return nil
		case kafka.RebalanceInProgress, kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.FencedInstanceID, kafka.GroupIdNotFound:
			return &Error{Op: op, Err: fmt.Errorf("%w: %w", ErrNotMember, code)}
		default:
			return refused(op, code)
		}
	})
}

// readHeartbeat returns the error code of a heartbeat's answer, which comes
// behind the throttle time; kafka-go looks for it in front.
func readHeartbeat(a *frame) kafka.Error {
	r := &reader{b: a.body}
	if a.version >= 4 {
		r.tags()
	}
	if a.version >= 1 {
		r.int32() // throttle time
	}
	code := kafka.Error(r.int16())
	if r.short {
		return kafka.NetworkException // cut short: ask again
	}
	return code
}
