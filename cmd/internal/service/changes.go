package service

import (
	"log/slog"
	"sync"

	"github.com/geodither/geodither/consumer/task"
)

// changes says in the log that settings have changed, and which: once for an instance, and
// in a short line of each partition, since each changes at an offset of its own.
type changes struct {
	options Options
	log     *slog.Logger
	once    sync.Once
}

// warn takes what a partition was restored from, and the partition's own log.
func (c *changes) warn(log *slog.Logger, r task.Restore) {
	c.once.Do(func() {
		c.log.Warn("settings have changed since this group worked last: from here on releases "+
			"are made under the new ones; stop any instance of this group that still runs under "+
			"the old ones",
			"different", c.options.Differences(r.Mark.Settings))
	})
	log.Info("begins under the changed settings",
		"input_offset", r.Input, "old_since", r.Mark.Since)
}
