package experiment

import (
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Adversary is somebody who sees all releases of a user and the times of reports, and knows how
// releases are made. Its text is its name in figures.
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
	start     func(dst *mobility.Distribution)
	move      func(dst, from *mobility.Distribution, at int64, steps int)
	own       *mechanism.Emission // nil: the true one
	fixed     bool                // the own law is that of every timestamp
	maxGap    int64
	prior     mobility.Distribution
	posterior mobility.Distribution
	step      int64
	started   bool
}

// foresee fills the prior of a step.
func (f *filter) foresee(step int64) {
	if f.started && step-f.step <= f.maxGap {
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
	if z != nil {
		l := truth
		if f.own != nil {
			if l = f.own; !f.fixed || len(l.Set()) == 0 {
				l.Prepare(&f.prior)
			}
		}
		// What the adversary holds to be impossible tells it nothing.
		if _, ok := mobility.Update(&f.posterior, &f.prior, l.Likelihoods(*z, f.prior.Cells)); !ok {
			f.posterior.CopyFrom(&f.prior)
		}
	}
	f.posterior.Prune(mechanism.DefaultPrune)
	f.posterior.Round()
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
