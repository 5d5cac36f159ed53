package group

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describegroups"
)

// SettingsError says that the group's partitions are in work under other settings than
// this member's. The member has left the group.
type SettingsError struct {
	Group      string
	Found, Own []byte // the group's settings, and this member's
}

// Error says what to do; what the settings are is for the caller to say.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("group %s is at work under other settings than this instance's, which has "+
		"left it. Give all instances the same settings; "+
		"to change them, stop every instance cleanly first (a stopped one with an instance_id "+
		"stays a member until its session_timeout)", e.Group)
}

// maxSettingsBytes bounds GroupOptions.Settings: every member says them, and they are in
// every assignment.
const maxSettingsBytes = 256

// inForce chooses the settings that the group goes by. What counts is where the work is,
// not who leads: a newcomer that comes to lead must not stop those that have partitions.
//
// Guarantee: the settings whose members have the most partitions by their own accounts,
// of two claims to one partition the newer; among equals those of the most members; then
// the leader's, who has mostly come first; then the smaller bytes. Nil if no member names
// any: older versions do not, and fit all. Members with the settings in force, or with
// none, get partitions.
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
	type party struct {
		settings         []byte
		partitions, size int
		leads            bool
	}
	var parties []party
	for i, s := range said {
		if len(s.settings) == 0 {
			continue
		}
		at := slices.IndexFunc(parties, func(p party) bool {
			return bytes.Equal(p.settings,
				s.settings)
		})
		if at < 0 {
			at, parties = len(parties), append(parties, party{settings: s.settings})
		}
		p := &parties[at]
		p.partitions, p.size, p.leads = p.partitions+len(had[i]), p.size+1, p.leads ||
			members[i].id == leader
	}
	if len(parties) == 0 {
		return nil
	}
	return slices.MaxFunc(parties, func(a, b party) int {
		lead := 0
		if a.leads != b.leads {
			lead = 1
			if b.leads {
				lead = -1
			}
		}
		return cmp.Or(cmp.Compare(a.partitions, b.partitions), cmp.Compare(a.size, b.size), lead,
			bytes.Compare(b.settings, a.settings))
	}).settings
}

// maxPartitions bounds what a claim that somebody else wrote can cost.
const maxPartitions = 1 << 16

// fits reports whether two settings do not contradict each other.
func fits(a, b []byte) bool { return len(a) == 0 || len(b) == 0 || bytes.Equal(a, b) }

// differs is called when the assignment tells other settings than this member's. A
// static member may have been given the assignment of its last life, whose settings were
// other ones and whose companions may be gone: it leaves and joins once more, so that
// those who are there decide. For any other member the answer is final.
func (g *Member) differs(found []byte) error {
	if g.options.InstanceID != "" && !g.kept.asked {
		g.kept.asked = true
		if err := g.leave(); err != nil {
			return err
		}
		g.kept.id, g.kept.subscription = "", nil
		return &wire.Error{
			Op: "join group " + g.options.ID, Temporary: true,
			Err: errors.New("the settings are other ones than those of this instance's last " +
				"life: joining anew"),
		}
	}
	return &wire.Error{Op: "join group " + g.options.ID, Err: &SettingsError{
		Group: g.options.ID,
		Found: found, Own: g.options.Settings,
	}}
}

// Settings returns the settings that the members of a group on a topic have named
// to it, each once, most members first. Members that name none, or are not of this
// package, and groups without members have none. It needs the permission to describe the
// group.
func Settings(ctx context.Context, client *kafka.Client, o wire.Options, group,
	topic string,
) ([][]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	op := "describe group " + group
	var found [][]byte
	err := o.Retry(ctx, func(ctx context.Context) error {
		broker, err := wire.FindCoordinator(ctx, client, o, group)
		if err != nil {
			return err
		}
		res, err := wire.RoundTrip(ctx, client, &wire.Exchange{
			To:      broker,
			Message: &describegroups.Request{Groups: []string{group}},
		}, o.RequestTimeout)
		if err != nil {
			return wire.Failed(client, op, err)
		}
		answer, ok := res.(*describegroups.Response)
		if !ok {
			return wire.Unexpected(op, res)
		}
		found, err = readGroupSettings(op, answer, topic)
		return err
	})
	return found, err
}

func readGroupSettings(op string, answer *describegroups.Response, topic string) ([][]byte, error) {
	counts := map[string]int{}
	for _, g := range answer.Groups {
		if code := kafka.Error(g.ErrorCode); code == kafka.GroupIdNotFound {
			continue
		} else if code != 0 {
			return nil, wire.Refused(op, code)
		}
		for _, m := range g.Members {
			if s := readSubscription(m.MemberMetadata, topic); g.ProtocolData == protocolName &&
				len(s.settings) > 0 {
				counts[string(s.settings)]++
			}
		}
	}
	var found [][]byte
	for settings := range counts {
		found = append(found, []byte(settings))
	}
	slices.SortFunc(found, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(counts[string(b)], counts[string(a)]), bytes.Compare(a, b))
	})
	return found, nil
}
