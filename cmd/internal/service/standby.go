package service

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/state"
)

// copies returns what the store has of partitions' states, the newest first. A copy that is too old
// to be caught up is of no use to anybody. A store that fails reports it itself, so its error is
// left to those that use it.
func copies(store *state.Store, now time.Time) []group.Copy {
	numbers, err := store.Partitions()
	if err != nil {
		return nil
	}
	type aged struct {
		group.Copy
		ms int64
	}
	var found []aged
	for _, n := range numbers {
		at, there, err := store.Partition(n).Positions()
		old := now.Sub(time.UnixMilli(at.AppliedMS)) > task.DefaultMaxStoreAge
		if err != nil || !there || old {
			continue
		}
		found = append(found, aged{group.Copy{Partition: n, Offset: at.Changelog}, at.AppliedMS})
	}
	slices.SortStableFunc(found, func(a, b aged) int { return cmp.Compare(b.ms, a.ms) })
	all := make([]group.Copy, len(found))
	for i, c := range found {
		all[i] = c.Copy
	}
	return all
}

// standby hears of one partition's copy.
type standby struct {
	log   *slog.Logger
	board *monitor.Standby
	began time.Time
	ready bool // it has come to the end
	pace  pace // of lines on why it leaves its copy alone
}

// tell takes an account of task.Follow.
func (s *standby) tell(f task.Following) {
	s.board.Following(f.At, f.End, f.Doubt != nil)
	switch {
	case f.Doubt == nil && f.At >= f.End && !s.ready:
		s.ready, s.pace = true, pace{}
		s.log.Info("standby is up to date", "changelog_offset", f.At, "took", time.Since(s.began))
	case f.Doubt == nil:
	case isAway(f.Doubt):
		s.log.Debug("standby waits for Kafka", "cause", f.Doubt)
	case s.pace.due(time.Now()):
		s.ready = false
		s.log.Warn("standby leaves its copy as it is, and looks again in half a minute",
			"cause", f.Doubt)
	}
}
