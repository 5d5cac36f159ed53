package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Contents is what a store has in its folder.
type Contents struct {
	Names []string // of the folder's entries, in order
	Bytes int64
	Aside []string // of RemoveStore: what was set aside, and stays
	// InUse says, where it was only looked at, that an instance has it open now.
	InUse bool
}

// Remove deletes what a store has in a folder, those that were set aside too, and
// answers with what that was; with keep it only looks. It holds the folder's lock
// while it works, so that no instance can have the store open: ErrLocked says
// that one has, or InUse if it only looks. Other files, the folder and its LOCK stay. A folder that does not
// exist, or holds no store, is empty Contents.
func Remove(dir string, keep bool) (Contents, error) {
	return remove(dir, keep, false)
}

// RemoveStore is Remove without the stores that were set aside: they stay, and Aside names
// them. Nobody can tell what a store that could not be used holds.
func RemoveStore(dir string, keep bool) (Contents, error) {
	return remove(dir, keep, true)
}

func remove(dir string, keep, keepAside bool) (found Contents, err error) {
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return found, nil // and no lock is made where no store ever was
	}
	lock, err := vfs.Default.Lock(path)
	switch {
	case err != nil && environment(err):
		return found, explain(err)
	case err != nil && keep:
		found.InUse = true
	case err != nil:
		return found, fmt.Errorf("state: %w (lock file %s: %w)", ErrLocked, path, err)
	default:
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return found, explain(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != storeName && name != damagedName && !strings.HasPrefix(name, storeName+asideSuffix) {
			continue
		}
		if keepAside && strings.HasPrefix(e.Name(), storeName+asideSuffix) {
			found.Aside = append(found.Aside, e.Name())
			continue
		}
		path := filepath.Join(dir, e.Name())
		size, err := sizeOf(path)
		if err != nil {
			return found, explain(err)
		}
		if !keep {
			if err := os.RemoveAll(path); err != nil {
				return found, explain(err)
			}
		}
		found.Names, found.Bytes = append(found.Names, e.Name()), found.Bytes+size
	}
	return found, nil
}

// sizeOf adds up the files of a folder, or of one. Those that a store at work
// removes meanwhile count for nothing.
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
