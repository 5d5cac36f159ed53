// Package gather reads traces, from files or from a raw topic, into what models are trained on,
// says what is wrong with traces that a model learns little from, and reads the records of a
// sanitized topic.
package gather

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

// Source is where traces come from: files or a topic.
type Source interface {
	// Read reads all fixes into trainers.
	Read(ctx context.Context, into Into, bar *cli.Progress) (*Gathered, error)
}

// Into says what traces are read into.
type Into struct {
	Grid *grid.Grid
	// New makes a trainer, one for each worker.
	New func() *train.Trainer
	// Places keeps the places of the fixes: those of check-ins are public, other fixes are not.
	Places bool
}

// Gathered is what was read. Several workers read, each into a trainer of its own: a model does not
// depend on which of them read a fix.
type Gathered struct {
	From  string // in words: what was read
	Skips traces.Skips

	grid    *grid.Grid
	workers []*worker
	read    atomic.Int64 // fixes, in whole thousands or so
}

type worker struct {
	*train.Trainer
	fixes   int64
	swapped int64                   // see Counts
	places  map[[2]float64]struct{} // degrees; nil: not kept
}

func newGathered(into Into, workers int) *Gathered {
	g := &Gathered{grid: into.Grid, workers: make([]*worker, max(1, workers))}
	for i := range g.workers {
		g.workers[i] = &worker{Trainer: into.New()}
		if into.Places {
			g.workers[i].places = map[[2]float64]struct{}{}
		}
	}
	return g
}

// addFix gives a fix to a worker's trainer. Now and then it returns how many fixes all workers have
// read, else 0.
func (g *Gathered) addFix(number int, raw schemas.Raw) (read int64) {
	const many = 4096
	w := g.workers[number]
	w.Add(train.Fix{User: raw.UserID, TimeMS: raw.Timestamp, Lat: raw.Latitude, Lon: raw.Longitude})
	switch inside := g.grid.Contains(raw.Latitude, raw.Longitude); {
	case inside && w.places != nil:
		w.places[[2]float64{raw.Latitude, raw.Longitude}] = struct{}{}
	case !inside && g.grid.Contains(raw.Longitude, raw.Latitude):
		w.swapped++
	}
	if w.fixes++; w.fixes%many == 0 {
		return g.read.Add(many)
	}
	return 0
}

// Trainer returns one trainer with all that was read. Call it once.
func (g *Gathered) Trainer() *train.Trainer {
	first := g.workers[0].Trainer
	for _, w := range g.workers[1:] {
		first.Merge(w.Trainer)
	}
	return first
}

// Counts returns how many fixes were read, and how many of them lie outside the box but would lie
// in it if latitude and longitude changed places.
func (g *Gathered) Counts() (fixes, swapped int64) {
	for _, w := range g.workers {
		fixes, swapped = fixes+w.fixes, swapped+w.swapped
	}
	return fixes, swapped
}

// Places returns the different places of the fixes, from south to north, if they were kept.
func (g *Gathered) Places() (points []grid.Point, kept bool) {
	var all [][2]float64
	for _, w := range g.workers {
		if w.places == nil {
			return nil, false
		}
		all = slices.AppendSeq(all, maps.Keys(w.places))
	}
	slices.SortFunc(all, func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) })
	for _, at := range slices.Compact(all) {
		points = append(points, g.grid.ToMap(at[0], at[1]))
	}
	return points, true
}
