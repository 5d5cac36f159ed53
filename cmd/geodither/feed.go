package main

import (
	"context"
	"iter"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// fixSource is what produce feeds: files or a simulated fleet.
type fixSource struct {
	fixes  func(ctx context.Context) iter.Seq2[schemas.Raw, error]
	reader *traces.Reader // nil for a fleet
	live   bool           // it ends only by being interrupted
}

type fixOrError struct {
	fix schemas.Raw
	err error
}

// newFixSource opens what the flags name. The context is that of reading, too.
func newFixSource(ctx context.Context, f cli.InputFlags, more []string, s simulationFlags, std cli.Streams) (fixSource, error) {
	switch {
	case s.vehicles < 0 || s.steps < 0:
		return fixSource{}, cli.Usagef("--simulate and --steps must not be negative")
	case s.vehicles == 0 && (s.model != "" || s.steps > 0):
		return fixSource{}, cli.Usagef("--model and --steps belong to --simulate VEHICLES, which is missing")
	case s.vehicles == 0:
		reader, err := f.Open(ctx, more, std.In)
		if err != nil {
			return fixSource{}, err
		}
		return fixSource{fixes: func(context.Context) iter.Seq2[schemas.Raw, error] { return reader.Fixes() }, reader: reader}, nil
	case len(f.Paths)+len(more) > 0:
		return fixSource{}, cli.Usagef("--in and --simulate exclude each other")
	case s.model == "":
		return fixSource{}, cli.Usagef("--simulate needs a --model that says how the vehicles move")
	}
	model, err := mobility.ReadModelFile(s.model)
	if err != nil {
		return fixSource{}, err
	}
	fleet := newFleet(model, s.vehicles, s.seed)
	return fixSource{
		fixes: func(ctx context.Context) iter.Seq2[schemas.Raw, error] { return fleet.fixes(ctx, s.steps, time.Now()) },
		live:  s.steps == 0,
	}, nil
}

// read starts reading, until the context ends at the latest. Ended is closed
// when the source is not used any more.
func (s fixSource) read(ctx context.Context) (fixes <-chan fixOrError, ended <-chan struct{}) {
	to, done := make(chan fixOrError, 1024), make(chan struct{})
	go func() {
		defer close(done)
		defer close(to)
		for fix, err := range s.fixes(ctx) {
			select {
			case to <- fixOrError{fix, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to, done
}

// progress is how much of the files is read; nil for a fleet.
func (s fixSource) progress() func() (done, total int64) {
	if s.reader == nil {
		return nil
	}
	return s.reader.Progress
}
