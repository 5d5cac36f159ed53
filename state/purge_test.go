package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// erased is no neighbour of another key, so tables do not shorten it; and, as the greatest key of
// all, it is a bound of its table, which the manifest names.
const (
	erased = "zoe-4c1f9a"
	secret = "a place that nobody must find"
)

// TestPurge: no file of the folder has the bytes of a removed key or of its value, however they
// came there and were removed.
func TestPurge(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, dir string, s *Store) *Store{
		"removed": func(t *testing.T, _ string, s *Store) *Store {
			t.Helper()
			apply(t, s.Partition(1), Positions{Input: 9}, erased, "")
			return s
		},
		"removed by a handle that purges": func(t *testing.T, _ string, s *Store) *Store {
			t.Helper()
			p := s.Partition(1)
			apply(t, p, Positions{Input: 9}, erased, "")
			purge(t, p)
			return s
		},
		"wiped": func(t *testing.T, _ string, s *Store) *Store {
			t.Helper()
			if err := s.Partition(1).Wipe(); err != nil {
				t.Fatal(err)
			}
			return s
		},
		"opened again before the purge": func(t *testing.T, dir string, s *Store) *Store {
			t.Helper()
			apply(t, s.Partition(1), Positions{Input: 9}, erased, "")
			shut(t, s)
			return onDisk(t, dir)
		},
		"wiped, opened again and wiped": func(t *testing.T, dir string, s *Store) *Store {
			t.Helper()
			for range 2 {
				if err := s.Partition(1).Wipe(); err != nil {
					t.Fatal(err)
				}
				shut(t, s)
				s = onDisk(t, dir)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := onDisk(t, dir)
			for n := range 40 { // tables at several levels, logs, edits of the manifest
				at := Positions{Input: int64(n)}
				apply(t, s.Partition(0), at, fmt.Sprint("user-", n%7), secret[:9])
				apply(t, s.Partition(1), at, fmt.Sprint("user-", n), secret[:9], erased,
					fmt.Sprint(secret, n))
				if n%8 == 0 {
					if err := s.db.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if files := holding(t, dir); len(files) == 0 {
				t.Fatal("the search finds nothing while the key is there")
			}
			s = remove(t, dir, s)
			purge(t, s.Partition(1))
			var files []string
			for range 500 { // Pebble deletes files in the background
				if files = holding(t, dir); len(files) == 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if len(files) > 0 {
				t.Errorf("%v still have it", files)
			}
			if got := get(t, s.Partition(0), "user-3"); got != secret[:9] {
				t.Errorf("another partition's value is %q", got)
			}
			shut(t, s)
		})
	}
}

// TestPurgeAfterCrash: a handle that removes a key while an earlier removal is unfinished rewrites
// the whole partition. In a store of several tables its own key's range does not have the other.
func TestPurgeAfterCrash(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs, Options{})
	apply(t, s.Partition(1), Positions{Input: 1}, erased, "1", "aaa", "1")
	apply(t, s.Partition(1), Positions{Input: 2}, erased, "")
	shut(t, s)
	s = open(t, fs, Options{})
	defer shut(t, s)
	p := s.Partition(1)
	apply(t, p, Positions{Input: 3}, "aaa", "")
	if !p.unknown {
		t.Error("the removal before the crash is forgotten")
	}
	purge(t, p)
	if apply(t, p, Positions{Input: 4}, "bob", ""); p.unknown {
		t.Error("after a purge, a removal costs a rewrite of all tables")
	}
}

// TestReserved: what remains of erased users, and requests, lie beside users' keys and are listed
// apart.
func TestReserved(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{Identity: []byte("group a")})
	defer shut(t, s)
	p := s.Partition(3)
	apply(t, p, Positions{}, "ann", "1", KeptName+"b", "2", RequestName+"c", "3", KeptName+"a", "4",
		MarkName, "5")
	apply(t, s.Partition(4), Positions{}, KeptName+"z", "6")
	for name, want := range map[string]string{
		KeptName: KeptName + "a=4 " + KeptName + "b=2 ", RequestName: RequestName + "c=3 ",
	} {
		var got string
		err := p.Reserved(name, func(key, value []byte) error {
			got += fmt.Sprintf("%s=%s ", key, value)
			return nil
		})
		if err != nil || got != want {
			t.Errorf("under %q there is %q, %v", name, got, err)
		}
	}
	if got := contents(t, p); got != "ann=1 " {
		t.Errorf("users: %q", got)
	}
}

func onDisk(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{Identity: []byte("group a"), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func purge(t *testing.T, p *Partition) {
	t.Helper()
	if err := p.Purge(); err != nil {
		t.Fatal(err)
	}
}

// holding lists the files below a folder that have the erased key or a part of its value.
func holding(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // Pebble deletes files in the background
		}
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(data, []byte(erased)) || bytes.Contains(data, []byte(secret[9:])) {
			files = append(files, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
