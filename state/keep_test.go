package state

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestKeep: what is wiped after Keep is in the copy, also values that no sync has reached;
// one copy serves all partitions that have not changed since.
func TestKeep(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{Identity: []byte("group a")}
	s := open(t, fs, o)
	keep := func(n int32, copies int) {
		t.Helper()
		if err := s.Partition(n).Keep(); err != nil {
			t.Fatal(err)
		}
		if got := aside(t, fs); got != copies {
			t.Errorf("after partition %d there are %d copies, want %d", n, got, copies)
		}
	}
	keep(0, 0) // there is nothing to keep
	apply(t, s.Partition(0), Positions{Input: 1}, "ann", "first")
	apply(t, s.Partition(1), Positions{Input: 1}, "bob", "second")
	keep(0, 1)
	if err := s.Partition(0).Wipe(); err != nil {
		t.Fatal(err)
	}
	keep(1, 1)
	apply(t, s.Partition(1), Positions{Input: 2}, "bob", "third")
	keep(1, 2)
	if err := s.Partition(1).Wipe(); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	for name, want := range map[string][2]string{
		"store.aside-1": {"first", "second"},
		"store.aside-2": {"", "third"},
	} {
		ok, err := vfs.Clone(fs, fs, "data/geodither/"+name,
			"data/geodither/"+strings.TrimPrefix(name, "store."))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := fs.RemoveAll("data/geodither/" + storeName); err != nil {
			t.Fatal(err)
		}
		if err := fs.Rename("data/geodither/"+name, "data/geodither/"+storeName); err != nil {
			t.Fatal(err)
		}
		copied := open(t, fs, o)
		if got := [2]string{
			get(t, copied.Partition(0), "ann"),
			get(t, copied.Partition(1), "bob"),
		}; got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
		shut(t, copied)
	}
}

// TestKeepIsBounded: copies must not fill the disk, and without one nothing is given up.
func TestKeepIsBounded(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs, Options{Identity: []byte("group a")})
	p := s.Partition(0)
	for i := range maxAside + 1 {
		apply(t, p, Positions{Input: int64(i)}, "ann", "value")
		if err := p.Keep(); (err != nil) != (i == maxAside) {
			t.Errorf("copy %d: %v", i, err)
		}
	}
	shut(t, s)
}
