package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// prefixes holds what a partition is after each of its applies; the positions
// count them.
type prefixes []map[string]string

// crashesEnv asks for more seeds of TestCrash.
const crashesEnv = "GEODITHER_STATE_SEEDS"

// TestCrash crashes the file system at random and finds, every time, the values
// and positions of one and the same prefix of the batches.
func TestCrash(t *testing.T) {
	seeds := uint64(12)
	if s := os.Getenv(crashesEnv); s != "" {
		if _, err := fmt.Sscan(s, &seeds); err != nil {
			t.Fatal(err)
		}
	}
	lost := 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 9))
		fs := vfs.NewCrashableMem()
		// A first clean start, so that the folder itself is on the disk.
		shut(t, open(t, fs, Options{}))
		history := [2]prefixes{{{}}, {{}}}
		for round := range 5 {
			s := open(t, fs, Options{MemTableBytes: 256 << 10, CacheBytes: 64 << 10, Identity: nil})
			for p := range history {
				lost += recovered(t, s.Partition(int32(p)), &history[p],
					fmt.Sprintf("seed %d round %d", seed, round))
			}
			for range rng.IntN(150) {
				p := rng.IntN(2)
				step(t, rng, s.Partition(int32(p)), &history[p])
			}
			crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{
				0, 50,
				100,
			}[rng.IntN(3)], RNG: rng})
			shut(t, s)
			fs = crashed
		}
	}
	if lost == 0 {
		t.Error("no crash has ever lost anything: the test tests nothing")
	}
}

// step makes one random Apply or Wipe and books it.
func step(t *testing.T, rng *rand.Rand, p *Partition, h *prefixes) {
	t.Helper()
	now := maps.Clone((*h)[len(*h)-1])
	var changes []Change
	for range rng.IntN(20) {
		key, value := fmt.Sprint(rng.IntN(60)),
			strings.Repeat(fmt.Sprint(rng.IntN(10)), rng.IntN(900))
		changes = append(changes, Change{Key: []byte(key), Value: []byte(value)})
		if value == "" {
			delete(now, key)
		} else {
			now[key] = value
		}
	}
	*h = append(*h, now)
	n := int64(len(*h) - 1)
	if err := p.Apply(changes, Positions{Input: n, Changelog: 10 * n, AppliedMS: -n}); err != nil {
		t.Fatal(err)
	}
	for key, want := range now {
		if rng.IntN(10) == 0 && get(t, p, key) != want {
			t.Fatalf("key %s is not what was applied last", key)
		}
	}
}

// recovered checks that a partition is one of its prefixes, forgets the later
// ones, and answers how many those were.
func recovered(t *testing.T, p *Partition, h *prefixes, when string) (lost int) {
	t.Helper()
	pos, found, err := p.Positions()
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if found && (pos.Changelog != 10*pos.Input || pos.AppliedMS != -pos.Input) ||
		pos.Input >= int64(len(*h)) {
		t.Fatalf("%s: positions %+v were never written", when, pos)
	}
	got := map[string]string{}
	err = p.Iterate(func(key, value []byte) error {
		got[string(key)] = string(value)
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if !maps.Equal(got, (*h)[pos.Input]) {
		t.Fatalf("%s: %d values do not belong to position %d with %d", when, len(got), pos.Input,
			len((*h)[pos.Input]))
	}
	lost = len(*h) - 1 - int(pos.Input)
	*h = (*h)[:pos.Input+1]
	return lost
}

// TestDiskFull: writes fail with a clear error, everything goes on failing, and
// with room on the disk again the store is a prefix of what was applied.
func TestDiskFull(t *testing.T) {
	mem := vfs.NewMem()
	var full atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return fmt.Errorf("write: %w", syscall.ENOSPC)
		}
		return nil
	}))
	s := open(t, fs, Options{MemTableBytes: 128 << 10})
	p := s.Partition(0)
	apply(t, p, Positions{Input: 0}, "first", "value")
	full.Store(true)
	n, err := applyUntilError(p, 100_000)
	if err == nil {
		t.Fatal("a full disk is never noticed")
	}
	if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error does not say that the disk is full: %v", err)
	}
	if err := p.Apply(nil, Positions{}); !errors.Is(err, ErrFull) {
		t.Errorf("after a failed write the next one answers %v", err)
	}
	if err := p.Wipe(); !errors.Is(err, ErrFull) {
		t.Errorf("after a failed write Wipe answers %v", err)
	}
	if _, err := p.Get([]byte("first")); !errors.Is(err, ErrFull) {
		t.Errorf("after a failed write Get answers %v", err)
	}
	// Whether closing has something left to write depends on what ran in the
	// background; if it has, it says the same.
	if err := s.Close(); err != nil && !errors.Is(err, ErrFull) {
		t.Errorf("closing after a failure: %v", err)
	}
	full.Store(false)
	clone := vfs.NewMem()
	if ok, err := vfs.Clone(mem, clone, "data", "data"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s = open(t, clone, Options{})
	defer shut(t, s)
	pos, found, err := s.Partition(0).Positions()
	if err != nil || pos.Input > int64(n) {
		t.Errorf("after a restart: %+v, %v, %v; %d were applied", pos, found, err, n)
	}
}

func applyUntilError(p *Partition, most int) (n int, err error) {
	value := []byte(strings.Repeat("x", 3000))
	for n < most {
		n++
		if err := p.Apply([]Change{{Key: fmt.Append(nil, n), Value: value}},
			Positions{Input: int64(n)}); err != nil {
			return n, err
		}
	}
	return n, nil
}

// TestFullAtStart: a store that cannot be begun says why, and sets nothing aside.
func TestFullAtStart(t *testing.T) {
	for want, cause := range map[error]error{ErrFull: syscall.ENOSPC, ErrReadOnly: syscall.EROFS} {
		for _, existing := range []bool{false, true} {
			mem := vfs.NewMem()
			if existing {
				shut(t, open(t, mem, Options{}))
			}
			fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpMkdirAll {
					return fmt.Errorf("write: %w", cause)
				}
				return nil
			}))
			s, err := Open("data/geodither", Options{FS: fs, Logger: quiet()})
			if err == nil {
				shut(t, s)
				t.Fatalf("%v: the store was opened", cause)
			}
			if !errors.Is(err, want) {
				t.Errorf("%v: %v", cause, err)
			}
			if aside(t, mem) != 0 {
				t.Errorf("%v: a good store was set aside", cause)
			}
		}
	}
}

// TestReadErrors: an unreadable block is an error, never a missing user.
func TestReadErrors(t *testing.T) {
	mem := vfs.NewMem()
	var bad atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if bad.Load() && op.Kind == errorfs.OpFileReadAt {
			return syscall.EIO
		}
		return nil
	}))
	s := open(t, fs, Options{CacheBytes: -1, BlockCacheBytes: 1})
	apply(t, s.Partition(0), Positions{}, "key", "value")
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	bad.Store(true)
	if v, err := s.Partition(0).Get([]byte("key")); !errors.Is(err, syscall.EIO) || v != nil {
		t.Errorf("got %q, %v", v, err)
	}
	bad.Store(false)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
