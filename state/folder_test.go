package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// TestDamaged damages each file of a store in turn. The store must then either
// hold what it did, or be set aside at a start, or report the damage, leave a
// note, and be set aside at the next start. It must never hold something else.
func TestDamaged(t *testing.T) {
	build := func() (*vfs.MemFS, []string) {
		fs := vfs.NewMem()
		s := open(t, fs, Options{})
		var kv []string
		for i := range 300 {
			kv = append(kv, fmt.Sprintf("user%d", i), strings.Repeat(fmt.Sprint(i), 40))
		}
		apply(t, s.Partition(0), Positions{Input: 300, Changelog: 300}, kv...)
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
		shut(t, s)
		names, err := fs.List("data/geodither/store")
		if err != nil {
			t.Fatal(err)
		}
		return fs, names
	}
	_, names := build()
	slices.Sort(names) // a folder in memory lists its files in another order each time
	outcomes := map[string]int{}
	for _, name := range names {
		for _, how := range []string{"removed", "truncated", "flipped"} {
			fs, _ := build()
			if !damage(t, fs, "data/geodither/store/"+name, how) {
				continue
			}
			outcome := afterDamage(t, fs, name+" "+how)
			outcomes[outcome]++
			// Pebble reads tables in the background too, so it is a matter of timing which of
			// the two other outcomes it is.
			if strings.HasSuffix(name, ".sst") && outcome == "harmless" {
				t.Errorf("%s %s: it holds all values, and its damage was not found", name, how)
			}
		}
	}
	t.Log(outcomes)
	if outcomes["set aside at the start"]+outcomes["found while reading"] < 3 {
		t.Errorf("outcomes %v: the test does not damage enough", outcomes)
	}
}

func damage(t *testing.T, fs *vfs.MemFS, name, how string) bool {
	t.Helper()
	data, ok := content(t, fs, name)
	switch {
	case !ok:
		return false
	case how == "removed":
		return fs.Remove(name) == nil
	case how == "truncated":
		data = data[:len(data)/2]
	default:
		data[len(data)/3] ^= 0x55
	}
	replace(t, fs, name, data)
	return true
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

func afterDamage(t *testing.T, fs *vfs.MemFS, what string) string {
	t.Helper()
	s := open(t, fs, Options{CacheBytes: -1})
	if aside(t, fs) == 1 {
		defer shut(t, s)
		if contents(t, s.Partition(0)) != "" {
			t.Errorf("%s: a new store is not empty", what)
		}
		return "set aside at the start"
	}
	p := s.Partition(0)
	_, found, err := p.Positions()
	for i := 0; i < 300 && err == nil; i++ {
		var v []byte
		if v, err = p.Get(fmt.Appendf(nil, "user%d", i)); err == nil && found &&
			string(v) != strings.Repeat(fmt.Sprint(i), 40) {
			t.Errorf("%s: user%d is %.20q", what, i, v)
		}
	}
	if err == nil {
		shut(t, s)
		if found {
			return "harmless"
		}
		return "lost whole"
	}
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("%s: the error does not speak of damage: %v", what, err)
	}
	_ = s.Close()
	s = open(t, fs, Options{})
	defer shut(t, s)
	if aside(t, fs) != 1 || contents(t, s.Partition(0)) != "" {
		t.Errorf("%s: found damaged, but not set aside at the next start", what)
	}
	return "found while reading"
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

// TestNoFolder: a folder that cannot be one gives an error.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "sub"), Options{Logger: quiet()}); err == nil {
		t.Error("a folder inside a file was accepted")
	}
	if os.Getuid() != 0 {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{Logger: quiet()}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("a folder without write permission: %v", err)
		}
	}
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
