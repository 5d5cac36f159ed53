package experiment

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Adversary is somebody who sees all releases of a user and the times of reports, and knows how
// releases are made: at each timestamp those so far, or at the end all of them. Its text is its
// name in figures.
type Adversary string

// The adversaries. The paper's knows M.
const (
	// Standard knows M: its filter is the sanitizer's own.
	Standard Adversary = "standard: knows M"
	// WeakUniform knows no M and takes every cell to be as likely as any other at every timestamp.
	WeakUniform Adversary = "weak: uniform"
	// WeakWalk takes people to walk at random, to a neighbouring cell or none.
	WeakWalk Adversary = "weak: random walk"
	// StrongStart knows M, and the cell at the first timestamp.
	StrongStart Adversary = "strong: knows the start"
	// StrongPersonal knows M, by which releases are made, and how this user moves: the personal M
	// of all traces, the measured one among them.
	StrongPersonal Adversary = "strong: personal M"
)

// Adversaries are all of them, from the weakest.
func Adversaries() []Adversary {
	return []Adversary{WeakUniform, WeakWalk, Standard, StrongStart, StrongPersonal}
}

// filter is what an adversary believes. start and move are its idea of how people move; with true
// laws it uses that by which releases are made, else the one that follows from its own prior, since
// an adversary who does not know M does not know ΔX.
type filter struct {
	start func(dst *mobility.Distribution)
	move  func(dst, from *mobility.Distribution, at int64, steps int)
	// back is the transpose of move, of a function of the later place, for the cells of from; nil:
	// what comes later says nothing.
	back func(dst []float64, from *mobility.Distribution, at int64, steps int,
		later *mobility.Distribution) []float64
	own       *mechanism.Emission // nil: the true one
	fixed     bool                // the own law is that of every timestamp
	maxGap    int64
	prior     mobility.Distribution
	posterior mobility.Distribution
	step      int64
	started   bool
	goesOn    bool     // the prior came from the timestamp before
	kept      []belief // of all timestamps
}

// belief is what a filter keeps of a timestamp: what it believes, and the likelihood of the release
// for these cells.
type belief struct {
	mobility.Distribution
	likelihood []float64
	step       int64
	goesOn     bool
}

// foresee fills the prior of a step.
func (f *filter) foresee(step int64) {
	f.goesOn = f.started && step-f.step <= f.maxGap
	if f.goesOn {
		f.move(&f.prior, &f.posterior, f.step, int(step-f.step))
	} else {
		f.start(&f.prior)
		f.prior.Prune(mechanism.DefaultPrune)
	}
	f.started, f.step = true, step
}

// observe advances the filter to a timestamp; z nil: nothing was released.
func (f *filter) observe(step int64, z *grid.Point, truth *mechanism.Emission) {
	f.foresee(step)
	f.posterior.CopyFrom(&f.prior)
	var l *mechanism.Emission
	if z != nil {
		l = truth
		if f.own != nil {
			if l = f.own; !f.fixed || len(l.Set()) == 0 {
				l.Prepare(&f.prior)
			}
		}
		// What the adversary holds to be impossible tells it nothing.
		if _, ok := mobility.Update(&f.posterior, &f.prior, l.Likelihoods(*z, f.prior.Cells)); !ok {
			f.posterior.CopyFrom(&f.prior)
			l = nil
		}
	}
	f.posterior.Prune(mechanism.DefaultPrune)
	f.posterior.Round()
	if l != nil {
		f.keep(l.Likelihoods(*z, f.posterior.Cells))
	}
}

// keep keeps what look back needs of a timestamp with a release.
func (f *filter) keep(likelihood []float64) {
	b := belief{likelihood: slices.Clone(likelihood), step: f.step, goesOn: f.goesOn}
	b.CopyFrom(&f.posterior)
	f.kept = append(f.kept, b)
}

// lookBack turns what was kept of each timestamp into what the adversary believes of it with all
// releases: forward-backward by its own idea of how people move. Each timestamp must have been
// kept.
func (f *filter) lookBack() []belief {
	var told []float64 // what later releases say of the cells of a timestamp, up to a factor
	var later mobility.Distribution
	for i := len(f.kept) - 1; i >= 0; i-- {
		b := &f.kept[i]
		if next := i + 1; next < len(f.kept) && f.kept[next].goesOn && f.back != nil {
			told = f.back(told, &b.Distribution, b.step, int(f.kept[next].step-b.step), &later)
		} else {
			told = append(told[:0], slices.Repeat([]float64{1}, b.Len())...)
		}
		later.Cells, later.P = append(later.Cells[:0], b.Cells...), later.P[:0]
		largest := 0.0
		for j, v := range told {
			later.P = append(later.P, float64(v*b.likelihood[j]))
			largest = max(largest, later.P[j])
		}
		if largest > 0 {
			for j := range later.P {
				later.P[j] /= largest
			}
		}
		var with mobility.Distribution
		if _, ok := mobility.Update(&with, &b.Distribution, told); ok {
			b.Distribution = with
		}
	}
	return f.kept
}

// learnedQuantities is how many quantities [learned] has.
const learnedQuantities = 3

// learned is what a belief says of the truth: the probability of the true cell, the entropy in
// bits, and the squared distance of the best guess, km². The best guess is the mean, the place of
// least expected squared error.
func learned(g *grid.Grid, belief *mobility.Distribution, truth grid.Cell) []float64 {
	distance := belief.Mean(g).Distance(g.Centre(truth))
	return []float64{belief.At(truth), entropy(belief), squared(distance)}
}

// entropy in bits. Beliefs are stored in float32 and need not sum to exactly 1.
func entropy(d *mobility.Distribution) (bits float64) {
	total := d.Total()
	for _, p := range d.P {
		if q := p / total; q > 0 {
			bits -= float64(q * math.Log2(q))
		}
	}
	return max(0, bits)
}
