package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
)

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
		model, err := s.job.try(v)
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
