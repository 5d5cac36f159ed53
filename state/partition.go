package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2"
)

// Change is a new value of a key; an empty Value removes the key. It is an alias for the same
// reason as Positions.
type Change = struct{ Key, Value []byte }

// Partition is the store of one partition, for one goroutine.
type Partition struct {
	s      *Store
	number uint32
	key    []byte // scratch; it always begins with the prefix
	value  []byte // scratch

	removed [][]byte // full keys that Apply has removed since the last Purge
	unknown bool     // further keys may have been removed
}

// batchRetain is the size up to which Pebble keeps a batch's memory for the next batch. Its default
// of 1 MiB is less than a transaction of some thousand users with large states.
const batchRetain = 16 << 20

// ErrKey says that a user's key is empty or begins with a zero byte.
var ErrKey = errors.New("state: a key is empty or begins with zero")

var errLooking = errors.New("state: the store is read-only")

// full returns the database's key for a user's key, valid until the next call.
func (p *Partition) full(key string) []byte {
	p.key = append(p.key[:prefixLen], key...)
	return p.key
}

func (p *Partition) fullBytes(key []byte) ([]byte, error) {
	if !taken(key) {
		return nil, ErrKey
	}
	p.key = append(p.key[:prefixLen], key...)
	return p.key, nil
}

// Positions returns those of the last Apply that is still there; found is false in an empty
// partition.
func (p *Partition) Positions() (pos Positions, found bool, err error) {
	if err := p.s.begin(); err != nil {
		return pos, false, err
	}
	defer p.s.end()
	return p.positions()
}

func (p *Partition) positions() (pos Positions, found bool, err error) {
	value, closer, err := p.s.db.Get(p.full(positionsName))
	if errors.Is(err, pebble.ErrNotFound) {
		return pos, false, nil
	}
	if err != nil {
		return pos, false, p.s.health.fail(err)
	}
	pos, err = decodePositions(value)
	if err := errors.Join(err, closer.Close()); err != nil {
		return Positions{}, false, p.s.health.fail(err)
	}
	return pos, true, nil
}

// Get returns the value of a key, nil if there is none. It is valid until the next call to the
// partition, and must not be modified. A value in the cache costs a lookup and a copy, and no
// allocation; any other costs a read of Pebble too.
func (p *Partition) Get(key []byte) ([]byte, error) {
	full, err := p.fullBytes(key)
	if err != nil {
		return nil, err
	}
	if err := p.s.begin(); err != nil {
		return nil, err
	}
	defer p.s.end()
	var found bool
	if p.value, found = p.s.cache.get(p.value[:0], full); found {
		return p.value, nil
	}
	value, closer, err := p.s.db.Get(full)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, p.s.health.fail(err)
	}
	p.value = append(p.value, value...)
	if err := closer.Close(); err != nil {
		return nil, p.s.health.fail(err)
	}
	p.s.cache.put(full, p.value)
	return p.value, nil
}

// Apply writes changes and positions in one batch, without waiting for the disk. It stays in memory
// until a flush (Options.FlushEvery), Purge, Keep or Close. A crash loses the whole batch and
// everything after it, or nothing of it. If a key occurs several times, its last
// change counts. After an error the store takes no more writes, because nobody can know how much of
// the batch was written.
func (p *Partition) Apply(changes []Change, pos Positions) error {
	for _, c := range changes {
		if _, err := p.fullBytes(c.Key); err != nil {
			return err
		}
	}
	if err := p.s.begin(); err != nil {
		return err
	}
	defer p.s.end()
	if p.s.o.ReadOnly {
		return errLooking
	}
	batch := p.s.db.NewBatch(pebble.WithMaxRetainedSizeBytes(batchRetain))
	if err := p.fill(batch, changes, pos); err != nil {
		return explain(errors.Join(err, batch.Close()))
	}
	if err := p.commit(batch); err != nil {
		return err
	}
	for _, c := range changes {
		full, _ := p.fullBytes(c.Key) // checked above
		if len(c.Value) == 0 {
			p.s.cache.remove(full)
			p.note(full)
		} else {
			p.s.cache.put(full, c.Value)
		}
	}
	return nil
}

// fill copies changes and positions into a batch.
func (p *Partition) fill(batch *pebble.Batch, changes []Change, pos Positions) error {
	removed := false
	for _, c := range changes {
		full, err := p.fullBytes(c.Key)
		if err == nil && len(c.Value) == 0 {
			removed = true
			err = batch.Delete(full, nil)
		} else if err == nil {
			err = batch.Set(full, c.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	if removed {
		if err := p.noteEarlier(); err != nil {
			return err
		}
		if err := batch.Set(p.full(removedName), nil, nil); err != nil {
			return err
		}
	}
	p.value = appendPositions(p.value[:0], pos)
	return batch.Set(p.full(positionsName), p.value, nil)
}

// commit writes a batch and releases it, without waiting for the disk.
func (p *Partition) commit(batch *pebble.Batch) error {
	s := p.s
	if err := s.health.await(func() error { return batch.Commit(pebble.NoSync) }); err != nil {
		return s.health.fail(err) // the batch is not closed: the frozen call may still use it
	}
	s.unflushed.Store(true) // after the commit: a flush that clears it has seen the batch
	if err := batch.Close(); err != nil {
		return s.health.fail(err)
	}
	return nil
}

// Wipe removes everything of the partition at once. The values leave the disk with the next Purge,
// or when Pebble compacts.
func (p *Partition) Wipe() error {
	if err := p.s.begin(); err != nil {
		return err
	}
	defer p.s.end()
	if p.s.o.ReadOnly {
		return errLooking
	}
	first, end := appendPrefix(nil, p.number), appendPrefix(nil, p.number+1)
	batch := p.s.db.NewBatch()
	err := errors.Join(batch.DeleteRange(first, end, nil), p.noteEarlier())
	if _, found, problem := p.positions(); found || p.unknown || problem != nil {
		err = errors.Join(err, batch.Set(p.full(removedName), nil, nil))
		p.removed, p.unknown = nil, true
	}
	if err != nil {
		return explain(errors.Join(err, batch.Close()))
	}
	if err := p.commit(batch); err != nil {
		return err
	}
	p.s.cache.removePrefix(appendPrefix(nil, p.number))
	return nil
}

// Iterate calls visit with each user's key and value, in the order of keys, as they are when it
// begins. Both are valid during the call only. It ends with the first error of visit, and returns
// it. It may run beside any other call.
func (p *Partition) Iterate(visit func(key, value []byte) error) error {
	return p.After(nil, visit)
}

// After is Iterate for the users after a key; nil: all.
func (p *Partition) After(key []byte, visit func(key, value []byte) error) error {
	first, end := appendPrefix(nil, p.number), appendPrefix(nil, p.number+1)
	if len(key) > 0 {
		first = append(append(first, key...), 0)
	}
	return p.between(first, end, func(full, value []byte) error {
		if user, ok := userKey(full); ok {
			return visit(user, value)
		}
		return nil
	})
}

// Reserved calls visit with each key and value under a name, such as RequestName, as they are when
// it begins, in the order of keys. Both are valid during the call only. It ends with the first
// error of visit, and returns it.
func (p *Partition) Reserved(name string, visit func(key, value []byte) error) error {
	first := append(appendPrefix(nil, p.number), name...)
	end := bytes.Clone(first)
	end[len(end)-1]++
	return p.between(first, end, func(full, value []byte) error {
		return visit(full[prefixLen:], value)
	})
}

// between calls visit with the database's keys from first on, before end.
func (p *Partition) between(first, end []byte, visit func(full, value []byte) error) error {
	if err := p.s.begin(); err != nil {
		return err
	}
	defer p.s.end()
	it, err := p.s.db.NewIter(&pebble.IterOptions{LowerBound: first, UpperBound: end})
	if err != nil {
		return explain(err)
	}
	var stopped error
	for valid := it.First(); valid && stopped == nil; valid = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			stopped = explain(err)
			break
		}
		stopped = visit(it.Key(), value)
	}
	return errors.Join(stopped, explain(errors.Join(it.Error(), it.Close())))
}

// noteEarlier notes before the first removal of this handle whether earlier ones are unfinished: a
// crash came before their Purge, or another handle made them. Nobody knows their keys any more.
func (p *Partition) noteEarlier() error {
	if p.unknown || len(p.removed) > 0 {
		return nil
	}
	var err error
	p.unknown, err = p.unfinished()
	return err
}

// unfinished reports whether the store says that removed values may still be in its files.
func (p *Partition) unfinished() (bool, error) {
	_, closer, err := p.s.db.Get(p.full(removedName))
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = closer.Close()
	}
	if err != nil {
		return false, p.s.health.fail(err)
	}
	return true, nil
}

// note remembers a removed key for the next Purge. Of too many keys it remembers none.
func (p *Partition) note(full []byte) {
	const most = 1000
	if len(p.removed) == most {
		p.removed, p.unknown = nil, true
	}
	if !p.unknown {
		p.removed = append(p.removed, bytes.Clone(full))
	}
}

// prefixLen is the length of a partition's number, with which each key begins.
const prefixLen = 4

// storePartition is the prefix of keys that belong to the store as a whole. No partition has this
// number, because it is negative as an int32.
const storePartition = math.MaxUint32

// The store's own keys begin with a zero byte. Users' keys do not.
const (
	positionsName = "\x00positions"
	identityName  = "\x00identity"
	removedName   = "\x00removed" // values were removed, and may still be in the files
)

// Keys beside users' keys that Apply and Get take. Their values are opaque here.
const (
	MarkName = "\x00input" // the last mark of the changelog
	// PartitionName, RequestName and KeptName begin the keys of the states of the partition, of
	// requests to erase a user, and of what remains of erased users.
	PartitionName = "\x00partition"
	RequestName   = "\x00erase"
	KeptName      = "\x00kept"
)

// taken reports whether Apply and Get take a key.
func taken(key []byte) bool {
	return len(key) > 0 && (key[0] != 0 || string(key) == MarkName || reserved(key))
}

// reserved reports whether a key is that of a state of the partition, of a request to erase, or of
// what remains.
func reserved(key []byte) bool {
	return bytes.HasPrefix(key, []byte(PartitionName)) ||
		bytes.HasPrefix(key, []byte(RequestName)) || bytes.HasPrefix(key, []byte(KeptName))
}

const (
	positionsVersion = 1
	positionsLen     = 1 + 3*8
	identityVersion  = 1
)

// appendPrefix appends a partition's prefix. It is the partition's number, big-endian, so that a
// partition's keys lie together and partitions are in order.
func appendPrefix(dst []byte, partition uint32) []byte {
	return binary.BigEndian.AppendUint32(dst, partition)
}

// userKey returns the part of a key after the prefix; ok is false for the store's own keys.
func userKey(key []byte) (user []byte, ok bool) {
	if len(key) <= prefixLen || key[prefixLen] == 0 {
		return nil, false
	}
	return key[prefixLen:], true
}

func appendPositions(dst []byte, p Positions) []byte {
	dst = append(dst, positionsVersion)
	for _, v := range [...]int64{p.Input, p.Changelog, p.AppliedMS} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

func decodePositions(value []byte) (p Positions, err error) {
	if len(value) != positionsLen || value[0] != positionsVersion {
		return p, errPositions
	}
	p.Input = int64(binary.BigEndian.Uint64(value[1:]))
	p.Changelog = int64(binary.BigEndian.Uint64(value[9:]))
	p.AppliedMS = int64(binary.BigEndian.Uint64(value[17:]))
	if p.Input < -1 || p.Changelog < 0 {
		return Positions{}, errPositions
	}
	return p, nil
}

// Positions say which prefix of the input and of the changelog a partition's values are: the input
// offset (-1 if it is not known yet), the changelog offset from which a restoration goes on, and a
// time in Unix milliseconds at which the values were the changelog's last. The type is an alias of
// an unnamed type, so that users of the store need not import this package.
type Positions = struct{ Input, Changelog, AppliedMS int64 }
