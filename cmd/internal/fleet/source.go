package fleet

import (
	"context"
	"iter"
	"time"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/schemas"
)

// Source is where the fixes of a feed come from: files of traces or a simulated fleet.
type Source struct {
	fixes  func(ctx context.Context) iter.Seq2[schemas.Raw, error]
	reader *traces.Reader // nil for a fleet
	live   bool
}

// Fix is a fix, or the error of reading one.
type Fix struct {
	Fix schemas.Raw
	Err error
}

// Traces returns a source of files.
func Traces(reader *traces.Reader) Source {
	fixes := func(context.Context) iter.Seq2[schemas.Raw, error] { return reader.Fixes() }
	return Source{fixes: fixes, reader: reader}
}

// Source returns the fleet's fixes over a number of steps that end now. With 0 steps it is live.
func (f *Fleet) Source(steps int) Source {
	fixes := func(ctx context.Context) iter.Seq2[schemas.Raw, error] {
		return f.Fixes(ctx, steps, time.Now())
	}
	return Source{fixes: fixes, live: steps == 0}
}

// Live reports whether the source ends only when it is interrupted.
func (s Source) Live() bool { return s.live }

// Skips returns the skipped lines of the files.
func (s Source) Skips() *traces.Skips {
	if s.reader == nil {
		return new(traces.Skips)
	}
	return s.reader.Skips()
}

// Read starts to read, until the context ends at the latest. It closes ended when it no longer uses
// the source.
func (s Source) Read(ctx context.Context) (fixes <-chan Fix, ended <-chan struct{}) {
	to, done := make(chan Fix, 1024), make(chan struct{})
	go func() {
		defer close(done)
		defer close(to)
		for fix, err := range s.fixes(ctx) {
			select {
			case to <- Fix{fix, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to, done
}

// Progress returns a function that says how many bytes of the files were read, or nil for a fleet.
func (s Source) Progress() func() (done, total int64) {
	if s.reader == nil {
		return nil
	}
	return s.reader.Progress
}
