package pipeline

import (
	"encoding/binary"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/state"
)

// scratch is a map on disk, for what must not be bounded by memory. It writes in
// batches. A key is put behind a byte, so that any bytes are a key.
type scratch struct {
	store   *state.Partition
	pending map[string][]byte // nil: removed
	bytes   int
	key     []byte
	changes []state.Change
}

// scratchBytes is how much of a scratch is kept in memory before it is written.
const scratchBytes = 4 << 20

// scratchPrefix begins the names of the folders with scratches.
const scratchPrefix = "geodither-verify-"

// sweep removes folders of verifications that were killed: what is in them is
// private. Those at work hold their locks. Whatever cannot be removed stays.
func sweep(dir string) {
	if dir == "" {
		dir = os.TempDir()
	}
	left, _ := filepath.Glob(filepath.Join(dir, scratchPrefix+"*")) // only a bad pattern is an error
	for _, path := range left {
		if found, err := state.Remove(path, false); err == nil && len(found.Names) > 0 {
			_ = os.RemoveAll(path)
		}
	}
}

func newScratch(store *state.Partition) *scratch {
	return &scratch{store: store, pending: map[string][]byte{}}
}

// get returns a value, nil if there is none. It is valid until the next call.
func (s *scratch) get(key []byte) ([]byte, error) {
	if value, ok := s.pending[string(key)]; ok {
		return value, nil
	}
	s.key = append(append(s.key[:0], 'k'), key...)
	return s.store.Get(s.key)
}

// put sets a value, from a number and bytes; both are copied.
func (s *scratch) put(key []byte, number int64, value []byte) error {
	// Appended to what was there: most keys that come again come again soon.
	s.pending[string(key)] = append(binary.BigEndian.AppendUint64(s.pending[string(key)][:0], uint64(number)), value...)
	return s.grown(len(key) + len(value))
}

// remove forgets a key.
func (s *scratch) remove(key []byte) error {
	s.pending[string(key)] = nil
	return s.grown(len(key))
}

func (s *scratch) grown(n int) error {
	if s.bytes += n + 64; s.bytes < scratchBytes {
		return nil
	}
	return s.flush()
}

// flush writes what is in memory.
func (s *scratch) flush() error {
	s.changes = s.changes[:0]
	for key, value := range s.pending {
		s.changes = append(s.changes, state.Change{Key: []byte("k" + key), Value: value})
	}
	s.bytes = 0
	clear(s.pending)
	return s.store.Apply(s.changes, state.Positions{})
}

// each visits every key with its number and value, in the order of keys.
func (s *scratch) each(visit func(key []byte, number int64, value []byte) error) error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.store.Iterate(func(key, value []byte) error {
		number, rest := split(value)
		return visit(key[1:], number, rest)
	})
}

// split takes a scratch's value apart; nil is a number of -1 and no bytes.
func split(value []byte) (number int64, rest []byte) {
	if len(value) < 8 {
		return -1, nil
	}
	return int64(binary.BigEndian.Uint64(value)), value[8:]
}
