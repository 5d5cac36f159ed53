package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Store is an open database: one in a process. Its methods, and those of
// different partitions, may be called at the same time.
type Store struct {
	dir      string
	o        Options
	lockFile io.Closer
	db       *pebble.DB
	cache    *cache
	identity []byte

	closing sync.RWMutex // held for reading by every call, for writing by Close
	closed  bool
	health  *health

	keeping sync.Mutex
	kept    map[int32]Positions // of the partitions in the last copy that Keep has made
}

// Open opens the store in a folder and makes it if it is not there. A store of
// another identity, or one that is damaged, is renamed to store.aside-N and
// logged, and a new one begun. Errors: ErrLocked, ErrFull, ErrReadOnly; with
// Options.ReadOnly also ErrAbsent, ErrForeign, ErrDamaged.
func Open(dir string, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Store{dir: dir, o: o, cache: newCache(o.CacheBytes)}
	var err error
	if s.lockFile, err = s.lock(); err != nil {
		return nil, fmt.Errorf("%w: folder %s", err, dir)
	}
	if err := s.openOrReplace(); err != nil {
		if s.db != nil {
			err = errors.Join(err, s.closeDB())
		}
		return nil, fmt.Errorf("%w: folder %s", errors.Join(err, s.lockFile.Close()), dir)
	}
	return s, nil
}

// Close writes what is in memory and releases the folder. When the disk has
// failed it only releases the folder. It waits for calls that are under way.
func (s *Store) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return fmt.Errorf("state: %w", ErrClosed)
	}
	s.closed = true
	return errors.Join(explain(s.closeDB()), s.lockFile.Close())
}

// Identity is that of the folder.
func (s *Store) Identity() []byte { return bytes.Clone(s.identity) }

// Partition is the store of one partition. The values of two handles on the
// same partition must not be used at the same time. It panics on a negative
// number.
func (s *Store) Partition(number int32) *Partition {
	if number < 0 {
		panic(fmt.Sprintf("state: partition %d is negative", number))
	}
	prefix := appendPrefix(nil, uint32(number))
	return &Partition{s: s, number: uint32(number), key: prefix}
}

// Partitions lists the partitions that the store holds anything of, in order. It
// costs one seek each.
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

// Stats are counts since Open and sizes now.
type Stats struct {
	CacheHits, CacheMisses uint64
	CacheBytes             int64 // held by the cache, its overhead included
	DiskBytes              uint64
}

// Stats reads them. It takes a few microseconds. DiskBytes is 0 after a failure.
func (s *Store) Stats() Stats {
	st := s.cache.stats()
	if s.begin() == nil {
		st.DiskBytes = s.db.Metrics().DiskSpaceUsage()
		s.end()
	}
	return st
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

// failed is called once with the first failure of the open database.
func (s *Store) failed(err error) {
	s.o.Logger.Error("state: the store has failed; it is restored from the changelog, if that is intact: run doctor before you remove anything", "error", explain(err))
	if damaged(err) && !s.o.ReadOnly {
		s.markDamaged()
	}
}
