// Package private trains mobility models with differential privacy: a model tells little about any
// one user whose traces it was learned from. [Train] takes the fixes from a [train.Trainer].
//
// Everything random comes from one source that the caller gives; the rest is a function of the
// fixes and the options. PROOFS.md has the guarantee and its proof.
package private

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
)

// Options are the public parameters of private training. Choose them without looking at the traces,
// as well as the grid, the step and all options of training.
type Options struct {
	// Epsilon bounds what the whole model tells about any one user. It is a positive decimal number
	// with at most nine decimals, and it is taken as exactly that rational number.
	Epsilon string
	// Contribution is the largest number of transitions that count of each user. A larger number
	// uses more of the data of users who have as many, and the noise grows with it. Little is
	// gained beyond what most users have.
	Contribution int
	// Radius is how far a counted move may go, in cells. Longer moves are dropped. 0 means the
	// kernel radius of training.
	Radius int
}

// maxContribution keeps the sums of all users who fit into memory below saturation, and scales
// within a word.
const maxContribution = 1_000_000

// Validate returns an error for the first option that private training cannot use.
func (o Options) Validate() error {
	if _, _, err := parseEpsilon(o.Epsilon); err != nil {
		return err
	}
	switch {
	case o.Contribution < 1 || o.Contribution > maxContribution:
		return fmt.Errorf("private: the contribution, the transitions that count of each user, "+
			"must be 1 to %d; 100 is a good number", maxContribution)
	case o.Radius < 0 || o.Radius > train.MaxKernelRadius:
		return fmt.Errorf("private: the radius of counted moves must be 1 to %d cells "+
			"(0: the kernel radius)", train.MaxKernelRadius)
	}
	return nil
}

// Train returns a differentially private model of all fixes added to the trainer. Whether any one
// user's traces are among them changes the probability of any set of models by at most the factor
// e^ε (PROOFS.md, private.Train).
//
// random must be secret and as good as uniform words. Train takes 256 bits from it, and the same
// bits give the same model. Anybody with these bits can take the noise off the model.
//
// The model has no law of gaps: a gap of so many steps is as many moves. Learning one would take
// another query of the traces, and a share of ε that the matrix needs more.
//
// At most Contribution transitions of each user count. They are counted exactly, in whole numbers,
// at several levels from the whole map to single pairs of cells. Each level spends a part of ε on
// exact discrete Laplace noise on every one of its counts, zeros included. The noisy counts of the
// first level decide how many levels there are: as many as have enough users to rise above the
// noise. Everything else, from the kernel to the initial distribution, is computed from noisy
// counts alone.
//
// The option UserCap is not used. The trainer must keep shared fixes. A trainer without a fix in
// the box is no error, since an error would tell about the traces: the model then consists of
// noise, and the report says why.
//
// The report is exact and not private: it is for those who may see the traces. The model's own
// provenance counts only the entries of its matrix, which are public. progress is told how much is
// done, in units of training's own, by one goroutine at a time, and its first error ends the
// training; nil reports nothing.
func Train(t *train.Trainer, o Options, random noise.Source,
	progress func(done, total int64) error,
) (*mobility.Model, mobility.Report, error) {
	counted, options := t.Seen(), t.Options()
	options.NoGapLaw = true // its weights would need a share of ε
	if err := o.Validate(); err != nil {
		return nil, counted, err
	}
	if !options.KeepShared {
		return nil, counted, errors.New("private: the trainer must have KeepShared: " +
			"where fixes that two users share are dropped, one user decides what counts of others")
	}
	if o.Radius == 0 {
		o.Radius = options.KernelRadius
	}
	if random == nil {
		return nil, counted, errors.New("private: training needs a source of secret random words")
	}
	run, err := newTraining(t, o, random, progress)
	if err != nil {
		return nil, counted, err
	}
	model, err := run.model()
	if err != nil {
		return nil, counted, err
	}
	model.Provenance = mobility.Provenance{
		Source: options.Source, Tool: options.Tool, Options: options.String(),
		Report: mobility.Report{MatrixEntries: int64(model.Transitions())},
		Privacy: &mobility.Privacy{
			Epsilon: o.Epsilon, Contribution: o.Contribution,
			Radius: o.Radius,
		},
	}
	counted.Transitions = run.transitions
	counted.MatrixEntries = model.Provenance.Report.MatrixEntries
	return model, counted, nil
}
