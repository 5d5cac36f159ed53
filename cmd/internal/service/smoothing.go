package service

import (
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// Smoothing is the job that adds to each record what the user's later ones tell.
func Smoothing(settings engine.SmoothSettings) Following {
	return Following{
		Fingerprints: settings,
		Try:          func(v *engine.Version) (any, error) { return settings.Try(v) },
		Processor: func(at engine.Partition, ids schemas.IDs) (Processor, error) {
			s := settings
			s.SchemaIDs = ids
			return engine.NewSmoothProcessor(s, at)
		},
		Eraser: func() task.Eraser { return new(engine.SmoothEraser) },
		StartOver: "with another group and output topic (smooth.group, topics.smoothed): the " +
			"input topic fills them",
		Delay: "a record waits for its user's next release, smooth.lag later or more",
	}
}
