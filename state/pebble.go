package state

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// formatMajorVersion is the format of the database. It is set explicitly, so that a newer Pebble
// does not silently write another format.
const formatMajorVersion = pebble.FormatTableFormatV6

// memTables is how many memtables may exist before writes wait: one that is being written and one
// that is being flushed.
const memTables = 2

// pebbleOptions returns settings for small values that are read and written at random.
func pebbleOptions(own Options, h *health) *pebble.Options {
	o := &pebble.Options{
		FS:                 freezingFS{own.FS, h},
		FormatMajorVersion: formatMajorVersion,
		ReadOnly:           own.ReadOnly,
		// The changelog is the log. A crash loses the memtables, and a batch lies in one of them
		// whole: Pebble reserves room for all of it, or puts a batch of more than half a memtable
		// into the queue of memtables as it is. A flush writes the oldest memtables of the queue
		// and installs their tables in one synced record of the manifest. So what survives is a
		// prefix of the batches.
		DisableWAL: true,
		// Pebble takes the size of memtables off the block cache. Without room for both nothing
		// stays in it, and each Get reads even the filters and indexes of tables from files.
		CacheSize:                   own.BlockCacheBytes + memTables*own.MemTableBytes,
		MemTableSize:                uint64(own.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		MaxOpenFiles:                500,
		// Bounds of tables are users' keys, and the manifest lists them. So that a removed key
		// leaves it (Purge), it is rewritten whenever it has twice as many tables as there are.
		MaxManifestFileSize: 1,
		Logger:              pebbleLog{h, own.Logger},
	}
	// Probabilities hardly compress. Without compression an update costs a tenth less
	// (BenchmarkUpdate), and perhaps a tenth more space.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		return pebble.DBCompressionNone
	})
	for i := range o.Levels {
		// With ten bits a key, a read of a user who is not in this table skips it without
		// reading its blocks in 99 of 100 cases.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	listener := pebble.EventListener{
		BackgroundError: func(err error) { _ = h.fail(err) },
		// Without this, Pebble calls Fatalf in the middle of a read. The read itself returns the
		// error.
		DataCorruption:  func(info pebble.DataCorruptionInfo) { _ = h.fail(info.Details) },
		ManifestCreated: func(pebble.ManifestCreateInfo) { h.manifests.Add(1) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			own.Logger.Warn("state: writes wait for the disk", "reason", info.Reason)
		},
	}
	o.EventListener = &listener
	return o
}

// pebbleLog is Pebble's logger.
type pebbleLog struct {
	h   *health
	log *slog.Logger
}

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Warn("state: pebble complains", "detail", fmt.Sprintf(plain(format), args...))
}

// plain prints errors without their stack trace, which Pebble's errors bring along.
func plain(format string) string { return strings.ReplaceAll(format, "%+v", "%v") }

// Fatalf is how Pebble says that it cannot go on. It must not return.
func (l pebbleLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf(plain(format), args...)
	for _, a := range args { // keep the cause for errors.Is
		if cause, ok := a.(error); ok {
			err = failure{err.Error(), cause}
		}
	}
	l.h.freeze(err)
}

// failure is an error whose text may already contain its cause.
type failure struct {
	text  string
	cause error
}

// Error implements error.
func (f failure) Error() string { return f.text }

// Unwrap is for errors.Is.
func (f failure) Unwrap() error { return f.cause }
