package trial

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// ErrNoTracks says that nothing was long enough to measure.
var ErrNoTracks = errors.New("fit: no held-out user has a stretch without a gap that is long " +
	"enough: hold out more users, or allow shorter stretches or longer gaps")

// MeasureFit measures a model on the tracks of users that it was not trained on. A track is a
// stretch of successive steps without a gap. The filter starts at the model's initial distribution
// in each track. Tracks of one user must not overlap.
//
// For each δ, the sanitizer goes through all tracks as a service would. For Release.Delta,
// MeasureFit also takes the distances to the truth, beside those of a filter that sees no release.
// Means are over steps, and intervals come from resampling users.
//
// Cost: (number of δs) × steps releases, each a few hundred microseconds on maps of a thousand
// cells. Memory: 30 bytes a step. The same arguments give the same figures whatever Workers is.
func MeasureFit(
	model *mobility.Model, tracks iter.Seq[mobility.Track], o FitOptions,
) (mobility.Fit, error) {
	if err := o.Validate(); err != nil {
		return mobility.Fit{}, err
	}
	o = o.withDefaults()
	held, shortest := gather(tracks, o)
	if len(held) == 0 {
		return mobility.Fit{}, ErrNoTracks
	}
	full, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(o.Seed)), o.Release)
	if err != nil {
		return mobility.Fit{}, err
	}
	o.Release, o.MinSegment = full.Options(), shortest
	f := &measurement{model: model, options: o, held: held}
	if err := f.measure(); err != nil {
		return mobility.Fit{}, err
	}
	return f.fit(), nil
}

// fit adds up the parts, in their order.
func (f *measurement) fit() mobility.Fit {
	o := f.options
	fit := mobility.Fit{
		Segments: int64(len(f.held)), Shortest: o.MinSegment,
		Mechanism: o.Release.Mechanism, Epsilon: o.Release.Epsilon, Delta: o.Release.Delta,
		LogUniform: -math.Log(float64(f.model.Grid.Cells())),
	}
	users := f.users()
	fit.Users = int64(len(users) - 1)
	for _, t := range f.held {
		fit.Steps += int64(len(t.Cells))
	}
	f.oneStep(&fit)
	for i, delta := range o.Deltas {
		fit.Calibration = append(fit.Calibration, f.calibrate(&fit, i, delta, users))
	}
	return fit
}

// oneStep fills in the one-step figures.
func (f *measurement) oneStep(fit *mobility.Fit) {
	var sum part
	for _, p := range f.pass(0) {
		sum.steps += p.steps
		sum.lost += p.lost
		sum.logs += p.logs
		sum.popular += p.popular
	}
	fit.Moves = sum.steps
	if sum.steps > 0 {
		fit.LogLikelihood = sum.logs / float64(sum.steps)
		fit.LogPopularity = sum.popular / float64(sum.steps)
		fit.Impossible = Share(sum.lost, sum.steps)
	}
}

// calibrate returns the i-th point of the curve, and fills in what belongs to the settings if it is
// theirs.
func (f *measurement) calibrate(
	fit *mobility.Fit, i int, delta float64, users []int,
) mobility.FitDelta {
	var score Score
	logs := 0.0
	parts, by := f.pass(1+i), make([]clusterCount, len(users)-1)
	for u := range by {
		for _, p := range parts[users[u]:users[u+1]] {
			by[u].n += p.score.Releases()
			by[u].hits += p.score.Drifts()
			logs += p.logs
			score.Merge(&p.score)
		}
	}
	point := mobility.FitDelta{
		Delta: delta, Drift: score.DriftRatio(), SetMean: score.LocationSetMean(),
	}
	if len(by) >= enoughUsers {
		point.Low, point.High = bootstrapShare(by, f.options.Seed)
	}
	if delta == fit.Delta {
		fit.LogPrior = logs / float64(fit.Steps)
		fit.Estimate, fit.Blind = errorOf(&score.Estimate), errorOf(&score.Blind)
	}
	return point
}

func errorOf(d Losses) mobility.FitError {
	return mobility.FitError{Mean: d.Mean(), Median: d.Median()}
}

// users returns where in f.held each user's tracks begin, and the end.
func (f *measurement) users() []int {
	var starts []int
	for i, t := range f.held {
		if i == 0 || t.User != f.held[i-1].User {
			starts = append(starts, i)
		}
	}
	return append(starts, len(f.held))
}

// clusterCount is how many trials a user has and how many of them hit.
type clusterCount struct{ n, hits int64 }

// Of the intervals: how many samples of users, and how much of them is cut off on each side.
const (
	bootstrapSamples = 1000
	bootstrapTail    = .025
)

// bootstrapShare returns where the share of hits lies with a confidence of 95 % for other users
// like these: the percentile interval over samples of as many users, drawn with replacement (the
// cluster bootstrap; Davison and Hinkley 1997, doi 10.1017/CBO9780511802843, sections 2.4 and 3.8).
// Steps of one user depend on each other, so an interval that took them for independent trials
// would be far too narrow. It is only as good as the number of users: a single one gives an
// interval of length 0, and fewer than about ten one that is too short. The same users and seed
// give the same interval. Cost: 1000 × users.
func bootstrapShare(users []clusterCount, seed uint64) (low, high float64) {
	bits := rand.New(rand.NewPCG(seed, 0x626f6f7473747261)) // any second word: it names the stream
	shares := make([]float64, 0, bootstrapSamples)
	for range bootstrapSamples {
		var n, hits int64
		for range users {
			u := users[bits.IntN(len(users))]
			n += u.n
			hits += u.hits
		}
		if n > 0 {
			shares = append(shares, float64(hits)/float64(n))
		}
	}
	if len(shares) == 0 {
		return 0, 0
	}
	slices.Sort(shares)
	last := float64(len(shares) - 1)
	return shares[int(bootstrapTail*last)], shares[int(float64((1-bootstrapTail)*last)+.5)]
}
