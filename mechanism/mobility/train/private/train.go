package private

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
)

// Options are the public parameters of private training. They must be chosen without a look at the traces, as must the
// grid, the step and all options of training.
type Options struct {
	// Epsilon bounds what the whole model tells about any one user: a positive decimal number, at most nine decimals. It is taken
	// as the rational number that it says.
	Epsilon string
	// Contribution is how many transitions of each user count, at most. More of them say more of those who have as many, and
	// the noise grows with it: little is gained beyond what most users have.
	Contribution int
	// Radius is how far a move that counts may go, in cells; longer ones are dropped. 0: the kernel radius of training.
	Radius int
}

// maxContribution keeps the sums of any number of users that fit into memory below saturation, and scales within words.
const maxContribution = 1_000_000

// Validate reports the first option that private training cannot use.
func (o Options) Validate() error {
	if _, _, err := parseEpsilon(o.Epsilon); err != nil {
		return err
	}
	switch {
	case o.Contribution < 1 || o.Contribution > maxContribution:
		return fmt.Errorf("private: the transitions that count of a user must be 1 to %d; 100 is a good number", maxContribution)
	case o.Radius < 0 || o.Radius > train.MaxKernelRadius:
		return fmt.Errorf("private: the radius of private counts must be 1 to %d cells (0: the kernel radius)", train.MaxKernelRadius)
	}
	return nil
}

// Train returns a model of everything added that is differentially private: whether any one user's traces are among
// the input or not changes the probability of no set of models by more than the factor e^ε (PROOFS.md, private.Train).
// random must be secret and as good as uniform words; it is asked for 256 bits, and the same bits give the same model. Whoever
// learns them takes the noise off the model.
//
// At most Contribution transitions of each user count. They are counted exactly, in whole numbers and at several levels from
// the whole map to single pairs of cells; each level spends a part of ε on exact discrete Laplace noise on every one of its
// counts, zeros included. How many levels there are follows from the first one's noisy counts: as many as the users can be
// heard in. All else, from the kernel to the initial distribution, is computed from noisy counts alone.
//
// UserCap is not used. The trainer must keep shared fixes. If it has seen no fix in the box there is no error, which would tell so
// much: the model is then made of noise, and the report says why.
//
// The report is exact and not private: it is for those who may see the traces. The model's own provenance has no count but that
// of its matrix, which is public. report is called as by [train.Trainer.FinishWithProgress].
func Train(t *train.Trainer, o Options, random noise.Source, report func(done, total int64) error) (*mobility.Model, mobility.Report, error) {
	counted, options := t.Seen(), t.Options()
	if err := o.Validate(); err != nil {
		return nil, counted, err
	}
	if !options.KeepShared {
		return nil, counted, errors.New("private: private training needs KeepShared: where fixes that two users share are dropped, one user decides what counts of others")
	}
	if o.Radius == 0 {
		o.Radius = options.KernelRadius
	}
	if random == nil {
		return nil, counted, errors.New("private: private training needs a source of secret random words")
	}
	run, err := newTraining(t, o, random, report)
	if err != nil {
		return nil, counted, err
	}
	model, err := run.model()
	if err != nil {
		return nil, counted, err
	}
	model.Provenance = mobility.Provenance{
		Source: options.Source, Tool: options.Tool, Options: options.String(),
		Report:  mobility.Report{MatrixEntries: int64(model.Transitions())},
		Privacy: &mobility.Privacy{Epsilon: o.Epsilon, Contribution: o.Contribution, Radius: o.Radius},
	}
	counted.Transitions = run.transitions
	counted.MatrixEntries = model.Provenance.Report.MatrixEntries
	return model, counted, nil
}
