package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/state"
)

// Folder is a temporary folder on disk with maps in it, as private as the service's own store.
type Folder struct {
	dir   string
	store *state.Store
}

// folderPrefix begins the names of the folders.
const folderPrefix = "geodither-verify-"

// NewFolder makes one in a folder, or in the system's if that is "". The caller closes it. First
// it removes what killed processes have left behind.
func NewFolder(in string, log *slog.Logger) (*Folder, error) {
	dir, err := os.MkdirTemp(in, folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("it needs a temporary folder: %w", err)
	}
	store, err := state.Open(dir, state.Options{
		CacheBytes: 16 << 20, BlockCacheBytes: 16 << 20, MemTableBytes: 8 << 20, Logger: log,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Folder{dir, store}, nil
}

// Close removes the folder.
func (f *Folder) Close() error { return errors.Join(f.store.Close(), os.RemoveAll(f.dir)) }

// Sweep removes folders of processes that were killed: what is in them is private. Those at work
// hold their locks. Whatever cannot be removed stays.
func Sweep(dir string) {
	if dir == "" {
		dir = os.TempDir()
	}
	left, _ := filepath.Glob(filepath.Join(dir, folderPrefix+"*")) // only a bad pattern is an error
	for _, path := range left {
		if found, err := state.Remove(path, false); err == nil && len(found.Names) > 0 {
			_ = os.RemoveAll(path)
		}
	}
}

// Map maps keys to a number and bytes, on disk, for what must not be bounded by memory. It
// writes in batches. A key is put behind a byte, so that any bytes are a key.
type Map struct {
	store   *state.Partition
	pending map[string][]byte // nil: removed
	bytes   int
	key     []byte
	changes []state.Change
}

// pendingBytes is how much of a map is kept in memory before it is written.
const pendingBytes = 4 << 20

// Map returns the folder's map of that number.
func (f *Folder) Map(number int32) *Map {
	return &Map{store: f.store.Partition(number), pending: map[string][]byte{}}
}

// Get returns the number and the bytes of a key; -1 and nil if there is none. The bytes are
// valid until the next call.
func (m *Map) Get(key []byte) (number int64, value []byte, err error) {
	found, ok := m.pending[string(key)]
	if !ok {
		m.key = append(append(m.key[:0], 'k'), key...)
		if found, err = m.store.Get(m.key); err != nil {
			return -1, nil, err
		}
	}
	number, value = split(found)
	return number, value, nil
}

// Has reports whether there is something for a key.
func (m *Map) Has(key []byte) (bool, error) {
	_, value, err := m.Get(key)
	return value != nil, err
}

// Put sets what a key has. All is copied.
func (m *Map) Put(key []byte, number int64, value []byte) error {
	// Appended to what was there: most keys that come again come again soon.
	m.pending[string(key)] = append(
		binary.BigEndian.AppendUint64(m.pending[string(key)][:0], uint64(number)), value...)
	return m.grown(len(key) + len(value))
}

// Remove forgets a key.
func (m *Map) Remove(key []byte) error {
	m.pending[string(key)] = nil
	return m.grown(len(key))
}

func (m *Map) grown(n int) error {
	if m.bytes += n + 64; m.bytes < pendingBytes {
		return nil
	}
	return m.Flush()
}

// Flush writes what is in memory.
func (m *Map) Flush() error {
	m.changes = m.changes[:0]
	for key, value := range m.pending {
		m.changes = append(m.changes, state.Change{Key: []byte("k" + key), Value: value})
	}
	m.bytes = 0
	clear(m.pending)
	return m.store.Apply(m.changes, state.Positions{})
}

// Each visits every key with its number and bytes, in the order of keys.
func (m *Map) Each(visit func(key []byte, number int64, value []byte) error) error {
	if err := m.Flush(); err != nil {
		return err
	}
	return m.store.Iterate(func(key, value []byte) error {
		number, rest := split(value)
		return visit(key[1:], number, rest)
	})
}

// split takes a stored value apart; nil is a number of -1 and no bytes.
func split(value []byte) (number int64, rest []byte) {
	if len(value) < 8 {
		return -1, nil
	}
	return int64(binary.BigEndian.Uint64(value)), value[8:]
}
