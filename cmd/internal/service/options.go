package service

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// Options configure a Service. Required, beside what Settings and Cluster require: StateDir.
type Options struct {
	engine.Settings
	topics.Cluster

	StateDir   string // one folder per running instance
	CacheBytes int64  // of states in front of the store; default 64 MiB

	MaxRecords  int           // records per transaction; default 5000
	MaxInterval time.Duration // age at which a transaction is committed; default 100 ms
	// size of a record batch, and so of one user's state; default 1 MiB
	MaxBatchBytes int
	// after which the group gives a silent instance's partitions away; default 10 s, with
	// InstanceID 45 s
	SessionTimeout time.Duration

	// InstanceID makes the instance a static member of the group (KIP-345), under
	// a name that no other has: if it is back within SessionTimeout, nothing moves.
	InstanceID string

	// Windows are the parts of the raw partitions that a replay goes through, by partition. Nil
	// for a service that goes through all there is, forever.
	Windows []Window

	// SkipLost goes on where raw records are lost that were not processed yet: retention has
	// removed them, or the log has lost its end and grown again. Otherwise the service stops.
	SkipLost bool

	// AcceptSettings goes on with other settings (model, key, release) than those of
	// an instance that was killed, perhaps in the middle of a transaction:
	// readers of uncommitted records may then see two releases of the fixes that were in
	// it. Otherwise the service stops with an error.
	AcceptSettings bool

	// AcceptLost goes on where the changelog is lost: every user's account of ε begins at
	// 0, at the group's offset, and adds to what was spent before. Otherwise the service
	// stops with an error. Meant for one start.
	AcceptLost bool

	// AcceptRefused goes on where nearly all of the first raw records would be refused. Otherwise
	// the service stops before it processes one. Meant for one start.
	AcceptRefused bool

	Logger   *slog.Logger     // default slog.Default()
	Counters *engine.Counters // default a new one
	Board    *monitor.Board   // for observers of the service; default: there are none
}

// WithDefaults fills what was left empty.
func (o Options) WithDefaults() Options {
	o.Settings, o.Cluster = o.Settings.WithDefaults(), o.Cluster.WithDefaults()
	o.CacheBytes = cmp.Or(o.CacheBytes, 64<<20)
	o.MaxRecords = cmp.Or(o.MaxRecords, 5000)
	o.MaxInterval = cmp.Or(o.MaxInterval, 100*time.Millisecond)
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 1<<20)
	if o.InstanceID != "" {
		o.SessionTimeout = cmp.Or(o.SessionTimeout, 45*time.Second)
	}
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Counters == nil {
		o.Counters = new(engine.Counters)
	}
	if o.Board == nil {
		o.Board = monitor.NewBoard()
	}
	return o
}

// Validate reports everything that is missing or out of range, in one error, by the keys of
// the config.
func (o Options) Validate() error {
	return errors.Join(slices.Insert(o.hosting(), 1, o.Settings.Validate())...)
}

// hosting is the part of Validate that any job needs, the cluster first.
func (o Options) hosting() []error {
	errs := []error{o.Cluster.Validate()}
	d := o.WithDefaults()
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if o.Model != nil {
		errs = append(errs, engine.CheckLater(o.Model, o.Later, d.MaxBatchBytes))
		err := engine.CheckSize(o.Model, d.MaxBatchBytes)
		need(err == nil, "model: %w", err)
	}
	need(o.SanitizedEncoding != schemas.AvroRegistry || o.Registry != nil,
		"encoding.sanitized: avro_registry needs a schema registry: set registry.url")
	need(o.StateDir != "", "state_dir: name a folder for this instance's state")
	need(o.MaxRecords >= 0, "transaction.max_records: must not be negative")
	need(o.MaxInterval == 0 || o.MaxInterval >= time.Millisecond,
		"transaction.max_interval: must be at least 1ms")
	need(o.SessionTimeout == 0 || o.SessionTimeout >= 10*time.Millisecond,
		"session_timeout: must be at least 10ms")
	return errs
}

// named adds to an error about two fingerprints which settings differ.
func named(own job, err error) error {
	var before *task.SettingsError
	var beside *group.SettingsError
	switch {
	case errors.As(err, &before) && bytes.Equal(before.Found, own.Fingerprint()):
		return err // a version was added to the models
	case errors.As(err, &before):
		return fmt.Errorf("%w. What differs: %s", err, own.Differences(before.Found))
	case errors.As(err, &beside):
		return fmt.Errorf("%w. What differs: %s", err, own.DifferencesInGroup(beside.Found))
	}
	return engine.NameVersion(err)
}

// Start returns what the checks before a start need to know.
func (o Options) Start() checks.Start {
	d := o.WithDefaults()
	return checks.Start{
		Settings: d.Settings, Cluster: d.Cluster, StateDir: d.StateDir,
		MaxBatchBytes: d.MaxBatchBytes, MaxInterval: d.MaxInterval, Logger: d.Logger,
		AcceptLost: o.AcceptLost, AcceptSettings: o.AcceptSettings, Replays: o.Windows != nil,
	}
}
