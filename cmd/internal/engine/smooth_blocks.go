package engine

import (
	"bytes"

	"github.com/geodither/geodither/mechanism/aggregate"
)

// maxBlockBytes bounds the memory for the open blocks of a partition's users: 300 to 500 users with
// two intervals of ten steps each, and a record a step.
const maxBlockBytes = 16 << 20

// openBlocks keeps open blocks in memory, so that their records need not be decoded and run again.
// A block is a function of the user's encoded state, with which it is kept: for any other state it
// is not used. So what is kept changes no result. Where there is no room, any block makes way.
type openBlocks struct {
	users       map[string]*openBlock
	bytes, most int
}

// openBlock is a user's state with the open block.
type openBlock struct {
	smoothState
	block   aggregate.Open
	known   bool   // block has the open records
	encoded []byte // the state
	size    int    // in bytes
}

// of returns a user's state. It is the caller's until keep.
func (b *openBlocks) of(user, state []byte, stepMS int64) (*openBlock, error) {
	o := b.users[string(user)]
	if o != nil {
		b.bytes -= o.size
		delete(b.users, string(user))
		if bytes.Equal(o.encoded, state) {
			return o, nil
		}
	} else {
		o = new(openBlock)
	}
	o.known = false
	return o, o.DecodeBinary(state, stepMS)
}

// keep keeps a user's state if the block is known and has a record.
func (b *openBlocks) keep(user []byte, o *openBlock, encoded []byte) {
	if !o.known || len(o.open) == 0 {
		return
	}
	o.encoded = append(o.encoded[:0], encoded...)
	const record = 300 // of open, in bytes
	o.size = 500 + len(user) + cap(o.encoded) + cap(o.stored) + cap(o.before) + record*cap(o.open) +
		o.track.Size() + o.block.Size()
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
