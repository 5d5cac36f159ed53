package service

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/mobility"
)

// job is what a service makes of the records of its input topic. Everything else in this package
// serves any job.
type job interface {
	settings
	// intact refuses to start where the changelog has lost what it must hold, before missing topics
	// are made and a state folder is set aside: both would hide the loss.
	intact(ctx context.Context, o wire.Options) error
	// begin checks the input before the group is joined. The topics are there.
	begin(ctx context.Context) error
	// started returns the attributes of the log's line about the start.
	started() []any
	// work returns what processes the records of a partition. It completes the task with what
	// erases users, if anything does, and with other options than the service's.
	work(at engine.Partition, d *task.Dependencies, o *task.Options) (processor, error)
}

// settings are those that determine the bytes of what a job writes.
type settings interface {
	// Fingerprint is in the changelog's marks, GroupFingerprint in what instances tell each other.
	Fingerprint() []byte
	GroupFingerprint() []byte
	// Differences and DifferencesInGroup name the settings in which a fingerprint differs.
	Differences(fingerprint []byte) string
	DifferencesInGroup(fingerprint []byte) string
	// Try refuses a later version of the model that the settings cannot be used with.
	Try(v *engine.Version) (*mobility.Model, error)
}

// processor is what processes the records of one partition, as far as the service asks it.
type processor interface {
	task.Processor
	// Key is task.Dependencies.Key.
	Key(rec task.Record) ([]byte, error)
	// Take returns what was counted since its last call, and the offset behind the last record.
	Take() (engine.Tally, int64)
	// Use makes it work with later versions of the model, each from its offset on.
	Use(versions []engine.Amended)
	// LatestMS is the time of the latest fix that was released, Unix milliseconds; 0: none.
	LatestMS() int64
}

// sanitizing is the job that makes sanitized records of raw ones.
type sanitizing struct {
	engine.Settings // all but the numbers of schemas, which the service learns later
	service         *Service
	mechanism       string // by name, the default filled in
}

func newSanitizing(s *Service) (*sanitizing, error) {
	processor, err := engine.NewProcessor(s.options.Settings, engine.Partition{Of: 1})
	if err != nil {
		return nil, err
	}
	return &sanitizing{s.options.Settings, s, processor.Options().Mechanism}, nil
}

func (j *sanitizing) intact(ctx context.Context, o wire.Options) error {
	check := j.service.options.AccountCheck(j.service.client, o)
	check.Replays = j.service.replays()
	return check.Before(ctx)
}

func (j *sanitizing) begin(ctx context.Context) error { return j.service.checkPlacement(ctx) }

func (j *sanitizing) started() []any {
	o := j.service.options
	return []any{
		"group", o.Group, "raw_topic", o.Topics.Raw, "partitions", j.service.partitions,
		"model", j.Model.ID(), "mechanism", j.mechanism, "epsilon", j.Release.Epsilon,
		"delta", j.Release.Delta,
	}
}

func (j *sanitizing) work(
	at engine.Partition, d *task.Dependencies, o *task.Options,
) (processor, error) {
	p, err := engine.NewProcessor(j.service.options.Settings, at)
	if err != nil {
		return nil, err
	}
	o.Names = j.KeyFingerprint()
	if !j.service.replays() {
		d.Eraser = engine.NewEraser(j.Key)
		return p, nil
	}
	// It has no account of its own, so it erases nothing.
	w := j.service.options.Windows[at.Number]
	o.Settings = w.Settings
	// Not at whatever retention has left when it begins.
	o.Start, o.Begin, o.End = task.At, w.Origin, w.End
	return w.processor(p), nil
}
