package main

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

// source is where a model's traces come from: files or a topic.
type source interface {
	// read gives every fix to the workers of a gathering, which gather makes.
	read(ctx context.Context, gather func(workers int) *gathering, bar *cli.Progress) (gathered, error)
}

// source opens the files or the topic that the flags name.
func (f *trainFlags) source(cmd *cobra.Command, args []string, std cli.Streams) (source, error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if f.topic.topic == "" {
		for _, name := range []string{"brokers", "encoding", "from", "to", "max-ahead"} {
			if given(name) {
				return nil, cli.Usagef("--%s belongs to --topic, which is missing", name)
			}
		}
		if len(f.input.Paths)+len(args) == 0 {
			return nil, cli.Usagef("name the traces to read with --in (- is standard input), or a topic with --topic")
		}
		reader, err := f.input.Open(cmd.Context(), args, std.In)
		return traceFiles{reader, "reading"}, err
	}
	if len(f.input.Paths)+len(args) > 0 {
		return nil, cli.Usagef("--topic and files exclude each other: train on one or the other")
	}
	if given("format") || given("columns") {
		return nil, cli.Usagef("--format and --columns are for files; a raw topic has --encoding")
	}
	return f.topic.open(cmd.Context(), f.input.Strict)
}

// origin names the source for the model's provenance.
func (f *trainFlags) origin() string {
	if f.topic.topic != "" {
		return "topic " + f.topic.topic
	}
	return strings.TrimSpace("traces " + f.input.Format)
}

// gathered is what was read.
type gathered struct {
	*gathering
	from  string // in words: what was read
	skips traces.Skips
}

// gathering is the reading of traces by several workers, each into a trainer of
// its own: what a model is made of does not depend on who has read it.
type gathering struct {
	grid    *grid.Grid
	workers []*gatherer
	read    atomic.Int64 // fixes, in whole thousands or so
}

type gatherer struct {
	*train.Trainer
	fixes   int64
	swapped int64 // fixes that would lie in the box if latitude and longitude changed places
	// places are the coordinates of the fixes on the map; nil: nobody asks for them.
	places map[[2]float64]struct{}
}

// gatherings returns what makes a gathering for a number of workers.
func gatherings(g *grid.Grid, trainers func() *train.Trainer) func(workers int) *gathering {
	return func(workers int) *gathering {
		gathering := &gathering{grid: g, workers: make([]*gatherer, max(1, workers))}
		for i := range gathering.workers {
			gathering.workers[i] = &gatherer{Trainer: trainers()}
		}
		return gathering
	}
}

// take gives a fix to a worker's trainer. Now and then it returns how many all
// workers have read, else 0.
func (g *gathering) take(worker int, raw schemas.Raw) (read int64) {
	const many = 4096
	w := g.workers[worker]
	w.Add(train.Fix{User: raw.UserID, TimeMS: raw.Timestamp, Lat: raw.Latitude, Lon: raw.Longitude})
	if w.places != nil && g.grid.Contains(raw.Latitude, raw.Longitude) {
		w.places[[2]float64{raw.Latitude, raw.Longitude}] = struct{}{}
	}
	if !g.grid.Contains(raw.Latitude, raw.Longitude) && g.grid.Contains(raw.Longitude, raw.Latitude) {
		w.swapped++
	}
	if w.fixes++; w.fixes%many == 0 {
		return g.read.Add(many)
	}
	return 0
}

// trainer returns one trainer with what all have read.
func (g *gathering) trainer() *train.Trainer {
	first := g.workers[0].Trainer
	for _, w := range g.workers[1:] {
		first.Merge(w.Trainer)
	}
	return first
}

// counts returns how many fixes were read, and how many of them would lie in the
// box if latitude and longitude changed places, and do not.
func (g *gathering) counts() (fixes, swapped int64) {
	for _, w := range g.workers {
		fixes, swapped = fixes+w.fixes, swapped+w.swapped
	}
	return fixes, swapped
}

// traceFiles is files of traces.
type traceFiles struct {
	reader *traces.Reader
	phase  string // as the progress has it
}

// read implements source, with all cores.
func (s traceFiles) read(_ context.Context, gather func(workers int) *gathering, bar *cli.Progress) (gathered, error) {
	bar.Phase(s.phase, s.reader.Progress)
	files := s.reader.Files()
	workers := min(runtime.GOMAXPROCS(0), files)
	in := gathered{gathering: gather(workers), from: cli.Quantity(int64(files), "file")}
	err := s.reader.Parallel(workers, func(worker int, fix schemas.Raw) error {
		if read := in.take(worker, fix); read > 0 {
			bar.Show(read)
		}
		return nil
	})
	in.skips = *s.reader.Skips()
	return in, err
}
