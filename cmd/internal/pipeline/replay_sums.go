package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/geodither/geodither/state"
)

// userCosts adds up on disk, by user, what second releases cost over all partitions: under
// topics.partitioner: any, and after a change of the partitioner, one user may have
// releases in several. Tasks of several partitions use it at a time.
type userCosts struct {
	mu    sync.Mutex
	dir   string
	store *state.Store
	spent *scratch // user → ε, and that of it before --from, by now
	whole *scratch // the same for the end of the replay
}

// openCosts opens an empty one. The caller closes it.
func (p *planner) openCosts() (*userCosts, error) {
	dir, store, err := p.openScratch()
	if err != nil {
		return nil, err
	}
	return &userCosts{
		dir: dir, store: store,
		spent: newScratch(store.Partition(0)), whole: newScratch(store.Partition(1)),
	}, nil
}

// openScratch opens a store in a new temporary folder.
func (p *planner) openScratch() (dir string, store *state.Store, err error) {
	if dir, err = os.MkdirTemp(p.r.TempDir, scratchPrefix); err != nil {
		return "", nil, fmt.Errorf("it needs a temporary folder: %w", err)
	}
	store, err = state.Open(dir, state.Options{
		CacheBytes: 16 << 20, BlockCacheBytes: 16 << 20, MemTableBytes: 8 << 20,
		Logger: p.replay.Logger,
	})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, store, nil
}

// add books what a user's releases in one partition have cost, into one of the two sums.
func (c *userCosts) add(to *scratch, user []byte, epsilon, before float64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, err := to.get(user)
	if err != nil {
		return err
	}
	if value != nil {
		_, booked := split(value)
		of := costOf(booked)
		epsilon, before = epsilon+of.Epsilon, before+of.BeforeFrom
	}
	return to.put(user, 0, binary.BigEndian.AppendUint64(
		binary.BigEndian.AppendUint64(nil, math.Float64bits(epsilon)), math.Float64bits(before)))
}

// costOf reads one user's sum.
func costOf(value []byte) ReplayCost {
	float := func(at int) float64 {
		return math.Float64frombits(binary.BigEndian.Uint64(value[at:]))
	}
	return ReplayCost{Epsilon: float(0), BeforeFrom: float(8), UserMax: float(0), Users: 1}
}

// total joins the users of one of the two sums.
func (c *userCosts) total(of *scratch) (sum ReplayCost, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := of.flush(); err != nil {
		return sum, err
	}
	err = of.each(func(_ []byte, _ int64, value []byte) error {
		sum.add(costOf(value))
		return nil
	})
	return sum.rounded(), err
}

// close removes the sums.
func (c *userCosts) close() error {
	return errors.Join(c.store.Close(), os.RemoveAll(c.dir))
}
