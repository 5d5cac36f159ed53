package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names inside the folder. The database has a folder of its own in it, because
// the folder itself may be a mount point, which cannot be renamed, and so that
// the lock is held while the database is set aside.
const (
	lockName    = "LOCK"
	storeName   = "store"
	damagedName = "DAMAGED"
	asideSuffix = ".aside-"
	maxAside    = 9
)

// lock makes the folder and takes its lock.
func (s *Store) lock() (io.Closer, error) {
	if !s.o.ReadOnly {
		if err := s.o.FS.MkdirAll(s.dir, 0o750); err != nil {
			return nil, explainMake(err)
		}
	}
	l, err := s.o.FS.Lock(s.path(lockName))
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("state: %w (%w)", ErrAbsent, err)
	case environment(err):
		return nil, explain(err)
	}
	// EAGAIN or EACCES from the system, a text from Pebble for our own process.
	return nil, fmt.Errorf("state: %w (lock file %s: %w)", ErrLocked, s.path(lockName), err)
}

// openOrReplace opens the database. What cannot be used is set aside, and the
// store begins anew: it is a cache, and somebody may still want to look at it.
func (s *Store) openOrReplace() error {
	damaged := s.exists(damagedName)
	if damaged && s.o.ReadOnly {
		return fmt.Errorf("state: %w", ErrDamaged)
	}
	var err error
	if damaged {
		err = ErrDamaged
	} else if err = s.openDB(); err == nil {
		if err = s.identify(); err == nil {
			return nil
		}
		err = errors.Join(err, s.closeDB())
		s.db = nil
	}
	if environment(err) || s.o.ReadOnly {
		return explain(err)
	}
	if err := s.setAside(err); err != nil {
		return explain(err)
	}
	if err := s.openDB(); err != nil {
		return explain(err)
	}
	return explain(s.identify())
}

func (s *Store) openDB() error {
	if s.o.ReadOnly && !s.exists(storeName) {
		return ErrAbsent
	}
	var db *pebble.DB
	s.health = newHealth(s.failed)
	err := s.health.await(func() (err error) {
		db, err = pebble.Open(s.path(storeName), s.pebbleOptions())
		return err
	})
	if err == nil {
		s.db = db
	}
	return err
}

// closeDB closes the database, unless it is frozen: then it would not return.
func (s *Store) closeDB() error {
	done := make(chan error, 1)
	select {
	case <-s.health.frozen:
		return nil
	default:
		go func() { done <- s.db.Close() }()
	}
	select {
	case err := <-done:
		return err
	case <-s.health.frozen:
		return s.health.failure
	}
}

// identify checks the identity record, and writes it into an empty database. It
// is synced before anything else is written, so a database that holds something
// and no identity is not one of ours.
func (s *Store) identify() error {
	key := append(appendPrefix(nil, storePartition), identityName...)
	record, closer, err := s.db.Get(key)
	switch {
	case err == nil:
		s.identity = append([]byte(nil), record[min(1, len(record)):]...)
		same := sameIdentity(record, s.o.Identity) || s.o.ReadOnly && s.o.Identity == nil && sameIdentity(record, s.identity)
		if err := closer.Close(); err != nil {
			return err
		}
		if !same {
			return ErrForeign
		}
		return nil
	case !errors.Is(err, pebble.ErrNotFound):
		return err
	}
	if empty, err := s.empty(); err != nil {
		return err
	} else if !empty {
		return ErrForeign
	}
	if s.o.ReadOnly {
		return ErrAbsent
	}
	s.identity = append([]byte(nil), s.o.Identity...)
	return s.health.await(func() error { return s.db.Set(key, appendIdentity(nil, s.o.Identity), pebble.Sync) })
}

func (s *Store) empty() (bool, error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return false, err
	}
	found := it.First()
	return !found, errors.Join(it.Error(), it.Close())
}

// setAside renames the database to the first free name. There are few of them:
// a fault that comes back must not fill the disk.
func (s *Store) setAside(why error) error {
	for n := 1; n <= maxAside; n++ {
		name := fmt.Sprintf("%s%s%d", storeName, asideSuffix, n)
		if s.exists(name) {
			continue
		}
		if s.exists(storeName) {
			if err := s.o.FS.Rename(s.path(storeName), s.path(name)); err != nil {
				return fmt.Errorf("set the unusable store aside: %w", err)
			}
			s.o.Logger.Warn("state: a store that cannot be used was set aside; its states are restored from the changelog",
				"reason", s.reason(why), "folder", s.path(name))
		}
		if err := s.o.FS.Remove(s.path(damagedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return s.syncDir()
	}
	return fmt.Errorf("%d unusable stores were set aside already: remove %s* after a look at why (the last: %w)",
		maxAside, s.path(storeName+asideSuffix), why)
}

// reason is why a store is set aside, in the words of whoever expects it.
func (s *Store) reason(why error) any {
	if s.o.Foreign != nil && errors.Is(why, ErrForeign) {
		if text := s.o.Foreign(s.identity); text != "" {
			return text
		}
	}
	return why
}

// markDamaged leaves a note for the next start, as best it can.
func (s *Store) markDamaged() {
	f, err := s.o.FS.Create(s.path(damagedName), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), s.syncDir())
	}
	if err != nil {
		s.o.Logger.Warn("state: could not leave a note that the store is damaged; it may be opened as if it were sound: run doctor, and if the changelog is intact remove it with state reset",
			"folder", s.path(storeName), "error", err)
	}
}

func (s *Store) syncDir() error {
	d, err := s.o.FS.OpenDir(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *Store) path(name string) string { return s.o.FS.PathJoin(s.dir, name) }

func (s *Store) exists(name string) bool {
	_, err := s.o.FS.Stat(s.path(name))
	return err == nil || !errors.Is(err, os.ErrNotExist)
}
