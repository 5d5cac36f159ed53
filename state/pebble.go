package state

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// formatMajorVersion is what the database is written in. It is set, so that a
// newer Pebble does not silently write what an older geodither cannot read. It
// has the sync chunks by which a log's end is told from damage.
const formatMajorVersion = pebble.FormatTableFormatV6

// memTables is how many memtables may exist before writes wait: one that is
// written and three that are being flushed.
const memTables = 4

// pebbleOptions are for small values that are read and written at random.
func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          s.o.FS,
		FormatMajorVersion:          formatMajorVersion,
		ReadOnly:                    s.o.ReadOnly,
		CacheSize:                   s.o.BlockCacheBytes,
		MemTableSize:                uint64(s.o.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		MaxOpenFiles:                500,
		Logger:                      pebbleLog{s},
	}
	for i := range o.Levels {
		// Ten bits a key let a read of a user who is not there, or not in this
		// table, pass it over without touching its blocks in 99 of 100 cases.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	listener := pebble.EventListener{
		BackgroundError: func(err error) {
			s.o.Logger.Error("state: pebble fails in the background", "error", err)
			s.broken.CompareAndSwap(nil, &failure{err})
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			s.o.Logger.Warn("state: writes wait for the disk", "reason", info.Reason)
		},
	}
	o.EventListener = &listener
	return o
}

// failure is the first error after which the database is not to be trusted.
type failure struct{ err error }

// pebbleLog is Pebble's logger.
type pebbleLog struct{ s *Store }

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.s.o.Logger.Warn("state: pebble complains", "detail", fmt.Sprintf(format, args...))
}

// Fatalf is Pebble's way to say that it cannot go on; it must not return. Under
// a call of ours the error is given back by that call. In a goroutine of
// Pebble's there is nobody to give it to, and locks are held: the process ends.
func (l pebbleLog) Fatalf(format string, args ...any) {
	err := fatalError(format, args)
	l.s.broken.CompareAndSwap(nil, &failure{err})
	if underGuard() {
		panic(fatal{err})
	}
	err = explain(err)
	l.s.o.Logger.Error("state: the store cannot go on; nothing is lost, the changelog has every committed state",
		slog.Any("error", err))
	l.s.o.Exit(err)
}

// fatal carries an error through Pebble's frames to guard.
type fatal struct{ err error }

// fatalError keeps the error that a message was made of, for errors.Is.
func fatalError(format string, args []any) error {
	err := errors.New(fmt.Sprintf(format, args...))
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	return err
}

// underGuard looks for guard among the callers.
func underGuard() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "/state.guard") {
			return true
		}
		if !more {
			return false
		}
	}
}

// guard makes a call into Pebble and turns its panics over errors of the disk
// into errors. Bugs still panic.
func guard(call func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fatal:
			err = r.err
		case runtime.Error:
			panic(r)
		case error:
			err = r
		default:
			panic(r)
		}
	}()
	return call()
}
