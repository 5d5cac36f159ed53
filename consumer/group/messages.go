package group

import (
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire"
)

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

type joinedMember struct {
	id, instance string
	subscription []byte
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

// requestHeartbeat tells the coordinator that the member is alive, and asks whether its generation
// lasts.
//
//	group | generation 4 | member | instance, nullable | tags
func requestHeartbeat(by Identity) *wire.Request {
	q := wire.NewRequest(protocol.Heartbeat, 4).String(by.Group).Int32(by.Generation)
	return q.String(by.MemberID).Nullable(by.InstanceID).End()
}

// requestLeave gives a membership up.
//
//	group | members array of (member | instance, nullable | tags) | tags
func requestLeave(by Identity) *wire.Request {
	q := wire.NewRequest(protocol.LeaveGroup, 4).String(by.Group)
	q.Count(1).String(by.MemberID).Nullable(by.InstanceID).End()
	return q.End()
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
