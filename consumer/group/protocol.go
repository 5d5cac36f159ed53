package group

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/geodither/geodither/consumer/wire"
)

// The coordinator carries what the members say to each other. The format is that of Kafka's own
// consumers, so that Kafka's tools can read it. The protocol's name is ours, so that no other kind
// of member takes part.
const (
	protocolType = "consumer"
	protocolName = "geodither-sticky"
)

// claim is which partitions a member had, and in which generation. The newer claim counts.
type claim struct {
	generation int32
	partitions []int32
}

// share is one member's part in a generation.
type share struct {
	member, instance string
	partitions       []int32
}

// said is what a member's subscription says: which partitions it had, and if it knows that, which
// ones all members had.
type said struct {
	claim
	shares   []share // of the same generation
	settings []byte  // what the member works under, opaque here; empty if it does not say
	copies   []Copy  // what the member has of partitions' states
}

// copyBytes is what one Copy takes.
const copyBytes = 4 + 8

// appendSubscription writes version 2 of Kafka's ConsumerProtocolSubscription:
//
//	version 2 | topics array of string | user data bytes |
//	owned array of (topic string | partitions array of 4) | generation 4
//
// The user data hold the member's settings and the shares of the last assignment. So the next
// leader knows which partitions each member had, even if it and another member have restarted since
// and know nothing. They end with the copies of states that the member has, if any:
//
//	array of (partition 4 | offset 8)
func appendSubscription(b []byte, topic string, s said) []byte {
	const version = 2
	be := binary.BigEndian
	b = be.AppendUint16(b, version)
	b = be.AppendUint32(b, 1)
	b = appendString(b, topic)
	b = appendUserData(b, userData{int32(len(s.partitions)), s.shares, s.settings, s.copies})
	b = appendPartitions(b, topic, s.partitions)
	return be.AppendUint32(b, uint32(s.generation))
}

// readSubscription reads what a member of this or another program wrote. A subscription that cannot
// be read claims nothing.
func readSubscription(b []byte, topic string) said {
	r := &wire.Reader{Rest: b}
	version := r.Int16()
	for range r.Count(2) {
		r.String()
	}
	data := r.Take(max(0, int(r.Int32())))
	none := said{claim: claim{generation: -1}}
	if version < 1 {
		return none
	}
	s := none
	s.partitions, _ = readPartitions(r, topic)
	if version >= 2 {
		s.generation = r.Int32()
	}
	if r.Short {
		return none
	}
	u := readUserData(data)
	s.shares, s.settings, s.copies = u.shares, u.settings, u.copies
	return s
}

// appendAssignment writes version 0 of Kafka's ConsumerProtocolAssignment:
//
//	version 2 | array of (topic string | partitions array of 4) | user data bytes
//
// The user data hold how many partitions were shared out, all members' shares, and the settings
// that the group goes by. The topic is named even if the member gets none of its partitions.
func appendAssignment(b []byte, topic string, a assignment) []byte {
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = appendInts(appendString(b, topic), a.own)
	return appendUserData(b, userData{a.total, a.all, a.settings, nil})
}

// readAssignment returns this member's partitions, ascending, and the user data. The total is -1 if
// another program wrote the assignment, or if it is for another topic: a coordinator keeps the
// assignment of a static member that comes back, whichever topic the member wants now. A
// coordinator has an empty assignment for a member that the leader did not know.
func readAssignment(b []byte, topic string) (a assignment, ok bool) {
	a.total = -1
	if len(b) == 0 {
		return a, true
	}
	r := &wire.Reader{Rest: b}
	r.Int16() // version
	own, named := readPartitions(r, topic)
	data := r.Take(max(0, int(r.Int32())))
	if r.Short {
		return a, false
	}
	if !named {
		return a, true
	}
	slices.Sort(own)
	a.own = own
	u := readUserData(data)
	a.total, a.all, a.settings = u.partitions, u.shares, u.settings
	return a, true
}

// assignment is what the leader tells a member.
type assignment struct {
	own      []int32
	total    int32
	all      []share
	settings []byte // that the group goes by; empty if the leader does not say
}

const userDataVersion = 1

// userData are what members of this package say to each other beside what Kafka's own consumers
// say.
type userData struct {
	partitions int32
	shares     []share
	settings   []byte
	copies     []Copy
}

// appendUserData appends the length of what follows, in 4 bytes, and then:
//
//	version 1 | number of partitions 4 |
//	array of (member string | instance string | partitions array of 4) |
//	settings string | copies, see appendSubscription
func appendUserData(b []byte, u userData) []byte {
	be := binary.BigEndian
	start := len(b)
	b = append(b, 0, 0, 0, 0, userDataVersion)
	b = be.AppendUint32(b, uint32(u.partitions))
	b = be.AppendUint32(b, uint32(len(u.shares)))
	for _, s := range u.shares {
		b = appendString(appendString(b, s.member), s.instance)
		b = appendInts(b, s.partitions)
	}
	b = appendString(b, string(u.settings))
	if len(u.copies) > 0 {
		b = be.AppendUint32(b, uint32(len(u.copies)))
	}
	for _, c := range u.copies {
		b = be.AppendUint64(be.AppendUint32(b, uint32(c.Partition)), uint64(c.Offset))
	}
	be.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// readUserData returns -1 and no shares for user data of another program.
func readUserData(b []byte) userData {
	r := &wire.Reader{Rest: b}
	if r.Int8() != userDataVersion {
		return userData{partitions: -1}
	}
	u := userData{partitions: r.Int32()}
	for range r.Count(8) {
		u.shares = append(u.shares, share{
			member: string(r.String()), instance: string(r.String()), partitions: readInts(r),
		})
	}
	if r.Short {
		return userData{partitions: -1}
	}
	if settings := r.String(); !r.Short && len(settings) > 0 {
		u.settings = bytes.Clone(settings)
	}
	for range r.Count(copyBytes) {
		u.copies = append(u.copies, Copy{r.Int32(), r.Int64()})
	}
	if r.Short {
		u.copies = nil
	}
	return u
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendInts(b []byte, list []int32) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, v := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func readInts(r *wire.Reader) []int32 {
	var list []int32
	for range r.Count(4) {
		list = append(list, r.Int32())
	}
	return list
}

// appendPartitions appends the partitions of one topic, or of no topic if there are none.
func appendPartitions(b []byte, topic string, partitions []int32) []byte {
	if len(partitions) == 0 {
		return binary.BigEndian.AppendUint32(b, 0)
	}
	b = binary.BigEndian.AppendUint32(b, 1)
	return appendInts(appendString(b, topic), partitions)
}

// readPartitions returns the partitions of one topic, and whether the topic is named at all.
func readPartitions(r *wire.Reader, topic string) (found []int32, named bool) {
	for range r.Count(6) {
		name := string(r.String())
		if list := readInts(r); name == topic {
			found, named = append(found, list...), true
		}
	}
	return found, named
}

type joinedMember struct {
	id, instance string
	subscription []byte
}
