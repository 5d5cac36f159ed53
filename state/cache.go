package state

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
)

// cache holds copies of values, up to a number of bytes. It is split into shards, so that
// partitions seldom wait for each other. Of a value that is gone no byte stays in its memory.
//
// Entries lie in a few chunks of memory for each shard, which have no pointers: a million entries
// cost the garbage collector nothing. A shard fills its chunks in turn. When all are full, it turns
// to the oldest one: entries that get has returned since the last turn stay, and the others go.
type cache struct {
	shards []shard // empty if there is no cache
	seed   maphash.Seed
}

const (
	cacheShards = 16
	cacheChunks = 16 // of a shard: the values of a whole one go at once
	minChunk    = 64 // bytes; where chunks would be smaller there is no cache
	minSlots    = 8
)

type shard struct {
	mu           sync.Mutex
	slots        []uint64 // a table with open addressing of slotOf, 0 is free
	live         int      // entries in the table
	limit        int      // bytes, of the table and the chunks
	chunk        int      // bytes of a chunk
	chunks       [cacheChunks][]byte
	used         [cacheChunks]int // bytes of each chunk that have entries, also ones that are gone
	order        []int            // of the chunks that exist: the oldest one first
	hits, misses uint64
	_            [64]byte // keeps neighbours off the same cache line
}

// entry is an entry with its room: the tag of its key, whether get has returned it, lengths of key
// and value, and how long the value may become, 4 bytes each but the second; key; value.
type entry []byte

const entryHeader = 4 + 1 + 3*4

func (e entry) tag() uint32   { return binary.LittleEndian.Uint32(e) }
func (e entry) keyLen() int   { return int(binary.LittleEndian.Uint32(e[5:])) }
func (e entry) valueLen() int { return int(binary.LittleEndian.Uint32(e[9:])) }
func (e entry) room() int     { return int(binary.LittleEndian.Uint32(e[13:])) }
func (e entry) key() []byte   { return e[entryHeader:][:e.keyLen()] }
func (e entry) value() []byte { return e[entryHeader+e.keyLen():][:e.valueLen()] }
func (e entry) size() int     { return entrySize(e.keyLen(), e.room()) }

func (e entry) setValue(value []byte) {
	binary.LittleEndian.PutUint32(e[9:], uint32(len(value)))
	room := e[entryHeader+e.keyLen():][:e.room()]
	clear(room[copy(room, value):])
}

// entrySize is a multiple of 8, so that a slot can count in units of 8 bytes.
func entrySize(key, room int) int { return (entryHeader + key + room + 7) &^ 7 }

func newCache(limit int64) *cache {
	c := &cache{seed: maphash.MakeSeed()}
	// A slot has 32 bits for a place in units of 8 bytes.
	each := int(min(limit/cacheShards, 1<<34))
	chunk := each / cacheChunks &^ 7
	if chunk < minChunk {
		return c
	}
	c.shards = make([]shard, cacheShards)
	for i := range c.shards {
		c.shards[i] = shard{limit: each, chunk: chunk, slots: make([]uint64, minSlots)}
	}
	return c
}

// shard returns the shard of a key, and the key's tag in it.
func (c *cache) shard(key []byte) (*shard, uint32) {
	hash := maphash.Bytes(c.seed, key)
	return &c.shards[hash%cacheShards], uint32(hash >> 32)
}

// get appends the value of a key to dst.
func (c *cache) get(dst, key []byte) ([]byte, bool) {
	if c.shards == nil {
		return dst, false
	}
	s, tag := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.find(tag, key)
	if e == nil {
		s.misses++
		return dst, false
	}
	s.hits++
	e[4] = 1
	return append(dst, e.value()...), true
}

// put stores a copy of a value, unless it takes more than a chunk.
func (c *cache) put(key, value []byte) {
	if c.shards == nil {
		return
	}
	s, tag := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, e := s.find(tag, key); e != nil {
		if e.room() >= len(value) && e.room() <= 2*len(value)+64 {
			e.setValue(value)
			return
		}
		clear(e.value())
		s.unlink(at)
	}
	if entrySize(len(key), len(value)) <= s.chunk {
		s.insert(tag, key, value)
	}
}

func (c *cache) remove(key []byte) {
	if c.shards == nil {
		return
	}
	s, tag := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, e := s.find(tag, key); e != nil {
		clear(e.value())
		s.unlink(at)
	}
}

// removePrefix removes all keys with a prefix. It visits every entry.
func (c *cache) removePrefix(prefix []byte) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, id := range s.order {
			s.each(id, func(from int, e entry) {
				if at, ok := s.slot(slotOf(e.tag(), s.place(id, from))); ok &&
					bytes.HasPrefix(e.key(), prefix) {
					clear(e.value())
					s.unlink(at)
				}
			})
		}
		s.mu.Unlock()
	}
}

func (c *cache) stats() (st Stats) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		st.CacheHits += s.hits
		st.CacheMisses += s.misses
		st.CacheBytes += int64(8*len(s.slots) + s.chunk*len(s.order))
		s.mu.Unlock()
	}
	return st
}

// place is where an entry lies, in bytes of all chunks. slotOf is what the table has of it.
func (s *shard) place(id, from int) int { return id*s.chunk + from }

func slotOf(tag uint32, place int) uint64 { return uint64(tag)<<32 | uint64(place/8+1) }

// entry returns the entry of a slot.
func (s *shard) entry(slot uint64) entry {
	place := int(uint32(slot)-1) * 8
	return entry(s.chunks[place/s.chunk][place%s.chunk:])
}

// each visits the entries of a chunk, also those that are gone. The visitor may move an entry to
// the front of where it lies.
func (s *shard) each(id int, visit func(from int, e entry)) {
	for from := 0; from < s.used[id]; {
		e := entry(s.chunks[id][from:])
		next := from + e.size()
		visit(from, e)
		from = next
	}
}

// find returns the entry of a key, nil if there is none, and its slot, or the free one where it
// would be. The table always has a free slot.
func (s *shard) find(tag uint32, key []byte) (at int, e entry) {
	mask := len(s.slots) - 1
	for at = int(tag) & mask; s.slots[at] != 0; at = (at + 1) & mask {
		if uint32(s.slots[at]>>32) != tag {
			continue
		}
		if e := s.entry(s.slots[at]); bytes.Equal(e.key(), key) {
			return at, e
		}
	}
	return at, nil
}

// slot returns where the table has a slot. It has none of an entry that is gone.
func (s *shard) slot(slot uint64) (at int, ok bool) {
	mask := len(s.slots) - 1
	for at = int(slot>>32) & mask; s.slots[at] != 0; at = (at + 1) & mask {
		if s.slots[at] == slot {
			return at, true
		}
	}
	return 0, false
}

// unlink frees a slot. It moves later ones forward, so that find passes over none of them.
func (s *shard) unlink(at int) {
	mask := len(s.slots) - 1
	for next := (at + 1) & mask; s.slots[next] != 0; next = (next + 1) & mask {
		home := int(s.slots[next]>>32) & mask
		if (next-home)&mask >= (next-at)&mask {
			s.slots[at], at = s.slots[next], next
		}
	}
	s.slots[at] = 0
	s.live--
}

// insert adds an entry, of a key that has none.
func (s *shard) insert(tag uint32, key, value []byte) {
	for 4*(s.live+1) > 3*len(s.slots) {
		if !s.grow() {
			s.turn(true)
		}
	}
	id := s.reserve(entrySize(len(key), len(value)))
	from := s.used[id]
	e := entry(s.chunks[id][from:])
	binary.LittleEndian.PutUint32(e, tag)
	e[4] = 0
	binary.LittleEndian.PutUint32(e[5:], uint32(len(key)))
	binary.LittleEndian.PutUint32(e[13:], uint32(len(value)))
	copy(e[entryHeader:], key)
	e.setValue(value)
	s.used[id] += e.size()
	at, _ := s.find(tag, key)
	s.slots[at] = slotOf(tag, s.place(id, from))
	s.live++
}

// reserve returns the chunk to be filled, with room for a number of bytes. It ends: when all chunks
// have had their turn, no entry is left that get has returned.
func (s *shard) reserve(size int) (id int) {
	for {
		if n := len(s.order); n > 0 && s.used[s.order[n-1]]+size <= s.chunk {
			return s.order[n-1]
		}
		if len(s.order) == s.most() {
			s.turn(true)
			continue
		}
		for id = 0; s.chunks[id] != nil; id++ {
		}
		s.chunks[id], s.used[id] = make([]byte, s.chunk), 0
		s.order = append(s.order, id)
	}
}

// most is how many chunks the limit allows beside the table, which takes a quarter of it at most.
func (s *shard) most() int { return min((s.limit-8*len(s.slots))/s.chunk, cacheChunks) }

// turn makes the oldest chunk the one that is filled next. With keep, entries that get has returned
// since they were put, or since the last turn, move to its front.
func (s *shard) turn(keep bool) {
	id := s.order[0]
	s.order = append(slices.Delete(s.order, 0, 1), id)
	front := 0
	s.each(id, func(from int, e entry) {
		at, ok := s.slot(slotOf(e.tag(), s.place(id, from)))
		switch {
		case !ok:
		case keep && e[4] != 0:
			e[4] = 0
			s.slots[at] = slotOf(e.tag(), s.place(id, front))
			front += copy(s.chunks[id][front:], e[:e.size()])
		default:
			s.unlink(at)
		}
	})
	clear(s.chunks[id][front:s.used[id]])
	s.used[id] = front
}

// grow doubles the table if the limit allows that, and drops chunks for it.
func (s *shard) grow() bool {
	if 8*2*len(s.slots) > s.limit/4 {
		return false
	}
	old := s.slots
	s.slots = make([]uint64, 2*len(old))
	mask := len(s.slots) - 1
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := int(slot>>32) & mask
		for s.slots[at] != 0 {
			at = (at + 1) & mask
		}
		s.slots[at] = slot
	}
	for len(s.order) > s.most() {
		s.turn(false)
		last := len(s.order) - 1
		s.chunks[s.order[last]] = nil
		s.order = s.order[:last]
	}
	return true
}

// Stats are counts since Open and sizes now.
type Stats struct {
	CacheHits, CacheMisses uint64
	CacheBytes             int64 // used by the cache, with its overhead
	DiskBytes              uint64
}
