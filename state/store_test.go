package state

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, fs vfs.FS, o Options) *Store {
	t.Helper()
	o.FS = fs
	if o.Logger == nil {
		o.Logger = quiet()
	}
	s, err := Open("data/geodither", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shut(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, p *Partition, key string) string {
	t.Helper()
	v, err := p.Get([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func apply(t *testing.T, p *Partition, pos Positions, keysAndValues ...string) {
	t.Helper()
	var changes []Change
	for i := 0; i < len(keysAndValues); i += 2 {
		changes = append(changes,
			Change{Key: []byte(keysAndValues[i]), Value: []byte(keysAndValues[i+1])})
	}
	if err := p.Apply(changes, pos); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, p *Partition) string {
	t.Helper()
	var b strings.Builder
	err := p.Iterate(func(key, value []byte) error {
		fmt.Fprintf(&b, "%s=%s ", key, value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPartitions(t *testing.T) {
	for _, cache := range []int64{-1, 1 << 10, 1 << 20} {
		fs := vfs.NewMem()
		s := open(t, fs, Options{CacheBytes: cache})
		a, b := s.Partition(0), s.Partition(7)
		if _, found, err := a.Positions(); found || err != nil {
			t.Errorf("positions of an empty partition: %v, %v", found, err)
		}
		at := Positions{Input: 4, Changelog: 9, AppliedMS: 77}
		apply(t, a, at, "ann", "1", "bob", "2", "ann", "3")
		apply(t, b, Positions{Input: -1}, "ann", "other")
		if got := get(t, a, "ann") + get(t, a, "bob") + get(t, b, "ann") + get(t, a,
			"eve"); got != "32other" {
			t.Errorf("cache %d: got %q", cache, got)
		}
		apply(t, a, at, "bob", "", "cid", "new")
		if got := contents(t, a); got != "ann=3 cid=new " {
			t.Errorf("cache %d: partition 0 holds %q", cache, got)
		}
		shut(t, s)

		s = open(t, fs, Options{CacheBytes: cache})
		a, b = s.Partition(0), s.Partition(7)
		if pos, found, err := a.Positions(); pos != at || !found || err != nil {
			t.Errorf("positions are %+v, %v, %v", pos, found, err)
		}
		if ps, err := s.Partitions(); err != nil || fmt.Sprint(ps) != "[0 7]" {
			t.Errorf("partitions %v, %v", ps, err)
		}
		if got := get(t, a, "bob") + get(t, a, "cid"); got != "new" {
			t.Errorf("cache %d: after reopening got %q", cache, got)
		}
		if err := a.Wipe(); err != nil {
			t.Fatal(err)
		}
		if _, found, _ := a.Positions(); found || get(t, a, "ann") != "" || contents(t, a) != "" {
			t.Error("something is left after Wipe")
		}
		if got := get(t, b, "ann"); got != "other" {
			t.Errorf("Wipe of partition 0 touched partition 7: %q", got)
		}
		shut(t, s)
	}
}

func TestKeys(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{})
	defer shut(t, s)
	p := s.Partition(1)
	for _, key := range []string{"", "\x00", "\x00positions"} {
		if _, err := p.Get([]byte(key)); !errors.Is(err, ErrKey) {
			t.Errorf("Get(%q): %v", key, err)
		}
		if err := p.Apply([]Change{{Key: []byte("good"), Value: []byte("v")}, {Key: []byte(key)}},
			Positions{}); !errors.Is(err, ErrKey) {
			t.Errorf("Apply(%q): %v", key, err)
		}
	}
	if got := contents(t, p); got != "" {
		t.Errorf("a refused Apply has written %q", got)
	}
	// The mark and the partition's states lie beside the users' values, and are none of them.
	apply(t, p, Positions{Input: 3}, MarkName, "mark of 3", "ann", "1", PartitionName, "mark too",
		PartitionName+"\xff", "mark 2")
	apply(t, p, Positions{Input: 4}, MarkName, "mark of 4")
	if mark, got := get(t, p, MarkName), contents(t, p); mark != "mark of 4" ||
		strings.Contains(got, "mark") || get(t, s.Partition(2), MarkName) != "" {
		t.Errorf("the mark is %q, the users' values %q", mark, got)
	}
	found := ""
	err := p.Reserved(PartitionName, func(key, value []byte) error {
		found += string(key) + string(value)
		return nil
	})
	if err != nil || found != PartitionName+get(t, p, PartitionName)+
		PartitionName+"\xffmark 2" {
		t.Errorf("the partition's states are %q, %v", found, err)
	}
	if err := p.Wipe(); err != nil || get(t, p, MarkName)+get(t, p, PartitionName) != "" {
		t.Errorf("a wiped partition has the mark %q, %v", get(t, p, MarkName), err)
	}
	stop := errors.New("enough")
	apply(t, p, Positions{}, "a", "1", "b", "2")
	after := ""
	err = p.After([]byte("a"), func(key, _ []byte) error { after += string(key); return nil })
	if err != nil || after != "b" {
		t.Errorf("after a: %q, %v", after, err)
	}
	seen := 0
	err = p.Iterate(func(_, _ []byte) error { seen++; return stop })
	if !errors.Is(err, stop) || seen != 1 {
		t.Errorf("Iterate went on after an error: %d, %v", seen, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative partition does not panic")
		}
	}()
	s.Partition(-1)
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{BlockCacheBytes: -1},
		{MemTableBytes: -1},
		{MemTableBytes: 2 << 30},
	} {
		if _, err := Open("x", o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	s := open(t, vfs.NewMem(), Options{})
	shut(t, s)
	if err := s.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("a second Close answers %v", err)
	}
	if err := s.Partition(0).Wipe(); !errors.Is(err, ErrClosed) {
		t.Errorf("Wipe after Close answers %v", err)
	}
}

// TestBlockCacheBesideMemTables: the block cache has the room that it was given, although Pebble
// takes the memtables' size off it. So users who are read again are read from memory.
func TestBlockCacheBesideMemTables(t *testing.T) {
	const users = 1000
	var reads atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt {
			reads.Add(1)
		}
		return nil
	}))
	s := open(t, fs, Options{CacheBytes: -1, BlockCacheBytes: 4 << 20, MemTableBytes: 4 << 20})
	defer shut(t, s)
	p := s.Partition(0)
	value := strings.Repeat("x", 1000)
	for i := range 12 * users { // several memtables, so that they have grown to their size
		apply(t, p, Positions{}, fmt.Sprint(i%users), value)
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Compact(t.Context(), []byte{0}, []byte{255}, false); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		before := reads.Load()
		for i := range users {
			get(t, p, fmt.Sprint(i))
		}
		n := reads.Load() - before
		if round == 0 && n < users/10 || round == 1 && n > 0 {
			t.Errorf("round %d: %d reads of files for %d users", round, n, users)
		}
	}
}
