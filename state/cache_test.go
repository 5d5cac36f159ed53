package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCache holds the cache against a map: what it has is right, it stays within
// its limit, and its counts add up.
func TestCache(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const limit = 200 << 10
	c := newCache(limit)
	truth := map[string]string{}
	found := 0
	key := func() []byte {
		return fmt.Appendf([]byte{0, 0, 0, byte(rng.IntN(3))}, "user%d", rng.IntN(2000))
	}
	for i := range 60_000 {
		k := key()
		switch rng.IntN(8) {
		case 0:
			c.remove(k)
			delete(truth, string(k))
		case 1, 2, 3:
			v := strings.Repeat(fmt.Sprint(i), rng.IntN(60))
			if rng.IntN(100) == 0 {
				v = strings.Repeat("large", limit/cacheShards/8)
			}
			kept := c.put(k, []byte(v))
			if kept != nil && string(kept) != v {
				t.Fatal("put answers with something else")
			}
			truth[string(k)] = v
		default:
			if v, ok := c.get(k); ok {
				found++
				if string(v) != truth[string(k)] {
					t.Fatalf("%q is %.20q, want %.20q", k, v, truth[string(k)])
				}
			}
		}
		if i%5000 == 0 {
			c.removePrefix([]byte{0, 0, 0, 1})
			for k := range truth {
				if k[3] == 1 {
					delete(truth, k)
				}
			}
		}
	}
	held := int64(0)
	for i := range c.shards {
		s := &c.shards[i]
		n := 0
		for e := s.used.next; e != &s.used; e = e.next {
			held += nodeBytes + int64(len(e.key)+cap(e.value))
			n++
		}
		if n != len(s.nodes) {
			t.Errorf("shard %d: %d in the ring, %d in the map", i, n, len(s.nodes))
		}
	}
	if st := c.stats(); st.CacheBytes != held || held > limit || held < limit/2 ||
		int(st.CacheHits) != found || found == 0 || st.CacheMisses == 0 {
		t.Errorf("stats %+v, held %d of %d, found %d", st, held, limit, found)
	}
}

// TestCacheKeepsLastUsed: what is used again stays, what is not goes.
func TestCacheKeepsLastUsed(t *testing.T) {
	c := newCache(cacheShards * 40 * (nodeBytes + 100))
	hot := []byte("\x00\x00\x00\x00hot")
	c.put(hot, make([]byte, 80))
	for i := range 10_000 {
		c.put(fmt.Appendf([]byte{0, 0, 0, 0}, "cold%d", i), make([]byte, 80))
		if _, ok := c.get(hot); !ok {
			t.Fatalf("the value that is used all the time went after %d others", i)
		}
	}
	if _, ok := c.get([]byte("\x00\x00\x00\x00cold0")); ok {
		t.Error("the oldest value is still there")
	}
}

// TestCacheDoesNotAllocate: a hit, and putting a value of about the same size
// again, cost no allocation.
func TestCacheDoesNotAllocate(t *testing.T) {
	c := newCache(1 << 20)
	key, value := []byte("\x00\x00\x00\x00user"), make([]byte, 600)
	c.put(key, value)
	if n := testing.AllocsPerRun(100, func() {
		c.get(key)
		c.put(key, value[:590])
		c.put(key, value)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTogether uses partitions at the same time, with a cache so small that they
// push each other's values out.
func TestTogether(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{CacheBytes: 32 << 10, MemTableBytes: 256 << 10})
	defer shut(t, s)
	var wg sync.WaitGroup
	for n := range int32(4) {
		wg.Go(func() {
			p := s.Partition(n)
			rng := rand.New(rand.NewPCG(uint64(n), 5))
			truth := map[string]string{}
			for i := range 400 {
				k := fmt.Sprint(rng.IntN(50))
				v := strings.Repeat(fmt.Sprint(n), 1+rng.IntN(700))
				if err := p.Apply([]Change{{Key: []byte(k), Value: []byte(v)}},
					Positions{Input: int64(i)}); err != nil {
					t.Error(err)
					return
				}
				truth[k] = v
				k = fmt.Sprint(rng.IntN(50))
				got, err := p.Get([]byte(k))
				if err != nil || string(got) != truth[k] {
					t.Errorf("partition %d: %s is %d bytes, want %d: %v", n, k, len(got),
						len(truth[k]), err)
					return
				}
				if i%100 == 50 {
					s.Stats()
					if err := p.Iterate(func(k, v []byte) error {
						if truth[string(k)] != string(v) {
							return fmt.Errorf("iterating finds another value of %s", k)
						}
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.CacheHits == 0 || st.CacheMisses == 0 || st.DiskBytes == 0 {
		t.Errorf("stats %+v", st)
	}
}

func FuzzDecodePositions(f *testing.F) {
	f.Add(appendPositions(nil, Positions{Input: 1, Changelog: 2, AppliedMS: 3}))
	f.Add(appendPositions(nil, Positions{Input: -1}))
	f.Add(appendPositions(nil, Positions{Input: -2}))
	f.Add(append([]byte{positionsVersion1}, make([]byte, positionsLen-1)...))
	f.Add([]byte{})
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePositions(data)
		if err != nil {
			return
		}
		if data[0] == positionsVersion1 {
			if p.Changelog != -1 {
				t.Errorf("%x became %+v, which is not restored in full", data, p)
			}
			return
		}
		if p.Input < -1 || p.Changelog < -1 || !bytes.Equal(appendPositions(nil, p), data) {
			t.Errorf("%x decodes to %+v", data, p)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01ann"))
	f.Add([]byte("\x00\x00\x00\x01\x00positions"))
	f.Add([]byte("\xff\xff\xff\xff\x00identity"))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		user, ok := userKey(data)
		if !ok {
			return
		}
		full := append(appendPrefix(nil, binary.BigEndian.Uint32(data)), user...)
		if len(user) == 0 || user[0] == 0 || !bytes.Equal(full, data) {
			t.Errorf("%x has the user key %x", data, user)
		}
		if !sameIdentity(appendIdentity(nil, data), data) ||
			sameIdentity(appendIdentity(nil, data), user) || sameIdentity(data[:0], nil) {
			t.Errorf("identity %x is not itself", data)
		}
	})
}
