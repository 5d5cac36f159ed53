package state

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Keep keeps a copy of the partition's values and positions before a Wipe that gives up
// what may be nowhere else. It copies the whole database to store.aside-N, by links to its
// files, so it costs little time and space. Where the partition has not changed since an
// earlier copy of this Store it does nothing: one copy serves all partitions that are given
// up together.
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
	// The positions are read before the copy is made, so a partition that has the same ones
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

// positions are those of all partitions.
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

// copyAside copies the database to the first free name of those that are set aside.
func (s *Store) copyAside() error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	for n := 1; n <= maxAside; n++ {
		name := fmt.Sprintf("%s%s%d", storeName, asideSuffix, n)
		if s.exists(name) {
			continue
		}
		err := s.health.await(func() error {
			return s.db.Checkpoint(s.path(name), pebble.WithFlushedWAL())
		})
		if err != nil {
			return s.health.fail(err)
		}
		s.o.Logger.Warn("state: a copy of the store is kept, since states in it are given up. As "+
			"the folder named store in another state folder it can be read, and a changelog be "+
			"written back from it", "folder", s.path(name))
		return s.syncDir()
	}
	return fmt.Errorf("state: %d stores were set aside already: remove %s* after a look at why, "+
		"before states are given up", maxAside, s.path(storeName+asideSuffix))
}
