package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// history holds what a partition is after each of its batches, nil after a Wipe. The positions
// count them.
type history []map[string]string

// crashesEnv asks for more seeds of the tests that crash at random.
const crashesEnv = "GEODITHER_STATE_SEEDS"

func crashSeeds(t *testing.T) uint64 {
	t.Helper()
	seeds := uint64(12)
	if s := os.Getenv(crashesEnv); s != "" {
		if _, err := fmt.Sscan(s, &seeds); err != nil {
			t.Fatal(err)
		}
	}
	return seeds
}

// newCrashable is a file system with a folder that is on the disk for sure, and an empty store.
func newCrashable(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	if err := fs.MkdirAll("data/geodither", 0o750); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "data"} {
		if err := (folder{dir, fs, quiet()}).sync(); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, open(t, fs, Options{}))
	return fs
}

// crashed is the file system after a crash: what was synced, with all, half or nothing of the rest.
func crashed(fs *vfs.MemFS, rng *rand.Rand) (after *vfs.MemFS, half bool) {
	percent := []int{0, 50, 100}[rng.IntN(3)]
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), percent == 50
}

// TestCrash crashes the file system at random, again and again, and finds every time the values and
// positions of one and the same prefix of the batches.
func TestCrash(t *testing.T) {
	lost, kept := 0, 0
	for seed := range crashSeeds(t) {
		rng := rand.New(rand.NewPCG(seed, 9))
		fs := newCrashable(t)
		both := [2]history{{nil}, {nil}}
		for round := range 5 {
			s := open(t, fs, Options{MemTableBytes: 256 << 10, CacheBytes: 64 << 10})
			for n := range both {
				at, err := prefixOf(s.Partition(int32(n)), both[n])
				if err != nil {
					t.Fatalf("seed %d round %d partition %d: %v", seed, round, n, err)
				}
				lost, kept = lost+len(both[n])-1-at, kept+at
				both[n] = both[n][:at+1]
			}
			for range rng.IntN(150) {
				n := rng.IntN(2)
				step(t, rng, s.Partition(int32(n)), &both[n], (*Partition).Apply)
			}
			after, _ := crashed(fs, rng)
			shut(t, s)
			fs = after
		}
	}
	if lost == 0 || kept == 0 {
		t.Errorf("crashes have lost %d batches and left %d: the test tests nothing", lost, kept)
	}
}

// step makes one random Apply or Wipe and books it. One batch in sixteen is larger than a memtable
// of the tests, which Pebble treats in a way of its own.
func step(t *testing.T, rng *rand.Rand, p *Partition, h *history,
	write func(*Partition, []Change, Positions) error,
) {
	t.Helper()
	n := int64(len(*h))
	if rng.IntN(16) == 0 {
		*h = append(*h, nil)
		if err := p.Wipe(); err != nil {
			t.Fatal(err)
		}
		return
	}
	now := maps.Clone((*h)[n-1])
	if now == nil {
		now = map[string]string{}
	}
	size := 900
	if rng.IntN(16) == 0 {
		size = 30_000
	}
	var changes []Change
	for range rng.IntN(20) {
		key, value := fmt.Sprint(rng.IntN(60)),
			strings.Repeat(fmt.Sprint(rng.IntN(10)), rng.IntN(size))
		changes = append(changes, Change{Key: []byte(key), Value: []byte(value)})
		if value == "" {
			delete(now, key)
		} else {
			now[key] = value
		}
	}
	*h = append(*h, now)
	if err := write(p, changes, Positions{Input: n, Changelog: 10 * n, AppliedMS: -n}); err != nil {
		t.Fatal(err)
	}
	for key, want := range now {
		if rng.IntN(10) == 0 && get(t, p, key) != want {
			t.Fatalf("key %s is not what was applied last", key)
		}
	}
}

// errMixed says that a partition was found as it never was.
var errMixed = errors.New("values and positions do not belong together")

// prefixOf returns the number of batches after which a partition was what it is now.
func prefixOf(p *Partition, h history) (at int, err error) {
	pos, found, err := p.Positions()
	if err != nil {
		return 0, err
	}
	if found && (pos.Changelog != 10*pos.Input || pos.AppliedMS != -pos.Input ||
		pos.Input >= int64(len(h))) {
		return 0, fmt.Errorf("%w: positions %+v were never written", errMixed, pos)
	}
	at = int(pos.Input)
	if !found { // the last Wipe that it may be; there is one, since every history begins with nil
		at = len(h) - 1
		for h[at] != nil {
			at--
		}
	}
	got := map[string]string{}
	err = p.Iterate(func(key, value []byte) error {
		got[string(key)] = string(value)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if !maps.Equal(got, h[at]) {
		return 0, fmt.Errorf("%w: %d values at position %d, which had %d", errMixed, len(got), at,
			len(h[at]))
	}
	return at, nil
}

// crash is a file system that a test has saved, and how many batches of each partition it must have
// at least.
type crash struct {
	fs      *vfs.MemFS
	half    bool // of what was not synced any half is there
	flushed [2]int64
}

// crashesAtEachWrite works with a store and returns the file system as a crash before each of its
// writes leaves it, with what was applied. Pebble writes in the background too, so the writes are
// not the same in each run.
func crashesAtEachWrite(t *testing.T, seed uint64,
	write func(*Partition, []Change, Positions) error,
) (all []crash, both [2]history) {
	t.Helper()
	mem := newCrashable(t)
	rng, crashes := rand.New(rand.NewPCG(seed, 10)), rand.New(rand.NewPCG(seed, 11))
	var mu sync.Mutex
	var flushed [2]int64
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			after, half := crashed(mem, crashes)
			all = append(all, crash{after, half, flushed})
		}
		return nil
	}))
	both = [2]history{{nil}, {nil}}
	s := open(t, fs, Options{MemTableBytes: 64 << 10, CacheBytes: 64 << 10, FlushEvery: -1})
	for range 60 {
		n := rng.IntN(2)
		step(t, rng, s.Partition(int32(n)), &both[n], write)
		if rng.IntN(12) > 0 {
			continue
		}
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		flushed = [2]int64{int64(len(both[0]) - 1), int64(len(both[1]) - 1)}
		mu.Unlock()
	}
	shut(t, s)
	return all, both
}

// after opens what a crash has left and reports what is wrong with it.
func (c crash) after(t *testing.T, both [2]history) error {
	t.Helper()
	s := open(t, c.fs, Options{CacheBytes: -1, FlushEvery: -1})
	defer shut(t, s)
	if aside(t, c.fs) > 0 {
		if c.half {
			// A file that names the manifest is there, and the manifest, which is older, is not.
			// Pebble relies on file systems that keep the order of such changes.
			return nil
		}
		return errors.New("a crash has damaged the store")
	}
	for n := range both {
		at, err := prefixOf(s.Partition(int32(n)), both[n])
		if err != nil {
			return fmt.Errorf("partition %d: %w", n, err)
		}
		if int64(at) < c.flushed[n] {
			return fmt.Errorf("partition %d: %d batches, though %d were flushed", n, at,
				c.flushed[n])
		}
	}
	return nil
}

// TestCrashAtEachWrite: whichever write of the store a crash comes before, and whatever of the
// unsynced writes it leaves, each partition is a prefix of its batches, and no shorter than what a
// flush has written.
func TestCrashAtEachWrite(t *testing.T) {
	for seed := range max(crashSeeds(t)/12, 1) {
		all, both := crashesAtEachWrite(t, seed, (*Partition).Apply)
		if len(all) < 100 {
			t.Errorf("seed %d: the store has written %d times: the test tests little", seed,
				len(all))
		}
		for k, c := range all {
			if err := c.after(t, both); err != nil {
				t.Fatalf("seed %d, write %d of %d: %v", seed, k, len(all), err)
			}
		}
	}
}

// TestCrashFindsMutants: the check above fails if a store writes positions before the values that
// they belong to, or values before their positions.
func TestCrashFindsMutants(t *testing.T) {
	positions := func(p *Partition, pos Positions) error {
		batch := p.s.db.NewBatch()
		if err := p.fill(batch, nil, pos); err != nil {
			return err
		}
		return p.commit(batch)
	}
	for name, write := range map[string]func(*Partition, []Change, Positions) error{
		"positions first": func(p *Partition, changes []Change, pos Positions) error {
			return errors.Join(positions(p, pos), p.Apply(changes, pos))
		},
		"values first": func(p *Partition, changes []Change, pos Positions) error {
			before, found, err := p.Positions()
			if err == nil && found {
				err = p.Apply(changes, before)
			}
			return errors.Join(err, p.Apply(changes, pos))
		},
		"halves": func(p *Partition, changes []Change, pos Positions) error {
			half := len(changes) / 2
			return errors.Join(p.Apply(changes[:half], pos), p.Apply(changes[half:], pos))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				all, both := crashesAtEachWrite(t, seed, write)
				for _, c := range all {
					if errors.Is(c.after(t, both), errMixed) {
						return
					}
				}
			}
			t.Error("not found")
		})
	}
}

// TestFullAtEachWrite: whichever write of the store is the first for which the disk has no room,
// the error names it, and with room again the store is a prefix of what was applied.
func TestFullAtEachWrite(t *testing.T) {
	for k := int64(0); ; k++ {
		mem := vfs.NewMem()
		shut(t, open(t, mem, Options{}))
		var writes atomic.Int64
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch op.Kind {
			case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData,
				errorfs.OpFileSyncTo, errorfs.OpRename, errorfs.OpLink:
				if writes.Add(1) > k {
					return fmt.Errorf("write: %w", syscall.ENOSPC)
				}
			default:
			}
			return nil
		}))
		h, err := fillUp(fs)
		if err == nil {
			if k < 50 {
				t.Errorf("the store has written %d times: the test tests little", k)
			}
			return
		}
		if !errors.Is(err, ErrFull) {
			t.Errorf("write %d: the error does not say that the disk is full: %v", k, err)
		}
		clone := vfs.NewMem()
		if ok, err := vfs.Clone(mem, clone, "data", "data"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s := open(t, clone, Options{})
		if _, err := prefixOf(s.Partition(0), h); err != nil || aside(t, clone) > 0 {
			t.Errorf("write %d: after a restart: %v, %d set aside", k, err, aside(t, clone))
		}
		shut(t, s)
	}
}

// fillUp works with a store until something fails, and returns what it has applied, the last batch
// included that has failed.
func fillUp(fs vfs.FS) (h history, err error) {
	h = history{nil}
	s, err := Open("data/geodither", Options{
		FS: fs, Logger: quiet(), MemTableBytes: 64 << 10, FlushEvery: -1,
	})
	if err != nil {
		return h, err
	}
	p := s.Partition(0)
	for n := 1; n < 30 && err == nil; n++ {
		value := strings.Repeat(fmt.Sprint(n%10), 8_000)
		h = append(h, map[string]string{"ann": value, "bob": value})
		err = p.Apply([]Change{
			{Key: []byte("ann"), Value: []byte(value)}, {Key: []byte("bob"), Value: []byte(value)},
		}, Positions{Input: int64(n), Changelog: 10 * int64(n), AppliedMS: -int64(n)})
	}
	if err != nil { // then everything fails, and says the same
		_, get := p.Get([]byte("ann"))
		for _, again := range []error{get, p.Wipe(), p.Apply(nil, Positions{})} {
			if !errors.Is(again, ErrFull) {
				return h, again
			}
		}
	}
	return h, errors.Join(err, s.Close())
}

// TestTorn flips a bit of each file of a store in many places, cuts each file at many lengths, and
// removes each. What is found then is a prefix of the batches, or the store was set aside at the
// start, or it reports the damage and is set aside at the next start.
func TestTorn(t *testing.T) {
	const places = 12
	mem, h := vfs.NewMem(), history{nil}
	s := open(t, mem, Options{FlushEvery: -1})
	rng := rand.New(rand.NewPCG(1, 12))
	for range 12 {
		step(t, rng, s.Partition(0), &h, (*Partition).Apply)
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, s)
	names, err := mem.List("data/geodither/store")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	outcomes := map[string]int{}
	for _, name := range names {
		for place := range places {
			for _, cut := range []bool{false, true} {
				torn := vfs.NewMem()
				if ok, err := vfs.Clone(mem, torn, "data", "data"); !ok || err != nil {
					t.Fatal(ok, err)
				}
				what := fmt.Sprintf("%s at %d/%d, cut %v", name, place, places, cut)
				if tear(t, torn, "data/geodither/store/"+name, place, places, cut) {
					outcomes[afterTear(t, torn, h, what)]++
				}
			}
		}
	}
	t.Log(outcomes)
	if outcomes["set aside at the start"]+outcomes["found while reading"] < 3*places {
		t.Errorf("outcomes %v: the test does not damage enough", outcomes)
	}
}

// tear flips a bit of a file at a fraction of its length, or cuts it there; at 0 it removes the
// file.
func tear(t *testing.T, mem *vfs.MemFS, name string, place, places int, cut bool) bool {
	t.Helper()
	data, ok := content(t, mem, name)
	if !ok {
		return false
	}
	at := place * len(data) / places
	if cut && at == 0 {
		return mem.Remove(name) == nil
	}
	if cut {
		data = data[:at]
	} else {
		data[at] ^= 1 << (place % 8)
	}
	replace(t, mem, name, data)
	return true
}

func afterTear(t *testing.T, mem *vfs.MemFS, h history, what string) string {
	t.Helper()
	s := open(t, mem, Options{CacheBytes: -1, FlushEvery: -1})
	defer func() { _ = s.Close() }() // it fails if there is damage
	if aside(t, mem) == 1 {
		return "set aside at the start"
	}
	at, err := prefixOf(s.Partition(0), h)
	switch {
	case errors.Is(err, ErrDamaged):
		_ = s.Close()
		next := open(t, mem, Options{})
		defer shut(t, next)
		if aside(t, mem) != 1 || contents(t, next.Partition(0)) != "" {
			t.Errorf("%s: found damaged, but not set aside at the next start", what)
		}
		return "found while reading"
	case err != nil:
		t.Errorf("%s: %v", what, err)
	case at < len(h)-1:
		return "a shorter prefix"
	}
	return "harmless"
}

// TestFlushEvery: what was applied gets to the disk although nobody asks for that, so a crash of a
// quiet store loses little.
func TestFlushEvery(t *testing.T) {
	fs := newCrashable(t)
	s := open(t, fs, Options{FlushEvery: time.Millisecond})
	defer shut(t, s)
	apply(t, s.Partition(0), Positions{Input: 1, Changelog: 10, AppliedMS: -1}, "ann", "1")
	for range 1000 {
		after := open(t, fs.CrashClone(vfs.CrashCloneCfg{}), Options{FlushEvery: -1})
		found := get(t, after.Partition(0), "ann")
		if shut(t, after); found == "1" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("it is never flushed")
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
