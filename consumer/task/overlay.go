package task

import (
	"bytes"
	"hash/maphash"
)

// overlay is what one transaction will write: the messages and the new states, at most one for each
// key. None of it is in the store yet. All bytes are copies in an arena that the next transaction
// uses again, so a running task does not allocate.
type overlay struct {
	entries []entry  // in order of first change
	table   []uint32 // open addressing: 1 + index into entries, 0 is free
	seed    maphash.Seed
	out     []Message
	dead    []Message
	arena   arena
	bytes   int // of the keys and values in out, dead and entries
}

// entry is the state of a key after this transaction.
type entry struct {
	hash      uint64
	key       []byte
	value     []byte
	forgotten bool
	timestamp int64
}

const minTable = 1 << 8

func newOverlay() *overlay {
	return &overlay{table: make([]uint32, minTable), seed: maphash.MakeSeed()}
}

// get returns the state of a key as this transaction leaves it. Found is false if the transaction
// has not changed it. A forgotten state is empty and found.
func (o *overlay) get(key []byte) (value []byte, found bool) {
	_, e := o.slot(key, maphash.Bytes(o.seed, key))
	if e == nil {
		return nil, false
	}
	return e.value, true
}

// put records a new state. It costs two copies for a new key, one for a key that has changed
// before, and no allocation in steady state.
func (o *overlay) put(key, value []byte, forgotten bool, timestamp int64) {
	hash := maphash.Bytes(o.seed, key)
	at, e := o.slot(key, hash)
	if e == nil {
		o.entries = append(o.entries, entry{hash: hash, key: o.arena.copy(key)})
		e = &o.entries[len(o.entries)-1]
		o.table[at] = uint32(len(o.entries))
		o.bytes += len(key)
		if 2*len(o.entries) > len(o.table) {
			o.grow()
		}
	}
	o.bytes += len(value) - len(e.value)
	if cap(e.value) >= len(value) {
		e.value = append(e.value[:0], value...)
	} else {
		e.value = o.arena.copy(value)
	}
	e.forgotten, e.timestamp = forgotten, timestamp
}

// slot returns the entry of a key, or the free place in the table where the entry goes. The table
// is at most half full, so there is a free place.
func (o *overlay) slot(key []byte, hash uint64) (at uint64, e *entry) {
	mask := uint64(len(o.table) - 1)
	for at = hash & mask; ; at = (at + 1) & mask {
		i := o.table[at]
		if i == 0 {
			return at, nil
		}
		e = &o.entries[i-1]
		if e.hash == hash && bytes.Equal(e.key, key) {
			return at, e
		}
	}
}

func (o *overlay) grow() {
	o.table = make([]uint32, 2*len(o.table))
	mask := uint64(len(o.table) - 1)
	for i := range o.entries {
		at := o.entries[i].hash & mask
		for o.table[at] != 0 {
			at = (at + 1) & mask
		}
		o.table[at] = uint32(i + 1)
	}
}

// send appends copies of messages to dst.
func (o *overlay) send(dst, messages []Message) []Message {
	for _, m := range messages {
		o.bytes += len(m.Key) + len(m.Value)
		for _, h := range m.Headers {
			o.bytes += len(h.Name) + len(h.Value)
		}
		dst = append(dst, Message{
			Key: o.arena.copy(m.Key), Value: o.arena.copy(m.Value), Timestamp: m.Timestamp,
			Headers: m.Headers, To: m.To,
		})
	}
	return dst
}

// reset removes everything and keeps the memory.
func (o *overlay) reset() {
	clear(o.table)
	o.entries, o.out, o.dead = o.entries[:0], o.out[:0], o.dead[:0]
	o.arena.reset()
	o.bytes = 0
}

// arena copies bytes into chunks that do not move until reset.
type arena struct {
	chunks [][]byte // chunks[:used] hold data
	used   int
}

const chunkSize = 64 << 10

// copy returns nil for nil, because a null key or value of a message is not an empty one.
func (a *arena) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	if a.used == 0 || cap(a.chunks[a.used-1])-len(a.chunks[a.used-1]) < len(b) {
		a.next(len(b))
	}
	chunk := a.chunks[a.used-1]
	at := len(chunk)
	a.chunks[a.used-1] = append(chunk, b...)
	return a.chunks[a.used-1][at : at+len(b) : at+len(b)]
}

// next opens a chunk with room for n bytes. It allocates an oversized chunk, which reset drops.
func (a *arena) next(n int) {
	if n <= chunkSize && a.used < len(a.chunks) {
		a.used++
		return
	}
	chunk := make([]byte, 0, max(n, chunkSize))
	a.chunks = append(a.chunks[:a.used], append([][]byte{chunk}, a.chunks[a.used:]...)...)
	a.used++
}

func (a *arena) reset() {
	kept := a.chunks[:0]
	for _, c := range a.chunks {
		if cap(c) == chunkSize {
			kept = append(kept, c[:0])
		}
	}
	clear(a.chunks[len(kept):])
	a.chunks, a.used = kept, 0
}
