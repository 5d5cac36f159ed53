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

	// writing serializes writes. Pebble would do so too; but after an error it
	// leaves its own locks behind, and nobody may be waiting for them then.
	writing sync.Mutex
	closed  bool // guarded by writing
	broken  atomic.Pointer[failure]
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

// Close writes what is in memory and releases the folder. After a failure it
// only releases the folder.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return fmt.Errorf("state: %w", ErrClosed)
	}
	s.closed = true
	var err error
	if s.broken.Load() == nil {
		err = explain(guard(s.db.Close))
	}
	// Else Pebble may hang on the locks that the failure left behind. The
	// process is about to end, and a store that lost its last writes is fine.
	return errors.Join(err, s.lockFile.Close())
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

// Stats reads them. It takes a few microseconds.
func (s *Store) Stats() Stats {
	st := s.cache.stats()
	st.DiskBytes = s.db.Metrics().DiskSpaceUsage()
	return st
}

// write makes one write into Pebble.
func (s *Store) write(f func() error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return fmt.Errorf("state: %w", ErrClosed)
	}
	if f := s.broken.Load(); f != nil {
		return explain(f.err)
	}
	if err := guard(f); err != nil {
		return s.failed(err)
	}
	return nil
}

// failed remembers that the database is not to be trusted any more.
func (s *Store) failed(err error) error {
	s.broken.CompareAndSwap(nil, &failure{err})
	if (errors.Is(err, pebble.ErrCorruption) || errors.Is(err, errPositions)) && !s.o.ReadOnly {
		s.markDamaged()
	}
	return explain(err)
}
