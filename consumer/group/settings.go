package group

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describegroups"

	"github.com/geodither/geodither/consumer/wire"
)

// SettingsError says that the members that have the group's partitions work under other settings
// than this one. This member has left the group.
type SettingsError struct {
	Group      string
	Found, Own []byte // the group's settings, and this member's
}

// Error says what to do. The caller knows what the settings mean, and can say how they differ.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("group %s runs with other settings than this instance, which has left "+
		"the group. Give all instances the same settings; to change them, stop every instance "+
		"cleanly first (a stopped one with an instance_id "+
		"stays a member until its session_timeout)", e.Group)
}

// party is the members that have the same settings.
type party struct {
	settings                  []byte
	partitions, size, leaders int // partitions that they hold, members, and whether one leads
}

// compare orders parties by their right to decide, as inForce says.
func (p party) compare(q party) int {
	return cmp.Or(
		cmp.Compare(p.partitions, q.partitions),
		cmp.Compare(p.size, q.size),
		cmp.Compare(p.leaders, q.leaders),
		bytes.Compare(q.settings, p.settings),
	)
}

// maxPartitions bounds the memory that a claim in a foreign subscription can cost.
const maxPartitions = 1 << 16

// fits reports whether two settings do not contradict each other.
func fits(a, b []byte) bool { return len(a) == 0 || len(b) == 0 || bytes.Equal(a, b) }

// Settings returns the settings that the members of a group on a topic have named, each once, those
// of the most members first. There are none in a group without members, from members that name
// none, and from members that are not of this package. It needs the permission to describe the
// group.
func Settings(ctx context.Context, client *kafka.Client, o wire.Options, id, topic string) (
	found [][]byte, err error,
) {
	op := "describe group " + id
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		broker, err := wire.FindCoordinator(ctx, client, o, id)
		if err != nil {
			return err
		}
		answer, err := wire.Ask[*describegroups.Response](ctx, client, wire.Exchange{
			Op: op, Message: &describegroups.Request{Groups: []string{id}},
			To: broker, Timeout: o.RequestTimeout,
		})
		if err != nil {
			return err
		}
		found, err = readSettings(op, answer, topic)
		return err
	})
	return found, err
}

func readSettings(op string, answer *describegroups.Response, topic string) ([][]byte, error) {
	counts := map[string]int{}
	for _, g := range answer.Groups {
		switch code := kafka.Error(g.ErrorCode); {
		case code == kafka.GroupIdNotFound:
			continue
		case code != 0:
			return nil, wire.Refused(op, code)
		case g.ProtocolData != protocolName:
			continue
		}
		for _, member := range g.Members {
			if s := readSubscription(member.MemberMetadata, topic); len(s.settings) > 0 {
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
