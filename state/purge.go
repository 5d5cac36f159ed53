package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Purge makes the database's files forget what Apply and Wipe have removed of the partition, also
// what they removed before a crash. It rewrites the tables that hold one of the removed keys, or
// after a crash or a Wipe all tables of the partition, and waits for that. Without removed values
// it costs a read.
//
// Deletions are visible at once, but Pebble keeps the bytes in older tables and, as bounds of
// tables, in the manifest, until they are rewritten. When Purge has returned, all of that
// is rewritten, and the old files are being deleted.
func (p *Partition) Purge() error {
	if err := p.s.begin(); err != nil {
		return err
	}
	defer p.s.end()
	if p.s.o.ReadOnly {
		return errLooking
	}
	unfinished, err := p.unfinished()
	if err != nil || !unfinished && !p.unknown && len(p.removed) == 0 {
		return err
	}
	p.s.purging.Lock()
	defer p.s.purging.Unlock()
	if err := p.s.health.await(p.purge); err != nil {
		return p.s.health.fail(fmt.Errorf("purge partition %d: %w", p.number, err))
	}
	p.removed, p.unknown = nil, false
	return nil
}

// purge compacts the ranges of the removed keys, and then renews the manifest.
func (p *Partition) purge() error {
	db := p.s.db
	if err := db.Flush(); err != nil {
		return err
	}
	ranges := p.removed
	if p.unknown || len(ranges) == 0 {
		ranges = [][]byte{nil}
	}
	for _, key := range ranges {
		first, end := key, append(bytes.Clone(key), 0)
		if key == nil {
			first, end = appendPrefix(nil, p.number), appendPrefix(nil, p.number+1)
		}
		if err := db.Compact(context.Background(), first, end, false); err != nil {
			return err
		}
	}
	if err := p.renewManifest(); err != nil {
		return err
	}
	// Last, so that a crash before it makes the next Purge do all of this again.
	name := append(appendPrefix(nil, p.number), removedName...)
	err := db.Delete(name, pebble.NoSync)
	p.s.unflushed.Store(true)
	return err
}

// renewManifest waits until Pebble has begun two manifests, since it keeps the last one but one. It
// begins one after as many changes of tables as there are tables, and each flush is a change.
func (p *Partition) renewManifest() error {
	db, h := p.s.db, p.s.health
	name := append(appendPrefix(nil, p.number), removedName...)
	until := h.manifests.Load() + 2
	for range 4*db.Metrics().Total().TablesCount + 16 {
		if h.manifests.Load() >= until {
			return nil
		}
		if err := errors.Join(db.Set(name, nil, pebble.NoSync), db.Flush()); err != nil {
			return err
		}
	}
	return errors.New("the manifest was not renewed (report-this)")
}

// Keep keeps a copy of the partition's values and positions before a Wipe that gives up what may be
// the only copy left. It copies the whole database to store.aside-N, by links to its files, so it
// costs little time and space. If the partition has not changed since the last copy of this Store,
// it does nothing, so one copy serves all partitions that are given up together.
func (p *Partition) Keep() error {
	if p.s.o.ReadOnly {
		return errLooking
	}
	p.s.keeping.Lock()
	defer p.s.keeping.Unlock()
	now, found, err := p.Positions()
	if err != nil || !found {
		return err
	}
	if at, ok := p.s.kept[int32(p.number)]; ok && at == now {
		return nil
	}
	// The positions are read before the copy is made. So a partition that has the same positions
	// later has not changed since, and is in the copy.
	kept, err := p.s.positions()
	if err != nil {
		return err
	}
	if err := p.s.copyAside(); err != nil {
		return err
	}
	p.s.kept = kept
	return nil
}

// positions returns the positions of all partitions that have some.
func (s *Store) positions() (map[int32]Positions, error) {
	numbers, err := s.Partitions()
	if err != nil {
		return nil, err
	}
	all := map[int32]Positions{}
	for _, n := range numbers {
		at, found, err := s.Partition(n).Positions()
		if err != nil {
			return nil, err
		}
		if found {
			all[n] = at
		}
	}
	return all, nil
}

// copyAside copies the database to the first free name of stores that are set aside.
func (s *Store) copyAside() error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	name := s.folder.freeAside()
	if name == "" {
		return fmt.Errorf("state: %d stores were set aside: look at %s* and remove them", maxAside,
			s.folder.path(storeName+asideSuffix))
	}
	// A checkpoint has what is in files, and no memtable.
	err := s.health.await(func() error {
		if err := s.db.Flush(); err != nil {
			return err
		}
		return s.db.Checkpoint(s.folder.path(name))
	})
	if err != nil {
		return s.health.fail(err)
	}
	s.o.Logger.Warn("state: a copy of the store is kept, since states in it are given up. As "+
		"the folder named store in another state folder it can be read, and a changelog be "+
		"written back from it", "folder", s.folder.path(name))
	return s.folder.sync()
}
