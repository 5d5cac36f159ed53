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

// TestCache holds caches of several sizes against a map: what they have is right and was there
// before, they stay within their limit, and their counts add up.
func TestCache(t *testing.T) {
	for _, limit := range []int64{cacheShards * cacheChunks * minChunk, 200 << 10, 1 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			c := newCache(limit)
			found, most := cacheBesideMap(t, c)
			held := int64(0)
			for i := range c.shards {
				held += checkShard(t, &c.shards[i])
			}
			if st := c.stats(); st.CacheBytes != held || int(st.CacheHits) != found ||
				found == 0 || st.CacheMisses == 0 {
				t.Errorf("stats %+v, held %d, found %d", st, held, found)
			}
			if most > limit || most < limit*3/4 {
				t.Errorf("it took up to %d bytes of %d", most, limit)
			}
		})
	}
}

// cacheBesideMap works with a cache at random. It returns how many values the cache had, and the
// most memory that it has taken.
func cacheBesideMap(t *testing.T, c *cache) (found int, most int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	truth := map[string]string{}
	for i := range 60_000 {
		k := fmt.Appendf([]byte{0, 0, 0, byte(rng.IntN(3))}, "user%d", rng.IntN(4000))
		switch rng.IntN(8) {
		case 0:
			c.remove(k)
			delete(truth, string(k))
		case 1, 2, 3:
			v := strings.Repeat(fmt.Sprint(i), rng.IntN(60))
			if rng.IntN(100) == 0 {
				v = strings.Repeat("large", c.shards[0].chunk/4)
			}
			c.put(k, []byte(v))
			truth[string(k)] = v
		default:
			want, known := truth[string(k)]
			v, ok := c.get([]byte("before"), k)
			if !ok && string(v) == "before" {
				break
			}
			if found++; !known || string(v) != "before"+want {
				t.Fatalf("%q is %.20q, want %.20q", k, v, want)
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
		most = max(most, c.stats().CacheBytes)
	}
	return found, most
}

// checkShard checks that a shard's table has its entries, each of them where find looks for it, and
// returns the bytes that the shard takes.
func checkShard(t *testing.T, s *shard) (bytes int64) {
	t.Helper()
	n := 0
	for at, slot := range s.slots {
		if slot == 0 {
			continue
		}
		n++
		e := s.entry(slot)
		if found, _ := s.find(e.tag(), e.key()); found != at {
			t.Errorf("the entry of slot %d is found at %d", at, found)
		}
	}
	if n != s.live || 4*n > 3*len(s.slots) {
		t.Errorf("%d entries in a table of %d, %d are counted", n, len(s.slots), s.live)
	}
	for _, chunk := range s.chunks {
		bytes += int64(len(chunk))
	}
	return bytes + int64(8*len(s.slots))
}

// TestCacheKeepsUsed: what is used again stays, what is not goes.
func TestCacheKeepsUsed(t *testing.T) {
	c := newCache(cacheShards * cacheChunks * 800)
	key := func(name string, i int) []byte {
		return fmt.Appendf([]byte{0, 0, 0, 0}, "%s%d", name, i)
	}
	for i := range 10_000 { // until the table is as large as it becomes
		c.put(key("first", i), make([]byte, 80))
	}
	hot := key("hot", 0)
	c.put(hot, make([]byte, 80))
	for i := range 10_000 {
		c.put(key("cold", i), make([]byte, 80))
		if _, ok := c.get(nil, hot); !ok {
			t.Fatalf("the value that is used all the time went after %d others", i)
		}
	}
	if _, ok := c.get(nil, key("cold", 0)); ok {
		t.Error("the oldest value is still there")
	}
	for i := range 100_000 {
		c.put(key("late", i), make([]byte, 80))
	}
	if _, ok := c.get(nil, hot); ok {
		t.Error("the value that is no longer used is still there")
	}
}

// TestCacheHolds: users whose values fit stay, also if the values' lengths change all the time.
func TestCacheHolds(t *testing.T) {
	const users, size = 2000, 400
	c := newCache(users * (size + 100) * 5 / 4)
	rng := rand.New(rand.NewPCG(6, 7))
	missed := 0
	for range 50 {
		for i := range users {
			key := fmt.Appendf([]byte{0, 0, 0, 0}, "user%d", i)
			if _, ok := c.get(nil, key); !ok {
				missed++
			}
			c.put(key, make([]byte, size/2+rng.IntN(size/2)))
		}
	}
	if missed > users*3/2 {
		t.Errorf("%d misses of %d users who fit", missed, users)
	}
}

// TestCacheForgets: nothing of a value that was removed, replaced or displaced stays in memory, and
// others stay.
func TestCacheForgets(t *testing.T) {
	c := newCache(1 << 20)
	prefix, other := []byte{0, 0, 0, 7}, []byte{0, 0, 0, 8, 1}
	for i, forget := range []func(key []byte){
		c.remove,
		func([]byte) { c.removePrefix(prefix) },
		func(key []byte) { c.put(key, []byte("short")) },
		func(key []byte) { c.put(key, make([]byte, 500)) },
		func([]byte) { // every chunk has its turn, and entries that were read move in it
			for i := range uint32(20_000) {
				key := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 9}, i)
				c.put(key, make([]byte, 100))
				if i%7 == 0 {
					c.get(nil, key)
				}
			}
			c.put(other, []byte("another"))
		},
	} {
		c.put(other, []byte("another"))
		key := fmt.Append(prefix, i)
		c.put(key, []byte("whereabouts"))
		forget(key)
		for j := range c.shards {
			for id, chunk := range c.shards[j].chunks {
				free := chunk[c.shards[j].used[id]:]
				if bytes.Contains(chunk, []byte("abouts")) || len(bytes.Trim(free, "\x00")) > 0 {
					t.Errorf("case %d: the value is still in memory", i)
				}
			}
		}
	}
	if v, ok := c.get(nil, other); !ok || string(v) != "another" {
		t.Errorf("another value is %q", v)
	}
}

// TestCacheDoesNotAllocate: a hit, putting a value of about the same size again, and putting a new
// one into a full cache cost no allocation.
func TestCacheDoesNotAllocate(t *testing.T) {
	c := newCache(1 << 20)
	key, value := []byte("\x00\x00\x00\x00user"), make([]byte, 600)
	dst, n := make([]byte, 0, 600), uint32(0)
	all := func() {
		c.put(key, value)
		c.get(dst, key)
		c.put(key, value[:590])
		n++
		binary.BigEndian.PutUint32(key, n)
	}
	for range 10_000 {
		all()
	}
	if n := testing.AllocsPerRun(100, all); n != 0 {
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
	f.Add([]byte{})
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePositions(data)
		if err != nil {
			return
		}
		if p.Input < -1 || p.Changelog < 0 || !bytes.Equal(appendPositions(nil, p), data) {
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
