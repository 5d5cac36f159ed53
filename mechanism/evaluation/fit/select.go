package fit

import (
	"cmp"
	"errors"
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// SelectOptions say how the parameters of smoothing are chosen. Release needs an ε and a δ. The
// zero value of each other field means its default.
type SelectOptions struct {
	// Release is how the filter will release. The best smoothing depends on it: what suits weak
	// releases may not suit strong ones.
	Release mechanism.Options
	// Folds is the number of parts that the users are split into; the default is 3. Each part is
	// predicted by a model that is trained on the other parts.
	Folds int
	// MinSegment leaves out tracks of fewer steps.
	MinSegment int
	// EveryFix counts the steps of a track one by one, as in Options.
	EveryFix bool
	// MaxSteps bounds how many steps each candidate is measured on, default 6000.
	MaxSteps int64
	// Runs is how often each is measured, with other noise, default 1.
	Runs int
	// Seed makes it repeatable: folds, tracks and noise.
	Seed uint64
	// Workers is the number of goroutines, default one. The choice does not depend on it.
	Workers int
	// Progress, if set, is told now and then how many candidates are done, and a number that they
	// will not exceed by much. Its error ends the selection.
	Progress func(done, total int64) error
	// Tried, if set, is told of each candidate as soon as it is measured.
	Tried func(Candidate)
}

// Defaults of SelectOptions.
const (
	DefaultFolds       = 3
	DefaultSelectSteps = 6000
)

func (o SelectOptions) withDefaults() SelectOptions {
	// The law is that of K-norm noise in all three cases, and KNorm uses the same random words for
	// every model.
	switch o.Release.Mechanism {
	case "", law.Lattice, law.PIM:
		o.Release.Mechanism = law.KNorm
	}
	o.Folds = cmp.Or(o.Folds, DefaultFolds)
	o.MaxSteps = cmp.Or(o.MaxSteps, DefaultSelectSteps)
	return o
}

// Candidate is one choice of parameters and what it gives on users that its models were not trained
// on.
type Candidate struct {
	Options train.Options
	// LogPrior is the mean natural logarithm of the filter's prior at the true cell: what the
	// choice goes by.
	LogPrior float64
	// Behind is how much less that is than the chosen candidate's, step by step under the same
	// noise, and Error the standard error of the difference for other users like these.
	Behind, Error float64
	// Drift is at the settings' δ, and DriftError its standard error for other users like these.
	Drift, DriftError float64
	SetMean           float64
	EstimateM         float64 // mean error of the estimate, metres
	Chosen            bool

	users []userSum
	steps float64
}

// userSum is a user's sum of logarithms.
type userSum struct {
	user  string
	steps int64
	logs  float64

	releases, drifts int64
}

// Selection is the outcome.
type Selection struct {
	Options    train.Options
	Candidates []Candidate // in the order they were tried
}

// ErrFewUsers says that there is nobody to choose on.
var ErrFewUsers = errors.New("fit: choosing parameters takes at least two users in each of the " +
	"parts that they are split into: give it more users, or choose the parameters yourself")

// Select chooses the parameters of smoothing by cross-validation over users. The filter goes
// through the tracks of each part of the users under a model of the other parts. Select takes the
// candidate under which the mean logarithm of the filter's prior at the true cell is greatest. This
// is a proper score of what the filter does. The likelihood of a single step from a known place is
// not: the filter predicts moves after several uncertain steps.
//
// start holds the parameters that are not chosen, and the values at which the search starts. The
// search changes one parameter at a time, in large steps first and then in small ones, for as long
// as the score improves. All candidates are measured on the same tracks with the same noise. A
// larger kernel must gain more than it costs.
//
// Cost: some 15 to 30 candidates, each a fit at one δ of MaxSteps steps and Folds trainings.
func Select(trainer *train.Trainer, start train.Options, o SelectOptions) (Selection, error) {
	if err := o.Release.Validate(); err != nil {
		return Selection{}, err
	}
	s, err := newSearch(trainer, o.withDefaults())
	if err != nil {
		return Selection{}, err
	}
	best, err := s.from(start.Defaults())
	if err != nil {
		return Selection{}, err
	}
	return s.selection(best), nil
}

// fold is a part of the users: their tracks, and the trainer of everybody else.
type fold struct {
	others *train.Trainer
	held   []mobility.Track
}

func newFolds(trainer *train.Trainer, o SelectOptions, fit Options) ([]fold, error) {
	folds := make([]fold, o.Folds)
	for i := range folds {
		held := func(user string) bool { return int(Unit(user, o.Seed)*float64(o.Folds)) == i }
		folds[i] = fold{others: trainer.Without(held), held: gather(trainer.Tracks(held), fit)}
		if users := (&measurement{held: folds[i].held}).users(); len(users) < 3 {
			return nil, ErrFewUsers
		}
	}
	return folds, nil
}

// selection marks the best one and compares the others with it.
func (s *search) selection(best int) Selection {
	chosen := &s.tried[best]
	chosen.Chosen = true
	for i := range s.tried {
		c := &s.tried[i]
		c.Behind, c.Error = difference(chosen.users, c.users)
	}
	return Selection{Options: chosen.Options, Candidates: s.tried}
}

// difference returns by how much a's mean exceeds b's, and the standard error with users as
// clusters.
func difference(a, b []userSum) (mean, standardError float64) {
	return clusterMean(len(a), func(i int) (float64, float64) {
		return a[i].logs - b[i].logs, float64(a[i].steps)
	})
}

// clusterMean returns the ratio of two sums over n users, and its standard error for other users
// like these, to first order (Cochran 1977, Sampling techniques, equation 6.13).
func clusterMean(n int, of func(i int) (sum, size float64)) (mean, standardError float64) {
	total, sizes := 0.0, 0.0
	for i := range n {
		sum, size := of(i)
		total += sum
		sizes += size
	}
	mean = total / sizes
	squares := 0.0
	for i := range n {
		sum, size := of(i)
		d := sum - float64(mean*size)
		squares += float64(d * d)
	}
	return mean, math.Sqrt(squares*float64(n)/max(float64(n-1), 1)) / sizes
}
