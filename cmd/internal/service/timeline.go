package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
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

// amender is task.Amender for one partition: it proposes the versions of the model that
// the schedule has and the partition has not adopted.
type amender struct {
	timeline  *timeline
	processor processor
	counters  *engine.Counters
	log       *slog.Logger     // has the partition
	list      []engine.Amended // in force
	restored  bool
}

// Amended implements task.Amender. What is missing here is waited for: it may be on
// its way to this machine.
func (a *amender) Amended(list []task.Amendment) error {
	found, err := a.timeline.resolve(list)
	if err != nil {
		return task.WithRemedy(err, task.Rebuild)
	}
	a.processor.Use(found)
	if len(found) > len(a.list) {
		last := found[len(found)-1]
		a.log.Info("model versions", "adopted", len(found), "newest_from_offset", last.From,
			"newest", last.Version.ID.String())
	}
	if a.restored && len(found) > len(a.list) {
		a.adopted(found[len(a.list):])
	}
	a.list, a.restored = found, true
	return nil
}

// adopted counts what is new, and says where it comes late. That is no fault: the offset
// decides, and is written down.
func (a *amender) adopted(added []engine.Amended) {
	a.counters.Book(engine.Tally{Adopted: int64(len(added))})
	released, ok := a.processor.(releasing)
	if !ok {
		return
	}
	for _, x := range added {
		if released.LatestMS() >= x.Version.ID.StartMS {
			a.log.Warn("a model version came after its start: fixes of its time, before its "+
				"offset, were released under the version before",
				"from_offset", x.From, "version", x.Version.ID.String())
		}
	}
}

// Propose implements task.Amender.
func (a *amender) Propose() (names [][]byte) {
	for _, v := range replaced(a.timeline.current()) {
		if slices.ContainsFunc(a.list, func(x engine.Amended) bool {
			return x.Version.ID == v.ID
		}) {
			continue
		}
		if len(a.list)+len(names) == task.MaxAmendments {
			if a.timeline.once(fmt.Sprint("full ", v.ID)) {
				a.log.Error("no further version of the model can be adopted, the changelog's "+
					"mark is full: stop every instance cleanly and make the newest version the "+
					"first of the schedule", "version", v.ID.String(), "versions",
					task.MaxAmendments)
			}
			break
		}
		names = append(names, v.ID.Name())
	}
	return names
}

// watchInterval is how often the schedule of models is looked at.
const watchInterval = 2 * time.Second

// keptVersions is how many of the last versions stay in memory, whether or not a
// partition works with them already: the newest, and the one before.
const keptVersions = 2

// tryVersions tries later versions and keeps the last ones. What the job can be used with is a
// matter of the map, so an older version of a map that was tried is not read for it.
func (s *Service) tryVersions(later []*engine.Version) (keep []any, err error) {
	if s.options.Model == nil {
		return nil, nil // the job needs none
	}
	tried := map[string]bool{s.options.Model.Grid.ID(): true}
	for i, v := range later {
		if i < len(later)-keptVersions && tried[v.GridID()] {
			continue
		}
		tried[v.GridID()] = true
		model, err := s.options.Try(v)
		if err != nil {
			return nil, err
		}
		if i >= len(later)-keptVersions {
			keep = append(keep, model)
		}
	}
	return keep, nil
}

// watch looks for new versions of the model until the context ends. A schedule that
// cannot be used changes nothing, and is told of once.
func (s *Service) watch(ctx context.Context) {
	if s.options.Watch == nil {
		return
	}
	ticker := time.NewTicker(s.watchEvery)
	defer ticker.Stop()
	for broken := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.look()
		switch {
		case err == nil && broken != "":
			s.log.Info("the schedule of models can be used again")
			broken = ""
		case err != nil && err.Error() != broken:
			s.log.Error("the schedule of models cannot be used, the last good one stays in force",
				"cause", err)
			broken = err.Error()
		}
	}
}

// look takes over what the schedule has by now.
func (s *Service) look() error {
	found, err := s.options.Watch()
	if err != nil {
		return err
	}
	had := s.timeline.current()
	if slices.Equal(found.Later, had) {
		return nil
	}
	first, err := engine.NewVersionID(s.options.Model, found.First.StartMS)
	if err != nil {
		return err
	}
	if found.First != first {
		return errors.New("the first version has changed: put it back and add the new one with a " +
			"start, or stop every instance cleanly and start again")
	}
	if err := engine.CheckLater(s.options.Model, found.Later, s.options.MaxBatchBytes); err != nil {
		return err
	}
	if err := s.timeline.holds(found.Later); err != nil {
		return err // before files are read for nothing, each time again
	}
	keep, err := s.tryVersions(found.Later)
	if err != nil {
		return err
	}
	if err := s.timeline.replace(found.Later, keep); err != nil {
		return err
	}
	for _, v := range found.Later {
		if !slices.ContainsFunc(had, func(o *engine.Version) bool { return o.ID == v.ID }) {
			s.log.Info("a new version of the model: each partition adopts it at its next "+
				"transaction", "version", v.ID.String(), "file", v.Where)
		}
	}
	return nil
}

// checkAdopted refuses to start without a version that a partition has adopted: going on
// would wait for it where this instance gets that partition. What others adopt later is waited for.
func (s *Service) checkAdopted(ctx context.Context) error {
	settings := s.job.Fingerprint()
	for n := range s.partitions {
		mark, _, err := topics.LastMark(ctx, s.client, s.options.Topics.Changelog, n)
		if err != nil {
			return fmt.Errorf("partition %d of %s: %w", n, s.options.Topics.Changelog, err)
		}
		if !bytes.Equal(mark.Settings, settings) {
			continue // they begin again with these settings, or are refused for them
		}
		if _, err := s.timeline.resolve(mark.Amendments); err != nil {
			return fmt.Errorf("partition %d: %w", n, err)
		}
	}
	return nil
}
