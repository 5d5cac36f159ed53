package state

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// formatMajorVersion is what the database is written in. It is set, so that a
// newer Pebble does not silently write what an older geodither cannot read. It
// has the sync chunks by which a log's end is told from damage.
const formatMajorVersion = pebble.FormatTableFormatV6

// memTables is how many memtables may exist before writes wait: one that is
// written and two that are being flushed.
const memTables = 3

// pebbleOptions are for small values that are read and written at random.
func (s *Store) pebbleOptions() *pebble.Options {
	h := s.health
	o := &pebble.Options{
		FS:                          freezingFS{s.o.FS, h},
		FormatMajorVersion:          formatMajorVersion,
		ReadOnly:                    s.o.ReadOnly,
		CacheSize:                   s.o.BlockCacheBytes,
		MemTableSize:                uint64(s.o.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		MaxOpenFiles:                500,
		Logger:                      pebbleLog{h, s.o.Logger},
	}
	// Probabilities hardly compress: without it an update costs a tenth less
	// (BenchmarkUpdate), for perhaps a tenth more space.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	for i := range o.Levels {
		// Ten bits a key let a read of a user who is not there, or not in this
		// table, pass it over without touching its blocks in 99 of 100 cases.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	listener := pebble.EventListener{
		BackgroundError: func(err error) { _ = h.fail(err) },
		// Pebble's own reaction would be Fatalf, in the middle of a read; the
		// read itself answers with the error.
		DataCorruption: func(info pebble.DataCorruptionInfo) { _ = h.fail(info.Details) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			s.o.Logger.Warn("state: writes wait for the disk", "reason", info.Reason)
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

// plain leaves out what a format adds to an error: Pebble's bring a stack trace.
func plain(format string) string { return strings.ReplaceAll(format, "%+v", "%v") }

// Fatalf is Pebble's way to say that it cannot go on; it must not return.
func (l pebbleLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf(plain(format), args...)
	for _, a := range args { // keep the cause for errors.Is
		if cause, ok := a.(error); ok {
			err = failure{err.Error(), cause}
		}
	}
	l.h.freeze(err)
}

// failure is a text with a cause that the text may say already.
type failure struct {
	text  string
	cause error
}

// Error implements error.
func (f failure) Error() string { return f.text }

// Unwrap is for errors.Is.
func (f failure) Unwrap() error { return f.cause }
