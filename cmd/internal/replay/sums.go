package replay

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/geodither/geodither/cmd/internal/recompute"
)

// userCosts adds up on disk, by user, what second releases cost over all partitions: under
// topics.partitioner: any, and after a change of the partitioner, one user may have
// releases in several. Tasks of several partitions use it at a time.
type userCosts struct {
	mu     sync.Mutex
	folder *recompute.Folder
	spent  *recompute.Map // user → ε, and that of it before --from, by now
	whole  *recompute.Map // the same for the end of the replay
}

// openCosts opens an empty one. The caller closes it.
func (p *planner) openCosts() (*userCosts, error) {
	folder, err := recompute.NewFolder(p.r.TempDir, p.replay.Logger)
	if err != nil {
		return nil, err
	}
	return &userCosts{folder: folder, spent: folder.Map(0), whole: folder.Map(1)}, nil
}

// add books what a user's releases in one partition have cost, into one of the two sums.
func (c *userCosts) add(to *recompute.Map, user []byte, epsilon, before float64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, booked, err := to.Get(user)
	if err != nil {
		return err
	}
	if booked != nil {
		of := costOf(booked)
		epsilon, before = epsilon+of.Epsilon, before+of.BeforeFrom
	}
	return to.Put(user, 0, binary.BigEndian.AppendUint64(
		binary.BigEndian.AppendUint64(nil, math.Float64bits(epsilon)), math.Float64bits(before)))
}

// costOf reads one user's sum.
func costOf(value []byte) Cost {
	float := func(at int) float64 {
		return math.Float64frombits(binary.BigEndian.Uint64(value[at:]))
	}
	return Cost{Epsilon: float(0), BeforeFrom: float(8), UserMax: float(0), Users: 1}
}

// total joins the users of one of the two sums.
func (c *userCosts) total(of *recompute.Map) (sum Cost, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = of.Each(func(_ []byte, _ int64, value []byte) error {
		sum.add(costOf(value))
		return nil
	})
	return sum.rounded(), err
}

// close removes the sums.
func (c *userCosts) close() error {
	return c.folder.Close()
}
