package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// aside counts the stores that were set aside.
func aside(t *testing.T, fs vfs.FS) (n int) {
	t.Helper()
	names, err := fs.List("data/geodither")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, storeName+asideSuffix) {
			n++
		}
	}
	return n
}

// TestIdentity: a store of another identity is set aside and kept, and a new one
// begun; the same one is opened.
func TestIdentity(t *testing.T) {
	fs := vfs.NewMem()
	var log bytes.Buffer
	o := Options{Identity: []byte("group a"), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s := open(t, fs, o)
	apply(t, s.Partition(0), Positions{Input: 1}, "ann", "secret")
	shut(t, s)

	s = open(t, fs, o)
	if got := get(t, s.Partition(0), "ann"); got != "secret" || string(s.Identity()) != "group a" {
		t.Errorf("the same identity finds %q, %q", got, s.Identity())
	}
	shut(t, s)
	if log.Len() > 0 {
		t.Errorf("nothing has happened, yet: %s", log.String())
	}

	o.Identity = []byte("group b")
	s = open(t, fs, o)
	if got := get(t, s.Partition(0), "ann"); got != "" {
		t.Errorf("another identity sees %q", got)
	}
	shut(t, s)
	if aside(t, fs) != 1 || !strings.Contains(log.String(), "level=WARN") ||
		strings.Contains(log.String(), "secret") {
		t.Errorf("%d stores set aside, log: %s", aside(t, fs), log.String())
	}
	for range 2 * maxAside {
		o.Identity = append(o.Identity, '+')
		var err error
		o.FS = fs
		if s, err = Open("data/geodither", o); err != nil {
			if aside(t, fs) != maxAside || !strings.Contains(err.Error(), "remove") {
				t.Errorf("%d set aside: %v", aside(t, fs), err)
			}
			return
		}
		shut(t, s)
	}
	t.Error("stores are set aside without end")
}

// TestForeign: a database of somebody else's is not written into.
func TestForeign(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebble.Open("data/geodither/store", &pebble.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set([]byte("theirs"), []byte("value"), pebble.Sync),
		db.Close()); err != nil {
		t.Fatal(err)
	}
	s := open(t, fs, Options{})
	defer shut(t, s)
	if ps, err := s.Partitions(); aside(t, fs) != 1 || len(ps) != 0 || err != nil {
		t.Errorf("%d set aside, partitions %v, %v", aside(t, fs), ps, err)
	}
}

// content returns what a file holds; ok is false if that is nothing.
func content(t *testing.T, fs *vfs.MemFS, name string) (data []byte, ok bool) {
	t.Helper()
	info, err := fs.Stat(name)
	if err != nil || info.IsDir() || info.Size() == 0 {
		return nil, false
	}
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	data = make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return data, f.Close() == nil
}

func replace(t *testing.T, fs *vfs.MemFS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLocked: a second instance is told so, in this process and on a real disk,
// and does no harm.
func TestLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := Open(dir, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {ReadOnly: true}, {Identity: []byte("other")}} {
		if _, err := Open(dir, o); !errors.Is(err, ErrLocked) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("a second Open answers %v", err)
		}
	}
	apply(t, s.Partition(0), Positions{}, "still", "works")
	shut(t, s)
	s, err = Open(dir, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
}

// TestReadOnly looks at a store without touching it.
func TestReadOnly(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{FS: fs, ReadOnly: true, Logger: quiet()}
	if _, err := Open("data/geodither", o); !errors.Is(err, ErrAbsent) {
		t.Errorf("no folder: %v", err)
	}
	s := open(t, fs, Options{Identity: []byte("group a")})
	apply(t, s.Partition(3), Positions{Input: 5, Changelog: 6, AppliedMS: 7}, "ann", "1")
	shut(t, s)

	s = open(t, fs, o)
	if ps, err := s.Partitions(); err != nil || fmt.Sprint(ps) != "[3]" ||
		string(s.Identity()) != "group a" {
		t.Errorf("partitions %v, %v, identity %q", ps, err, s.Identity())
	}
	p := s.Partition(3)
	if pos, found, err := p.Positions(); pos.Input != 5 || !found || err != nil ||
		contents(t, p) != "ann=1 " {
		t.Errorf("%+v, %v, %v, %q", pos, found, err, contents(t, p))
	}
	if err := p.Apply(nil, Positions{}); err == nil {
		t.Error("a store that was opened to look at it was written")
	}
	_ = s.Close()
	o.Identity = []byte("group b")
	if _, err := Open("data/geodither", o); !errors.Is(err, ErrForeign) || aside(t, fs) != 0 {
		t.Errorf("another identity: %v", err)
	}
	s = open(t, fs, Options{Identity: []byte("group a")})
	defer shut(t, s)
	if got := get(t, s.Partition(3), "ann"); got != "1" {
		t.Errorf("looking at it has changed it: %q", got)
	}
}
