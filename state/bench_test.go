package state

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// Users, and bytes of a value, of BenchmarkGet: a posterior of about 110 cells.
const (
	benchUsers = 200_000
	benchValue = 600
)

// benchStore is a store on disk with some users. The working set of the benchmarks is uniform, the
// worst case for a cache.
func benchStore(b *testing.B, users, size int, o Options) (*Store, *Partition) {
	b.Helper()
	o.Logger = quiet()
	s, err := Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	p := s.Partition(0)
	rng := rand.New(rand.NewPCG(1, 1))
	changes := make([]Change, 0, 1000)
	for i := range users {
		changes = append(changes, Change{Key: benchKey(nil, i), Value: benchBytes(rng, size)})
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
func benchBytes(rng *rand.Rand, size int) []byte {
	v := make([]byte, 0, size+7)
	for len(v) < size {
		v = binary.LittleEndian.AppendUint64(v, rng.Uint64())
	}
	return v[:size]
}

func BenchmarkGet(b *testing.B) {
	for _, c := range []struct {
		name  string
		bytes int64
	}{
		{"none", -1},
		{"quarter", benchUsers * (benchValue + 200) / 4},
		{"all", 2 * benchUsers * (benchValue + 200)},
	} {
		b.Run("cache="+c.name, func(b *testing.B) {
			_, p := benchStore(b, benchUsers, benchValue, Options{CacheBytes: c.bytes})
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

// BenchmarkUpdate is what a task does: 1000 users are read, and written in one batch. All figures
// are those of one user. cpu-µs is the process's CPU time, with what Pebble does in the background;
// disk-B is what the store writes to files; hit-% is the share of reads that the cache answers. Run
// it with -benchtime 400000x or more: with fewer the background has hardly begun.
func BenchmarkUpdate(b *testing.B) {
	for _, c := range []struct{ users, size int }{
		{10_000, 400}, // of a city's buses under ε = 1
		{10_000, 700},
		{10_000, 4400},
		{10_000, 12_000},
		{100_000, 700},
		{100_000, 4400},
		{1_000_000, 400},
		{1_000_000, 700},
	} {
		b.Run(fmt.Sprintf("users=%d/state=%d", c.users, c.size), func(b *testing.B) {
			benchUpdate(b, c.users, c.size)
		})
	}
}

func benchUpdate(b *testing.B, users, size int) {
	b.Helper()
	const batch = 1000
	s, p := benchStore(b, users, size, Options{})
	rng := rand.New(rand.NewPCG(3, 3))
	changes := make([]Change, batch)
	for i := range changes {
		changes[i].Value = benchBytes(rng, size)
	}
	stats, written, cpu := s.Stats(), benchWritten(s), benchCPU(b)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += batch {
		for i := range changes {
			changes[i].Key = benchKey(changes[i].Key[:0], rng.IntN(users))
			if _, err := p.Get(changes[i].Key); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.Apply(changes, Positions{Input: int64(done)}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := s.db.Flush(); err != nil { // it counts too
		b.Fatal(err)
	}
	n, now := float64(b.N), s.Stats()
	hits, misses := now.CacheHits-stats.CacheHits, now.CacheMisses-stats.CacheMisses
	b.ReportMetric(float64((benchCPU(b)-cpu).Nanoseconds())/1e3/n, "cpu-µs/op")
	b.ReportMetric(float64(benchWritten(s)-written)/n, "disk-B/op")
	b.ReportMetric(100*float64(hits)/float64(hits+misses), "hit-%")
}

// benchWritten is how many bytes the store has written to its tables and logs.
func benchWritten(s *Store) (n uint64) {
	m := s.db.Metrics()
	n = m.WAL.BytesWritten
	for _, l := range m.Levels {
		n += l.TableBytesFlushed + l.TableBytesCompacted
	}
	return n
}

// benchCPU is the CPU time of the process so far.
func benchCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
