package state

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// cache holds the values that were used last, up to a number of bytes. It is split into shards, so
// that partitions seldom wait for each other.
//
// A value that get has returned does not change until its own key is put again or removed, which
// only its partition does. The cache reuses memory for the same key and never for another key.
type cache struct {
	shards []shard // empty if there is no cache
	seed   maphash.Seed
}

const cacheShards = 16

type shard struct {
	mu           sync.Mutex
	nodes        map[string]*node
	used         node // head of a ring that begins with the node used last
	bytes, limit int64
	hits, misses uint64
	_            [64]byte // keeps neighbours off the same cache line
}

type node struct {
	next, prev *node
	key        string
	value      []byte
}

// nodeBytes is about what an entry costs beside its key and value: the node and its allocation, and
// a slot of the map at its usual load.
const nodeBytes = 144

func newCache(limit int64) *cache {
	c := &cache{seed: maphash.MakeSeed()}
	if limit <= 0 {
		return c
	}
	c.shards = make([]shard, cacheShards)
	for i := range c.shards {
		s := &c.shards[i]
		s.nodes = map[string]*node{}
		s.limit = limit / cacheShards
		s.used.next, s.used.prev = &s.used, &s.used
	}
	return c
}

func (c *cache) shard(key []byte) *shard {
	return &c.shards[maphash.Bytes(c.seed, key)%cacheShards]
}

func (c *cache) get(key []byte) ([]byte, bool) {
	if c.shards == nil {
		return nil, false
	}
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes[string(key)]
	if !ok {
		s.misses++
		return nil, false
	}
	s.hits++
	s.unlink(n)
	s.link(n)
	return n.value, true
}

// put stores a copy of a value and returns the copy. It returns nil and stores nothing if the value
// would take more than an eighth of its shard.
func (c *cache) put(key, value []byte) []byte {
	if c.shards == nil {
		return nil
	}
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes[string(key)]
	if nodeBytes+int64(len(key)+len(value)) > s.limit/8 {
		if ok {
			s.drop(n)
		}
		return nil
	}
	if !ok {
		n = &node{key: string(key)}
		s.nodes[n.key] = n
		s.bytes += nodeBytes + int64(len(key))
	} else {
		s.unlink(n)
	}
	s.bytes -= int64(cap(n.value))
	if cap(n.value) < len(value) || cap(n.value) > 2*len(value)+64 {
		n.value = bytes.Clone(value)
	} else {
		n.value = append(n.value[:0], value...)
	}
	s.bytes += int64(cap(n.value))
	s.link(n)
	for s.bytes > s.limit {
		s.drop(s.used.prev)
	}
	return n.value
}

func (c *cache) remove(key []byte) {
	if c.shards == nil {
		return
	}
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.nodes[string(key)]; ok {
		s.drop(n)
	}
}

// removePrefix removes all keys with a prefix. It visits every entry.
func (c *cache) removePrefix(prefix []byte) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for key, n := range s.nodes {
			if key[:prefixLen] == string(prefix) {
				s.drop(n)
			}
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
		st.CacheBytes += s.bytes
		s.mu.Unlock()
	}
	return st
}

func (s *shard) link(n *node) {
	n.prev, n.next = &s.used, s.used.next
	n.prev.next, n.next.prev = n, n
}

func (s *shard) unlink(n *node) { n.prev.next, n.next.prev = n.next, n.prev }

func (s *shard) drop(n *node) {
	s.unlink(n)
	delete(s.nodes, n.key)
	s.bytes -= nodeBytes + int64(len(n.key)) + int64(cap(n.value))
}
