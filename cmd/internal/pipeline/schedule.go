package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Schedule is the mobility model in its versions, as Options.Watch finds it.
type Schedule struct {
	First VersionID // its start does not matter
	Later []*Version
}

const tooLarge = "a new user's state may take %d bytes, more than a batch of %d: use larger cells or a smaller box, " +
	"or raise transaction.max_batch_bytes and the changelog's max.message.bytes"

// newUserBytes is how large a new user's state may be, which has to fit into one
// record: the model's initial distribution, 5 bytes a cell or a few more.
func newUserBytes(cells int) int { return 8 * cells }

// checkLater says what keeps later versions from following a model. Two of one start may
// follow each other: see replaced.
func checkLater(first *mobility.Model, later []*Version, maxBatch int) error {
	var errs []error
	for i, v := range later {
		switch {
		case i > 0 && (v.ID == later[i-1].ID || v.ID.StartMS < later[i-1].ID.StartMS):
			errs = append(errs, fmt.Errorf("models: %s starts at %v, which is not after the version before it: list them in the order of their starts",
				v.Where, v.ID.Start()))
		case v.step != first.Step:
			errs = append(errs, fmt.Errorf("models: %s has a step of %v, and the first version one of %v: a service keeps its step. "+
				"To change it, stop cleanly and make the new model the first version", v.Where, v.step, first.Step))
		case newUserBytes(v.cells) >= maxBatch:
			errs = append(errs, fmt.Errorf("models: %s: "+tooLarge, v.Where, newUserBytes(v.cells), maxBatch))
		}
	}
	return errors.Join(errs...)
}

// replaced are the versions of a schedule without those that another one of the same start
// follows. Where a partition has adopted one, and the schedule was then changed under the
// instances that had not seen it, both are in use, and no schedule would do for both
// partitions if it could not hold both. So it may, and the last one is what all come to.
func replaced(versions []*Version) (last []*Version) {
	for i, v := range versions {
		if i+1 == len(versions) || versions[i+1].ID.StartMS != v.ID.StartMS {
			last = append(last, v)
		}
	}
	return last
}

// try refuses a version that the options of releases cannot be used with, and gets its
// model ready, which costs a pass over it: better here than in the middle of a partition's work.
func (o Options) try(v *Version) (*Material, error) {
	material, err := v.Load()
	if err == nil {
		_, err = mechanism.NewSanitizer(material.Model, noise.NewKeyed(o.Key), o.Release)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", v.Where, err)
	}
	return material, nil
}

// timeline is what one instance knows of the schedule, for all its partitions.
type timeline struct {
	log *slog.Logger

	mu      sync.Mutex
	later   []*Version
	keep    []*Material        // of the last ones, so that they are there when they start
	adopted map[VersionID]bool // by partitions that were here
	told    map[string]bool    // what was logged and need not be again
}

func newTimeline(later []*Version, log *slog.Logger) *timeline {
	return &timeline{log: log, later: later, adopted: map[VersionID]bool{}, told: map[string]bool{}}
}

// current is what is known by now; ascending starts. Do not change it.
func (t *timeline) current() []*Version {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.later
}

// resolve finds what a mark names, and remembers that it is in use.
func (t *timeline) resolve(list []task.Amendment) ([]Amended, error) {
	found, err := resolve(list, t.current())
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
func (t *timeline) replace(later []*Version, keep []*Material) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.missing(later); err != nil {
		return err
	}
	t.later, t.keep = later, keep
	return nil
}

// holds says whether replace would refuse a schedule now.
func (t *timeline) holds(later []*Version) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.missing(later)
}

// missing is under the lock.
func (t *timeline) missing(later []*Version) error {
	for _, old := range t.later {
		if t.adopted[old.ID] && !slices.ContainsFunc(later, func(v *Version) bool { return v.ID == old.ID }) {
			return fmt.Errorf("%w: %v. Put the model %v back, with that start", ErrVersion, old.ID, old.ID.Model)
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
