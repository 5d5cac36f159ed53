package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Store is an open database. A process opens one. Its methods, and those of different partitions,
// may be called at the same time.
type Store struct {
	folder   folder
	o        Options
	lockFile io.Closer
	db       *pebble.DB
	cache    *cache
	identity []byte // of the database

	closing sync.RWMutex // held for reading by every call, for writing by Close
	closed  bool
	health  *health

	unflushed atomic.Bool    // something was applied since the last flush began
	flushing  sync.WaitGroup // the goroutine that flushes now and then
	stop      chan struct{}  // closed by Close: the goroutine ends

	purging sync.Mutex // held by Purge: one partition at a time
	keeping sync.Mutex
	kept    map[int32]Positions // of the partitions in the last copy that Keep has made
}

// Open opens the store in a folder, and makes it if it is not there. It renames a store of another
// identity, or a damaged one, to store.aside-N, logs that, and makes a new store. Errors:
// ErrLocked, ErrFull, ErrReadOnly; with Options.ReadOnly also ErrAbsent, ErrForeign, ErrDamaged.
func Open(dir string, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Store{
		folder: folder{dir, o.FS, o.Logger}, o: o, cache: newCache(o.CacheBytes),
		stop: make(chan struct{}),
	}
	var err error
	if s.lockFile, err = s.folder.lock(!o.ReadOnly); err != nil {
		return nil, fmt.Errorf("%w: folder %s", err, dir)
	}
	if err := s.openOrReplace(); err != nil {
		if s.db != nil {
			err = errors.Join(err, s.closeDB())
		}
		return nil, fmt.Errorf("%w: folder %s", errors.Join(err, s.lockFile.Close()), dir)
	}
	if !o.ReadOnly && o.FlushEvery > 0 {
		s.flushing.Go(s.flushNowAndThen)
	}
	return s, nil
}

// openOrReplace opens the database. It sets a database that cannot be used aside and makes a new
// one: the store is a cache, and a person may still want to look at the old one.
func (s *Store) openOrReplace() error {
	noted := s.folder.exists(damagedName)
	if noted && s.o.ReadOnly {
		return fmt.Errorf("state: %w", ErrDamaged)
	}
	err := ErrDamaged
	if !noted {
		err = s.openOwn()
	}
	switch {
	case err == nil:
		return nil
	case environment(err) || s.o.ReadOnly:
		return explain(err)
	}
	if err := s.folder.setAside(err, s.reason(err)); err != nil {
		return explain(err)
	}
	if err := s.openDB(); err != nil {
		return explain(err)
	}
	return explain(s.identify())
}

// openOwn opens the database if its identity is the right one.
func (s *Store) openOwn() error {
	if err := s.openDB(); err != nil {
		return err
	}
	err := s.identify()
	if err != nil {
		err = errors.Join(err, s.closeDB())
		s.db = nil
	}
	return err
}

func (s *Store) openDB() error {
	if s.o.ReadOnly && !s.folder.exists(storeName) {
		return ErrAbsent
	}
	s.health = &health{
		broken: make(chan struct{}), frozen: make(chan struct{}), report: s.failed,
	}
	var db *pebble.DB
	done := make(chan error, 1)
	go func() {
		var err error
		db, err = pebble.Open(s.folder.path(storeName), pebbleOptions(s.o, s.health))
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-s.health.frozen:
		return s.health.failure
	}
	s.db = db
	if s.health.check() == nil {
		return nil
	}
	// What Pebble does beside Open has found damage.
	err := errors.Join(s.health.failure, s.closeDB())
	s.db = nil
	return err
}

// closeDB closes the database, unless it is frozen: then the call would not return.
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

// identify checks the identity record, and writes it into an empty database. The record is flushed
// before anything else is written, so a database with records and without an identity is not one of
// ours.
func (s *Store) identify() error {
	key := append(appendPrefix(nil, storePartition), identityName...)
	record, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return s.writeIdentity(key)
	}
	if err != nil {
		return err
	}
	s.identity = bytes.Clone(record[min(1, len(record)):])
	wanted := s.o.Identity
	if s.o.ReadOnly && wanted == nil {
		wanted = s.identity // any will do
	}
	same := sameIdentity(record, wanted)
	if err := closer.Close(); err != nil {
		return err
	}
	if !same {
		return ErrForeign
	}
	return nil
}

// sameIdentity compares a stored identity record with a wanted identity.
func sameIdentity(record, identity []byte) bool {
	return len(record) > 0 && record[0] == identityVersion && bytes.Equal(record[1:], identity)
}

// writeIdentity writes the identity record into a database that must be empty.
func (s *Store) writeIdentity(key []byte) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	found := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	switch {
	case found:
		return ErrForeign
	case s.o.ReadOnly:
		return ErrAbsent
	}
	s.identity = bytes.Clone(s.o.Identity)
	return s.health.await(func() error {
		record := appendIdentity(nil, s.o.Identity)
		return errors.Join(s.db.Set(key, record, pebble.NoSync), s.db.Flush())
	})
}

func appendIdentity(dst, identity []byte) []byte {
	return append(append(dst, identityVersion), identity...)
}

// reason returns why a store is set aside, in the caller's words if it expects that.
func (s *Store) reason(why error) any {
	if s.o.Foreign != nil && errors.Is(why, ErrForeign) {
		if text := s.o.Foreign(s.identity); text != "" {
			return text
		}
	}
	return why.Error() // a handler of logs may print more of an error of Pebble: a stack trace
}

// Close writes what is in memory and releases the folder. If the disk has failed, it only releases
// the folder. It waits for calls that have begun.
func (s *Store) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return fmt.Errorf("state: %w", ErrClosed)
	}
	s.closed = true
	close(s.stop)
	s.flushing.Wait()
	var err error
	if !s.o.ReadOnly && s.health.check() == nil {
		err = s.flush()
	}
	return errors.Join(err, explain(s.closeDB()), s.lockFile.Close())
}

// flushNowAndThen bounds what a crash loses in a store that is written slowly.
func (s *Store) flushNowAndThen() {
	tick := time.NewTicker(s.o.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			_ = s.flush() // a failure is logged, and every later call returns it
		}
	}
}

// flush writes what was applied before it to the disk, and waits for that.
func (s *Store) flush() error {
	if !s.unflushed.Swap(false) {
		return nil
	}
	if err := s.health.await(s.db.Flush); err != nil {
		return s.health.fail(err)
	}
	return nil
}

// begin lets a call in, unless the store is closed or has failed; end lets it out.
func (s *Store) begin() error {
	s.closing.RLock()
	err := s.health.check()
	if s.closed {
		err = fmt.Errorf("state: %w", ErrClosed)
	}
	if err != nil {
		s.closing.RUnlock()
	}
	return err
}

func (s *Store) end() { s.closing.RUnlock() }

// failed is called once, with the first failure of the open database.
func (s *Store) failed(err error) {
	s.o.Logger.Error("state: the store has failed; it is restored from the changelog, if that is "+
		"intact: run doctor before you remove anything", "error", explain(err))
	if damaged(err) && !s.o.ReadOnly {
		s.folder.markDamaged()
	}
}

// Identity returns the identity of the folder.
func (s *Store) Identity() []byte { return bytes.Clone(s.identity) }

// Partition returns the store of one partition. The values of two handles on the same partition
// must not be used at the same time. It panics on a negative number.
func (s *Store) Partition(number int32) *Partition {
	if number < 0 {
		panic(fmt.Sprintf("state: partition %d is negative", number))
	}
	prefix := appendPrefix(nil, uint32(number))
	return &Partition{s: s, number: uint32(number), key: prefix}
}

// Partitions lists the partitions of which the store holds anything, in order. It costs one seek
// for each.
func (s *Store) Partitions() ([]int32, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	it, err := s.db.NewIter(nil)
	if err != nil {
		return nil, explain(err)
	}
	var found []int32
	for valid := it.First(); valid; {
		if len(it.Key()) < prefixLen {
			valid = it.Next()
			continue
		}
		n := binary.BigEndian.Uint32(it.Key())
		if n > math.MaxInt32 {
			break
		}
		found = append(found, int32(n))
		valid = it.SeekGE(appendPrefix(nil, n+1))
	}
	return found, explain(errors.Join(it.Error(), it.Close()))
}

// Stats takes a few microseconds. DiskBytes is 0 after a failure.
func (s *Store) Stats() Stats {
	st := s.cache.stats()
	if s.begin() == nil {
		st.DiskBytes = s.db.Metrics().DiskSpaceUsage()
		s.end()
	}
	return st
}
