package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names inside the folder. The database has a folder of its own in it, because the folder itself
// may be a mount point, which cannot be renamed, and so that the lock is held while the database is
// set aside.
const (
	lockName    = "LOCK"
	storeName   = "store"
	damagedName = "DAMAGED"
	asideSuffix = ".aside-"
	maxAside    = 9 // a fault that comes back must not fill the disk
)

// folder is where a store has its files.
type folder struct {
	dir string
	fs  vfs.FS
	log *slog.Logger
}

func (f folder) path(name string) string { return f.fs.PathJoin(f.dir, name) }

func (f folder) exists(name string) bool {
	_, err := f.fs.Stat(f.path(name))
	return err == nil || !errors.Is(err, os.ErrNotExist)
}

// sync makes renamed and new files durable.
func (f folder) sync() error {
	d, err := f.fs.OpenDir(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lock takes the folder's lock, and makes the folder before if it may.
func (f folder) lock(create bool) (io.Closer, error) {
	if create {
		if err := f.fs.MkdirAll(f.dir, 0o750); err != nil {
			return nil, explainMake(err)
		}
	}
	l, err := f.fs.Lock(f.path(lockName))
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("state: %w (%w)", ErrAbsent, err)
	case environment(err):
		return nil, explain(err)
	}
	return nil, locked(f.path(lockName), err)
}

// locked returns the error of a lock that is taken. The system's error for it is EAGAIN or EACCES,
// and Pebble has a text of its own if this process has taken it.
func locked(path string, err error) error {
	return fmt.Errorf("state: %w (lock file %s: %w)", ErrLocked, path, err)
}

// freeAside returns the first free name for a store that is set aside, "" if there is none.
func (f folder) freeAside() string {
	for n := 1; n <= maxAside; n++ {
		if name := fmt.Sprintf("%s%s%d", storeName, asideSuffix, n); !f.exists(name) {
			return name
		}
	}
	return ""
}

// setAside renames the database to the first free name, and logs the reason.
func (f folder) setAside(why error, reason any) error {
	name := f.freeAside()
	if name == "" {
		return fmt.Errorf("%d unusable stores were set aside: look at %s* and remove them (%w)",
			maxAside, f.path(storeName+asideSuffix), why)
	}
	if f.exists(storeName) {
		if err := f.fs.Rename(f.path(storeName), f.path(name)); err != nil {
			return fmt.Errorf("set the unusable store aside: %w", err)
		}
		f.log.Warn("state: a store that cannot be used was set aside; its states are restored "+
			"from the changelog", "reason", reason, "folder", f.path(name))
	}
	err := f.fs.Remove(f.path(damagedName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.sync()
}

// markDamaged leaves a note for the next start. It is best effort.
func (f folder) markDamaged() {
	file, err := f.fs.Create(f.path(damagedName), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(file.Sync(), file.Close(), f.sync())
	}
	if err != nil {
		f.log.Warn("state: could not leave a note that the store is damaged; it may be opened as "+
			"if it were sound: run doctor, and if the changelog is intact remove it with state "+
			"reset", "folder", f.path(storeName), "error", err)
	}
}

// Contents is what a store has in its folder.
type Contents struct {
	Names []string // of the folder's entries, in order
	Bytes int64
	Aside []string // of RemoveStore: the stores that were set aside, and stay
	InUse bool     // an instance has the store open now, and Remove was only asked to look
}

// Remove deletes what a store has in a folder, with the stores that were set aside, and returns
// what that was. With keep it only looks.
//
// It holds the folder's lock while it works, so that no instance can have the store open. If one
// has, the error is ErrLocked; if Remove only looks, it sets InUse. Other files, the folder and its
// LOCK stay. A folder that does not exist, or holds no store, gives empty Contents.
func Remove(dir string, keep bool) (Contents, error) {
	return remove(dir, keep, false)
}

// RemoveStore is Remove without the stores that were set aside. They stay, because nobody can tell
// what a store that could not be used holds, and Aside names them.
func RemoveStore(dir string, keep bool) (Contents, error) {
	return remove(dir, keep, true)
}

func remove(dir string, keep, keepAside bool) (found Contents, err error) {
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return found, nil // there never was a store, so do not make a lock
	}
	lock, err := vfs.Default.Lock(path)
	switch {
	case err != nil && environment(err):
		return found, explain(err)
	case err != nil && keep:
		found.InUse = true
	case err != nil:
		return found, locked(path, err)
	default:
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return found, explain(err)
	}
	for _, e := range entries {
		aside := strings.HasPrefix(e.Name(), storeName+asideSuffix)
		switch {
		case aside && keepAside:
			found.Aside = append(found.Aside, e.Name())
		case aside, e.Name() == storeName, e.Name() == damagedName:
			if err := found.addEntry(dir, e.Name(), keep); err != nil {
				return found, explain(err)
			}
		}
	}
	return found, nil
}

// addEntry counts an entry of the folder, and removes it unless it is to be kept.
func (c *Contents) addEntry(dir, name string, keep bool) error {
	path := filepath.Join(dir, name)
	size, err := sizeOf(path)
	if err != nil {
		return err
	}
	if !keep {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	c.Names, c.Bytes = append(c.Names, name), c.Bytes+size
	return nil
}

// sizeOf returns the size of a file, or of all files in a folder. Files that a working store
// removes meanwhile do not count.
func sizeOf(path string) (total int64, err error) {
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}
