package consumer

import (
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

// encode writes version 9:
//
//	group | session timeout 4 | rebalance timeout 4 | member | instance, nullable |
//	protocol type | protocols array of (name | metadata bytes | tags) |
//	reason, nullable | tags
func (q *joinGroup) encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 9
	w := newFlexible(protocol.JoinGroup, version, correlationID, clientID)
	w.string(q.group).int32(q.sessionMS).int32(q.rebalanceMS).string(q.member).nullable(q.instance)
	w.string(protocolType).count(1).string(protocolName).bytes(q.subscription).tags()
	return w.nullable("").tags().request(), version
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
	r := &reader{b: body}
	r.tags()
	r.int32() // throttle time
	a := joined{code: kafka.Error(r.int16()), generation: r.int32()}
	r.compactString()
	r.compactString()
	a.leader, a.skip, a.member = string(r.compactString()), r.int8() != 0, string(r.compactString())
	for range r.compactCount(4) {
		a.members = append(a.members, joinedMember{
			id: string(r.compactString()), instance: string(r.compactString()), subscription: r.compactString(),
		})
		r.tags()
	}
	return a, !r.short
}

// syncGroup asks for this member's assignment; the leader's brings everybody's.
type syncGroup struct {
	group, member, instance string
	generation              int32
	assignments             map[string][]byte // by member id
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*syncGroup) ApiKey() protocol.ApiKey { return protocol.SyncGroup } //nolint:revive // kafka-go's name

// encode writes version 5:
//
//	group | generation 4 | member | instance, nullable | protocol type, nullable |
//	protocol, nullable | assignments array of (member | bytes | tags) | tags
func (q *syncGroup) encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 5
	w := newFlexible(protocol.SyncGroup, version, correlationID, clientID)
	w.string(q.group).int32(q.generation).string(q.member).nullable(q.instance)
	w.nullable(protocolType).nullable(protocolName).count(len(q.assignments))
	for member, assignment := range q.assignments {
		w.string(member).bytes(assignment).tags()
	}
	return w.tags().request(), version
}

// readSynced takes:
//
//	tags | throttle 4 | error 2 | protocol type, nullable | protocol, nullable |
//	assignment bytes | tags
func readSynced(body []byte) (code kafka.Error, assignment []byte, ok bool) {
	r := &reader{b: body}
	r.tags()
	r.int32() // throttle time
	code = kafka.Error(r.int16())
	r.compactString()
	r.compactString()
	assignment = r.compactString()
	return code, assignment, !r.short
}

// heartbeat is a sign of life, and a question whether the generation lasts.
type heartbeat struct {
	group, member, instance string
	generation              int32
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*heartbeat) ApiKey() protocol.ApiKey { return protocol.Heartbeat } //nolint:revive // kafka-go's name

// encode writes version 4: group | generation 4 | member | instance, nullable | tags.
func (q *heartbeat) encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 4
	w := newFlexible(protocol.Heartbeat, version, correlationID, clientID)
	w.string(q.group).int32(q.generation).string(q.member).nullable(q.instance)
	return w.tags().request(), version
}

// leaveGroup gives a membership up.
type leaveGroup struct{ group, member, instance string }

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*leaveGroup) ApiKey() protocol.ApiKey { return protocol.LeaveGroup } //nolint:revive // kafka-go's name

// encode writes version 4:
//
//	group | members array of (member | instance, nullable | tags) | tags
func (q *leaveGroup) encode(correlationID int32, clientID string) ([]byte, int16) {
	const version = 4
	w := newFlexible(protocol.LeaveGroup, version, correlationID, clientID)
	w.string(q.group).count(1).string(q.member).nullable(q.instance).tags()
	return w.tags().request(), version
}

// readCode takes tags | throttle 4 | error 2, which is all that matters of the
// answer to a heartbeat. In that to leaveGroup the members' codes follow, and
// the first that is not 0 is returned.
func readCode(key protocol.ApiKey, body []byte) (kafka.Error, bool) {
	r := &reader{b: body}
	r.tags()
	r.int32() // throttle time
	code := kafka.Error(r.int16())
	if key == protocol.LeaveGroup {
		for range r.compactCount(5) {
			r.compactString()
			r.compactString()
			if of := kafka.Error(r.int16()); code == 0 {
				code = of
			}
			r.tags()
		}
	}
	return code, !r.short
}
