package main

import (
	"runtime"
	"sync/atomic"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// gathering is the reading of traces by several workers, each into a trainer of
// its own: what a model is made of does not depend on who has read it.
type gathering struct {
	workers []*gatherer
	read    atomic.Int64 // fixes, in whole thousands or so
	bar     *progress
}

type gatherer struct {
	*mobility.Trainer
	fixes int64
}

func newGathering(workers int, trainers func() *mobility.Trainer, bar *progress) *gathering {
	g := &gathering{workers: make([]*gatherer, max(1, workers)), bar: bar}
	for i := range g.workers {
		g.workers[i] = &gatherer{Trainer: trainers()}
	}
	return g
}

// take gives a fix to a worker's trainer.
func (g *gathering) take(worker int, raw schemas.Raw) {
	const many = 4096
	w := g.workers[worker]
	w.Add(mobility.Fix{User: raw.UserID, TimeMS: raw.Timestamp, Lat: raw.Latitude, Lon: raw.Longitude})
	if w.fixes++; w.fixes%many == 0 {
		read := g.read.Add(many)
		g.bar.show(read)
	}
}

// merged returns one trainer with what all have read.
func (g *gathering) merged() *mobility.Trainer {
	first := g.workers[0].Trainer
	for _, w := range g.workers[1:] {
		first.Merge(w.Trainer)
	}
	return first
}

// readTraces gives every fix of the files to a trainer, with all cores.
func readTraces(reader *traces.Reader, trainers func() *mobility.Trainer, bar *progress) (*mobility.Trainer, error) {
	workers := min(runtime.GOMAXPROCS(0), reader.Files())
	g := newGathering(workers, trainers, bar)
	err := reader.Parallel(workers, func(worker int, fix schemas.Raw) error {
		g.take(worker, fix)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g.merged(), nil
}
