package group

import (
	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// The four requests of a group's member, in versions that kafka-go does not
// have, or writes or reads wrongly: JoinGroup 9 (the first whose answer tells a
// leader that came back under its instance id to keep the assignment, KIP-814;
// Kafka 3.2), SyncGroup 5, Heartbeat 4, LeaveGroup 4. All are flexible, and all
// of them carry the instance id (KIP-345).

// joinGroup asks to be in the next generation. It is answered when that has
// begun.
type joinGroup struct {
	group, member, instance string
	sessionMS, rebalanceMS  int32
	subscription            []byte
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*joinGroup) ApiKey() protocol.ApiKey { return protocol.JoinGroup } //nolint:revive // kafka-go's name

// Encode writes version 9:
//
//	group | session timeout 4 | rebalance timeout 4 | member | instance, nullable |
//	protocol type | protocols array of (name | metadata bytes | tags) |
//	reason, nullable | tags
func (q *joinGroup) Encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 9
	w := wire.NewWriter(protocol.JoinGroup, version, correlationID, clientID)
	w.CompactString(q.group).Int32(q.sessionMS).Int32(q.rebalanceMS).CompactString(q.member).NullableString(q.instance)
	w.CompactString(protocolType).CompactCount(1).CompactString(protocolName).CompactBytes(q.subscription).NoTags()
	return w.NullableString("").NoTags().Request(), version
}

// joined is the answer to joinGroup.
type joined struct {
	code       kafka.Error
	generation int32
	leader     string
	skip       bool // the leader is to leave the assignment as it is
	member     string
	members    []joinedMember // if this member is the leader
}

type joinedMember struct {
	id, instance string
	subscription []byte
}

// readJoined takes:
//
//	tags | throttle 4 | error 2 | generation 4 | protocol type, nullable |
//	protocol, nullable | leader | skip 1 | member |
//	members array of (member | instance, nullable | metadata bytes | tags) | tags
func readJoined(body []byte) (joined, bool) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	a := joined{code: kafka.Error(r.Int16()), generation: r.Int32()}
	r.CompactString()
	r.CompactString()
	a.leader, a.skip, a.member = string(r.CompactString()), r.Int8() != 0, string(r.CompactString())
	for range r.CompactCount(4) {
		a.members = append(a.members, joinedMember{
			id: string(r.CompactString()), instance: string(r.CompactString()), subscription: r.CompactString(),
		})
		r.SkipTags()
	}
	return a, !r.Short
}

// syncGroup asks for this member's assignment; the leader's brings everybody's.
type syncGroup struct {
	group, member, instance string
	generation              int32
	assignments             map[string][]byte // by member id
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*syncGroup) ApiKey() protocol.ApiKey { return protocol.SyncGroup } //nolint:revive // kafka-go's name

// Encode writes version 5:
//
//	group | generation 4 | member | instance, nullable | protocol type, nullable |
//	protocol, nullable | assignments array of (member | bytes | tags) | tags
func (q *syncGroup) Encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 5
	w := wire.NewWriter(protocol.SyncGroup, version, correlationID, clientID)
	w.CompactString(q.group).Int32(q.generation).CompactString(q.member).NullableString(q.instance)
	w.NullableString(protocolType).NullableString(protocolName).CompactCount(len(q.assignments))
	for member, assignment := range q.assignments {
		w.CompactString(member).CompactBytes(assignment).NoTags()
	}
	return w.NoTags().Request(), version
}

// readSynced takes:
//
//	tags | throttle 4 | error 2 | protocol type, nullable | protocol, nullable |
//	assignment bytes | tags
func readSynced(body []byte) (code kafka.Error, assignment []byte, ok bool) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	code = kafka.Error(r.Int16())
	r.CompactString()
	r.CompactString()
	assignment = r.CompactString()
	return code, assignment, !r.Short
}

// heartbeat is a sign of life, and a question whether the generation lasts.
type heartbeat struct {
	group, member, instance string
	generation              int32
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*heartbeat) ApiKey() protocol.ApiKey { return protocol.Heartbeat } //nolint:revive // kafka-go's name

// Encode writes version 4: group | generation 4 | member | instance, nullable | tags.
func (q *heartbeat) Encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 4
	w := wire.NewWriter(protocol.Heartbeat, version, correlationID, clientID)
	w.CompactString(q.group).Int32(q.generation).CompactString(q.member).NullableString(q.instance)
	return w.NoTags().Request(), version
}

// leaveGroup gives a membership up.
type leaveGroup struct{ group, member, instance string }

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*leaveGroup) ApiKey() protocol.ApiKey { return protocol.LeaveGroup } //nolint:revive // kafka-go's name

// Encode writes version 4:
//
//	group | members array of (member | instance, nullable | tags) | tags
func (q *leaveGroup) Encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 4
	w := wire.NewWriter(protocol.LeaveGroup, version, correlationID, clientID)
	w.CompactString(q.group).CompactCount(1).CompactString(q.member).NullableString(q.instance).NoTags()
	return w.NoTags().Request(), version
}

// readCode takes tags | throttle 4 | error 2, which is all that matters of the
// answer to a heartbeat. In that to leaveGroup the members' codes follow, and
// the first that is not 0 is returned.
func readCode(key protocol.ApiKey, body []byte) (kafka.Error, bool) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	code := kafka.Error(r.Int16())
	if key == protocol.LeaveGroup {
		for range r.CompactCount(5) {
			r.CompactString()
			r.CompactString()
			if of := kafka.Error(r.Int16()); code == 0 {
				code = of
			}
			r.SkipTags()
		}
	}
	return code, !r.Short
}
