package service

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
)

// replaced are the versions of a schedule without those that another one of the same start
// follows. Where a partition has adopted one, and the schedule was then changed under the
// instances that had not seen it, both are in use, and no schedule would do for both
// partitions if it could not hold both. So it may, and the last one is what all come to.
func replaced(versions []*engine.Version) (last []*engine.Version) {
	for i, v := range versions {
		if i+1 == len(versions) || versions[i+1].ID.StartMS != v.ID.StartMS {
			last = append(last, v)
		}
	}
	return last
}

// timeline is what one instance knows of the schedule, for all its partitions.
type timeline struct {
	log *slog.Logger

	mu      sync.Mutex
	later   []*engine.Version
	keep    []any                     // of the last ones, so that they are there when they start
	adopted map[engine.VersionID]bool // by partitions that were here
	told    map[string]bool           // what was logged and need not be again
}

func newTimeline(later []*engine.Version, log *slog.Logger) *timeline {
	return &timeline{
		log: log, later: later, adopted: map[engine.VersionID]bool{}, told: map[string]bool{},
	}
}

// current is what is known by now; ascending starts. Do not change it.
func (t *timeline) current() []*engine.Version {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.later
}

// resolve finds what a mark names, and remembers that it is in use.
func (t *timeline) resolve(list []task.Amendment) ([]engine.Amended, error) {
	found, err := engine.Resolve(list, t.current())
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range found {
		t.adopted[a.Version.ID] = true
	}
	return found, nil
}

// replace takes over another schedule, unless a version is gone from it that a partition
// here has adopted: going on without would be other releases of the same fixes.
func (t *timeline) replace(later []*engine.Version, keep []any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.missing(later); err != nil {
		return err
	}
	t.later, t.keep = later, keep
	return nil
}

// holds says whether replace would refuse a schedule now.
func (t *timeline) holds(later []*engine.Version) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.missing(later)
}

// missing is under the lock.
func (t *timeline) missing(later []*engine.Version) error {
	for _, old := range t.later {
		if t.adopted[old.ID] && !slices.ContainsFunc(later, func(v *engine.Version) bool {
			return v.ID == old.ID
		}) {
			return fmt.Errorf("%w: %v. Put the model %v back, with that start",
				engine.ErrVersion, old.ID, old.ID.Model)
		}
	}
	return nil
}

// once reports whether something is to be logged for the first time.
func (t *timeline) once(what string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.told) > 100 {
		clear(t.told)
	}
	was := t.told[what]
	t.told[what] = true
	return !was
}
