package fit

import (
	"slices"

	"github.com/geodither/geodither/mechanism/mobility/train"
)

// A parameter is searched on a ladder of values.
type parameter struct {
	ladder []float64
	get    func(train.Options) float64
	set    func(*train.Options, float64)
	// price is the gain in the mean logarithm that a step up must bring, because rows grow with it,
	// and with them files and time.
	price float64
}

// smoothing are the parameters that log prior chooses, in the order in which they are tried. The
// cap comes last: it changes least.
var smoothing = []parameter{
	{
		ladder: []float64{2, 5, 10, 20, 50, 100, 200, 500, 1000},
		get:    func(o train.Options) float64 { return o.Backoff },
		set:    func(o *train.Options, v float64) { o.Backoff = v },
	},
	{
		ladder: []float64{2, 3, 4, 5, 6, 8, 11, 15},
		get:    func(o train.Options) float64 { return float64(o.KernelRadius) },
		set:    func(o *train.Options, v float64) { o.KernelRadius = int(v) },
		price:  .02,
	},
	{
		ladder: []float64{5, 10, 30, 100, 300},
		get:    func(o train.Options) float64 { return float64(o.UserCap) },
		set:    func(o *train.Options, v float64) { o.UserCap = int(v) },
	},
}

// jumps are chosen by drift: see calibrated.
var jumps = []float64{2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2}

// worthCalibration is how much log prior may be lost for a drift that does not exceed δ: 1 % of
// the probability of the true cell, which shows in no error of an estimate.
const worthCalibration = .01

// typical is about how many candidates a search tries.
const typical = 24

// search is one selection in progress.
type search struct {
	options SelectOptions
	fit     Options
	folds   []fold
	tried   []Candidate
}

func newSearch(trainer *train.Trainer, o SelectOptions) (*search, error) {
	s := &search{options: o, fit: Options{
		Release: o.Release, Deltas: []float64{}, MinSegment: o.MinSegment, EveryFix: o.EveryFix,
		MaxSteps: max(o.MaxSteps/int64(o.Folds), 1), Runs: o.Runs,
		Paired: true, Seed: o.Seed, Workers: o.Workers,
	}.withDefaults()}
	var err error
	s.folds, err = newFolds(trainer, o, s.fit)
	return s, err
}

// from searches along one parameter after another, two rungs of its ladder at a time until that
// gains nothing, then one rung at a time until no parameter gains anything. It returns the number
// of the best candidate.
func (s *search) from(start train.Options) (int, error) {
	best, err := s.try(start)
	if err != nil {
		return 0, err
	}
	for _, stride := range []int{2, 1} {
		for moved := true; moved; {
			moved = false
			for _, p := range smoothing {
				next, err := s.along(best, p, stride)
				if err != nil {
					return 0, err
				}
				moved = moved || next != best
				best = next
			}
		}
	}
	return s.calibrated(best)
}

// along moves up or down one ladder as long as that gains.
func (s *search) along(best int, p parameter, stride int) (int, error) {
	for _, by := range []int{stride, -stride} {
		moved := false
		for {
			next, err := s.step(best, p, by)
			if err != nil {
				return 0, err
			}
			if next == best {
				break
			}
			best, moved = next, true
		}
		if moved {
			break
		}
	}
	return best, nil
}

// step tries the value so many rungs away and returns it if it is better, else the same.
func (s *search) step(best int, p parameter, by int) (int, error) {
	options := s.tried[best].Options
	at, found := slices.BinarySearch(p.ladder, p.get(options))
	if by > 0 && !found {
		at-- // from between two rungs, the first step up is to the next rung
	}
	if at += by; at < 0 || at >= len(p.ladder) {
		return best, nil
	}
	p.set(&options, p.ladder[at])
	next, err := s.try(options)
	if err != nil {
		return 0, err
	}
	gain := s.tried[next].LogPrior - s.tried[best].LogPrior
	if by > 0 {
		gain -= p.price
	}
	if gain > 0 {
		return next, nil
	}
	return best, nil
}

// calibrated chooses the share of jumps. Jumps decide how soon the filter finds a user again whom
// it has lost, and so they decide drift; they change hardly anything else. Among the shares that
// lose little log prior, calibrated takes the smallest whose drift, plus a standard error, is at
// most δ, or else the one that exceeds δ least. The standard error is added because future users
// will differ, and too much drift is worse than too little, which only costs some cells of the
// location sets.
func (s *search) calibrated(best int) (int, error) {
	found := -1
	for _, share := range jumps {
		options := s.tried[best].Options
		options.Jumps = share
		next, err := s.try(options)
		if err != nil {
			return 0, err
		}
		if s.tried[best].LogPrior-s.tried[next].LogPrior < worthCalibration && (found < 0 ||
			s.excess(next) < s.excess(found)) {
			found = next
		}
	}
	if found < 0 {
		found = best
	}
	return found, nil
}

// excess is the amount by which a candidate's drift, plus a standard error, exceeds δ; 0 if it
// does not.
func (s *search) excess(i int) float64 {
	return max(s.tried[i].Drift+s.tried[i].DriftError-s.options.Release.Delta, 0)
}

// try measures a candidate that has not been, and returns its number.
func (s *search) try(o train.Options) (int, error) {
	for i, c := range s.tried {
		if same(c.Options, o) {
			return i, nil
		}
	}
	c := Candidate{Options: o}
	for _, f := range s.folds {
		if err := s.measure(&c, f); err != nil {
			return 0, err
		}
	}
	c.average()
	_, c.DriftError = clusterMean(
		len(c.users),
		func(i int) (float64, float64) {
			return float64(c.users[i].drifts), float64(c.users[i].releases)
		},
	)
	s.tried = append(s.tried, c)
	if s.options.Tried != nil {
		s.options.Tried(c)
	}
	return len(s.tried) - 1, s.progress()
}

// measure adds the results on a fold under a candidate's model of the other users.
func (s *search) measure(c *Candidate, f fold) error {
	progress := func(int64, int64) error { return s.progress() }
	o := c.Options
	o.NoGapLaw = true // no segment has a gap
	trainer, err := f.others.With(o)
	if err != nil {
		return err
	}
	model, _, err := trainer.FinishWithProgress(progress)
	if err != nil {
		return err
	}
	m, err := newMeasurement(model, f.held, s.fit)
	if err != nil {
		return err
	}
	m.options.Progress = progress
	if err := m.measure(); err != nil {
		return err
	}
	fit := m.fit()
	at, n := fit.Calibration[0], float64(fit.Steps)
	c.steps += n
	c.LogPrior += float64(n * at.LogPrior)
	c.Drift += float64(n * at.Drift)
	c.SetMean += float64(n * at.SetMean)
	c.EstimateM += float64(n * fit.Estimate.Mean)
	c.users = append(c.users, m.byUser()...)
	return nil
}

// average turns sums into means.
func (c *Candidate) average() {
	for _, sum := range []*float64{&c.LogPrior, &c.Drift, &c.SetMean, &c.EstimateM} {
		*sum /= c.steps
	}
}

// progress tells how far it is.
func (s *search) progress() error {
	if s.options.Progress == nil {
		return nil
	}
	done := int64(len(s.tried))
	return s.options.Progress(done, max(typical, done+1))
}

// same says whether two options smooth alike.
func same(a, b train.Options) bool {
	return a.KernelRadius == b.KernelRadius && a.Backoff == b.Backoff && a.UserCap == b.UserCap &&
		a.Jumps == b.Jumps
}
