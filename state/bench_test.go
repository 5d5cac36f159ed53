package state

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Users, and bytes of a value: a posterior of about 110 cells.
const (
	benchUsers = 200_000
	benchValue = 600
)

// benchStore is a store on disk with benchUsers users. The working set of the
// benchmarks is uniform, the worst case for a cache.
func benchStore(b *testing.B, cacheBytes int64) (*Store, *Partition) {
	b.Helper()
	s, err := Open(b.TempDir(), Options{CacheBytes: cacheBytes, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	p := s.Partition(0)
	rng := rand.New(rand.NewPCG(1, 1))
	changes := make([]Change, 0, 1000)
	for i := range benchUsers {
		changes = append(changes, Change{Key: benchKey(nil, i), Value: benchBytes(rng)})
		if len(changes) == cap(changes) {
			if err := p.Apply(changes, Positions{Input: int64(i)}); err != nil {
				b.Fatal(err)
			}
			changes = changes[:0]
		}
	}
	if err := s.db.Flush(); err != nil {
		b.Fatal(err)
	}
	return s, p
}

func benchKey(dst []byte, i int) []byte { return fmt.Appendf(dst, "vehicle-%08d", i) }

// benchBytes does not compress, as probabilities do not.
func benchBytes(rng *rand.Rand) []byte {
	v := make([]byte, 0, benchValue)
	for len(v) < benchValue {
		v = binary.LittleEndian.AppendUint64(v, rng.Uint64())
	}
	return v
}

var benchCaches = []struct {
	name  string
	bytes int64
}{
	{"none", -1},
	{"quarter", benchUsers * (benchValue + 200) / 4},
	{"all", 2 * benchUsers * (benchValue + 200)},
}

func BenchmarkGet(b *testing.B) {
	for _, c := range benchCaches {
		b.Run("cache="+c.name, func(b *testing.B) {
			_, p := benchStore(b, c.bytes)
			rng := rand.New(rand.NewPCG(2, 2))
			var key []byte
			b.ReportAllocs()
			for b.Loop() {
				key = benchKey(key[:0], rng.IntN(benchUsers))
				if v, err := p.Get(key); err != nil || len(v) == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdate is what a task does: 2000 users are read, and written in one
// batch. Times and allocations are those of one user.
func BenchmarkUpdate(b *testing.B) {
	const batch = 2000
	for _, c := range benchCaches {
		b.Run("cache="+c.name, func(b *testing.B) {
			_, p := benchStore(b, c.bytes)
			rng := rand.New(rand.NewPCG(3, 3))
			changes := make([]Change, batch)
			for i := range changes {
				changes[i].Value = benchBytes(rng)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += batch {
				for i := range changes {
					changes[i].Key = benchKey(changes[i].Key[:0], rng.IntN(benchUsers))
					if _, err := p.Get(changes[i].Key); err != nil {
						b.Fatal(err)
					}
				}
				if err := p.Apply(changes, Positions{Input: int64(done)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApplyEmpty is the cost of a batch that holds positions alone.
func BenchmarkApplyEmpty(b *testing.B) {
	s, err := Open(b.TempDir(), Options{Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p := s.Partition(0)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Apply(nil, Positions{}); err != nil {
			b.Fatal(err)
		}
	}
}
