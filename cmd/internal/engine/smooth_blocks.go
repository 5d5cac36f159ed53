package engine

import (
	"bytes"

	"github.com/geodither/geodither/mechanism/aggregate"
)

// maxBlockBytes bounds the memory for the open blocks of a partition's users: about a thousand
// users with two intervals of ten steps each.
const maxBlockBytes = 16 << 20

// openBlocks keeps open blocks in memory, so that their records need not be run again. A block is a
// function of the user's state, whose bytes it is kept with: for any other state it is not used. So
// what is kept changes no result. Where there is no room, any block makes way.
type openBlocks struct {
	users       map[string]*openBlock
	bytes, most int
}

// openBlock is the open block of a user.
type openBlock struct {
	open  aggregate.Open
	state []byte // the encoded state behind its last record
	known bool   // it has all open records of the state at hand
	size  int    // in bytes
}

// of returns a user's block, which has so many open records: known if it is the one of the state,
// or a new one. It is the caller's until keep.
func (b *openBlocks) of(user, state []byte, records int) *openBlock {
	o := b.users[string(user)]
	if o == nil {
		o = new(openBlock)
	} else {
		b.bytes -= o.size
		delete(b.users, string(user))
	}
	if records == 0 {
		o.open.Reset()
		o.known = true
	} else {
		o.known = o.open.Records() == records && bytes.Equal(o.state, state)
	}
	return o
}

// keep keeps a block with the state that it belongs to, if it is known and has a record.
func (b *openBlocks) keep(user []byte, o *openBlock, state []byte, records int) {
	if !o.known || records == 0 || o.open.Records() != records {
		return
	}
	o.state = append(o.state[:0], state...)
	o.size = 200 + len(user) + cap(o.state) + o.open.Size()
	if o.size > b.most {
		return
	}
	for name, other := range b.users {
		if b.bytes+o.size <= b.most {
			break
		}
		b.bytes -= other.size
		delete(b.users, name)
	}
	if b.users == nil {
		b.users = map[string]*openBlock{}
	}
	b.users[string(user)] = o
	b.bytes += o.size
}

// clear forgets all blocks.
func (b *openBlocks) clear() { b.users, b.bytes = nil, 0 }
