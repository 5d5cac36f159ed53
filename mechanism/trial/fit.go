package trial

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// ErrNoTracks says that nothing was long enough to measure.
var ErrNoTracks = errors.New("fit: no held-out user has a stretch without long gaps (held-out)")

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

// FitOptions say how a model is measured. Release needs an ε and a δ. The zero value of each other
// field means its default.
type FitOptions struct {
	// Release is how the filter releases: in every step, unless its rules say otherwise.
	Release mechanism.Options
	// Deltas are the points of the calibration curve besides Release.Delta; default .001, .003,
	// .01, .03, .1 and .3. Empty but not nil: none.
	Deltas []float64
	// MinSegment is the least number of steps of a track; shorter tracks are left out. The default
	// is the longest of which there are enough tracks, at most 60. A filter takes an hour or so to
	// locate a user, so short tracks show little else.
	MinSegment int
	// EveryFix counts the steps of a track one by one, for models of successive fixes whatever the
	// time between them.
	EveryFix bool
	// MaxSteps bounds the number of steps that are measured; 0 is no bound. Users with many steps
	// are cut to a common limit, on tracks that are chosen at random. If even MinSegment steps of
	// each user are too many, only some users are measured, chosen at random.
	MaxSteps int64
	// Seed makes it repeatable: the noise, the choice of tracks, the bootstrap.
	Seed uint64
	// Workers is the number of goroutines, default one. The figures do not depend on it.
	Workers int
	// Progress, if set, is told now and then how many steps are done, one call at a time. Its error
	// ends the measurement.
	Progress func(done, total int64) error
}

func (o FitOptions) withDefaults() FitOptions {
	if o.Deltas == nil {
		o.Deltas = []float64{.001, .003, .01, .03, .1, .3}
	}
	o.Deltas = append(slices.Clone(o.Deltas), o.Release.Delta)
	slices.Sort(o.Deltas)
	o.Deltas = slices.Compact(o.Deltas)
	o.Workers = max(o.Workers, 1)
	return o
}

// Validate reports what cannot be used.
func (o FitOptions) Validate() error {
	errs := []error{o.Release.Validate()}
	for _, delta := range o.Deltas {
		errs = append(errs, mechanism.ValidateDelta(delta))
	}
	if o.MaxSteps < 0 {
		errs = append(errs, fmt.Errorf("at most %d steps are none", o.MaxSteps))
	}
	return errors.Join(errs...)
}

// Unit returns a user's number in [0, 1): uniform over users, and independent for different salts.
// A split of users by this number is the same for any order or selection of their traces.
func Unit(user string, salt uint64) float64 {
	sum := sha256.Sum256(
		append(binary.BigEndian.AppendUint64([]byte("geodither split "), salt), user...))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// segments are the least lengths of a track that are tried where the options leave it open: most
// of the time a filter needs to find somebody at a weak ε, and shorter ones where there is too
// little of that.
var segments = []int{60, 30, 15, 8, 4, 2}

// enoughSteps are enough to measure on.
const enoughSteps = 1000

// shortest returns the least length of a track that is measured where nobody has chosen it: the
// longest of which enough users have enough steps.
func shortest(tracks iter.Seq[mobility.Track]) int {
	users, steps := make([]map[string]bool, len(segments)), make([]int, len(segments))
	for i := range users {
		users[i] = map[string]bool{}
	}
	for t := range tracks {
		for i, least := range segments {
			if len(t.Cells) >= least {
				users[i][t.User] = true
				steps[i] += len(t.Cells)
			}
		}
	}
	for i, least := range segments {
		if len(users[i]) >= enoughUsers && steps[i] >= enoughSteps {
			return least
		}
	}
	return segments[len(segments)-1]
}

// gather returns the tracks that are measured, in memory of their own, sorted by user, and the
// least length of one. Tracks of one user keep their order.
func gather(tracks iter.Seq[mobility.Track], o FitOptions) ([]mobility.Track, int) {
	if o.MinSegment < 1 {
		o.MinSegment = shortest(tracks)
	}
	var held []mobility.Track
	for t := range tracks {
		if len(t.Cells) >= o.MinSegment {
			t.Cells, t.Steps = slices.Clone(t.Cells), slices.Clone(t.Steps)
			held = append(held, t)
		}
	}
	slices.SortStableFunc(
		held, func(a, b mobility.Track) int { return cmp.Compare(a.User, b.User) },
	)
	if o.EveryFix {
		renumber(held)
	}
	return atMost(held, o), o.MinSegment
}

// renumber counts the steps of each track one by one, from the track's first step or from the end
// of the user's track before it if that is later. Noise belongs to a user and a step, so no two
// places may share a step.
func renumber(held []mobility.Track) {
	for i, t := range held {
		first := t.Steps[0]
		if i > 0 && held[i-1].User == t.User {
			before := held[i-1].Steps
			first = max(first, before[len(before)-1]+1)
		}
		for j := range t.Steps {
			t.Steps[j] = first + int64(j)
		}
	}
}

// atMost cuts users to a common limit of steps, on tracks that are chosen at random. Then at most
// o.MaxSteps are left and no user has more than all others together: figures are means over steps,
// and that user would determine them. If not even MinSegment steps of each user fit, it keeps as
// many users as fit, at least one, chosen at random.
func atMost(held []mobility.Track, o FitOptions) (kept []mobility.Track) {
	var users [][]mobility.Track
	totals := map[string]int64{}
	all, most := int64(0), int64(0)
	for i, t := range held {
		if i == 0 || t.User != held[i-1].User {
			users = append(users, nil)
		}
		last := len(users) - 1
		users[last] = append(users[last], t)
		totals[t.User] += int64(len(t.Cells))
		all, most = all+int64(len(t.Cells)), max(most, totals[t.User])
	}
	limit := most
	if o.MaxSteps > 0 && all > o.MaxSteps {
		room := max(o.MaxSteps/int64(o.MinSegment), 1)
		slices.SortFunc(users, func(a, b []mobility.Track) int {
			return cmp.Compare(Unit(a[0].User, o.Seed), Unit(b[0].User, o.Seed))
		})
		users = users[:min(room, int64(len(users)))]
		limit = o.MaxSteps / int64(len(users))
	}
	if others := all - most; others > 0 {
		limit = min(limit, others)
	}
	for _, tracks := range users {
		kept = append(kept, some(tracks, max(limit, int64(o.MinSegment)), o)...)
	}
	slices.SortStableFunc(
		kept, func(a, b mobility.Track) int { return cmp.Compare(a.User, b.User) },
	)
	return kept
}

// some returns tracks of one user with at most limit steps together, chosen at random, in their
// order. The last one chosen is cut short, if enough of it is left.
func some(tracks []mobility.Track, limit int64, o FitOptions) []mobility.Track {
	total := int64(0)
	for _, t := range tracks {
		total += int64(len(t.Cells))
	}
	if total <= limit {
		return tracks
	}
	sum := sha256.Sum256([]byte(tracks[0].User))
	order := rand.New(rand.NewPCG(o.Seed, binary.BigEndian.Uint64(sum[:]))).Perm(len(tracks))
	keep := make([]int64, len(tracks))
	for _, i := range order {
		n := min(int64(len(tracks[i].Cells)), limit)
		if n < int64(o.MinSegment) {
			break
		}
		keep[i] = n
		limit -= n
	}
	var kept []mobility.Track
	for i, t := range tracks {
		if n := keep[i]; n > 0 {
			t.Cells, t.Steps = t.Cells[:n], t.Steps[:n]
			kept = append(kept, t)
		}
	}
	return kept
}

// measurement is one measurement in progress.
type measurement struct {
	model   *mobility.Model
	options FitOptions
	held    []mobility.Track // by user
	parts   []part           // for each pass and track; see pass
}

// A pass is the one-step likelihoods, number 0, or the filter at a δ, numbers 1 to len(Deltas).
func (f *measurement) passes() int { return 1 + len(f.options.Deltas) }

// pass returns the results of a pass, by track.
func (f *measurement) pass(number int) []part {
	return f.parts[number*len(f.held) : (number+1)*len(f.held)]
}

// part is the sum of one pass over one track.
type part struct {
	steps, lost int64 // lost: of probability 0
	logs        float64

	popular float64 // one step
	score   Score   // the filter, with distances only for the δ of the settings
}

// addLog counts one place and the probability that it was given.
func (p *part) addLog(probability float64) {
	p.steps++
	if probability == 0 {
		p.lost++
	}
	p.logs += math.Log(max(probability, mobility.MinProbability))
}

// measure fills in the parts: every pass over every track is a task, and its result has a place of
// its own.
func (f *measurement) measure() error {
	f.parts = make([]part, f.passes()*len(f.held))
	blind, err := f.blindPlaces()
	if err != nil {
		return err
	}
	perPass := int64(0)
	for _, t := range f.held {
		perPass += int64(len(t.Cells))
	}
	pool := parallel.Pool{
		Workers: f.options.Workers,
		Size:    func(i int) int64 { return int64(len(f.held[i%len(f.held)].Cells)) },
	}
	if f.options.Progress != nil {
		pool.Progress = func(done int64) error {
			return f.options.Progress(done, perPass*int64(f.passes()))
		}
	}
	return pool.Do(len(f.parts), func(int) func(*parallel.Task) error {
		w := &worker{measurement: f, blind: blind}
		return func(t *parallel.Task) error { return w.task(t.Number) }
	})
}

// blindPlaces returns the estimates of a filter without any release, by steps since its start. It
// returns nil where they are not the same for all tracks.
func (f *measurement) blindPlaces() ([]mechanism.Best, error) {
	if len(f.model.Matrices) > 1 {
		return nil, nil
	}
	longest := int64(0)
	for _, t := range f.held {
		longest = max(longest, t.Steps[len(t.Steps)-1]-t.Steps[0])
	}
	s, err := f.sanitizer(f.options.Release.Delta)
	if err != nil {
		return nil, err
	}
	steps := make([]int64, longest+1)
	for i := range steps {
		steps[i] = int64(i)
	}
	return Alone(s, steps)
}

// sanitizer returns one for a δ.
func (f *measurement) sanitizer(delta float64) (*mechanism.Sanitizer, error) {
	release := f.options.Release
	release.Delta = delta
	streams := noise.NewKeyed(noise.KeyFromSeed(f.options.Seed))
	return mechanism.NewSanitizer(f.model, streams, release)
}

// worker is the scratch of one goroutine. Tasks come by ascending passes, so that it needs one
// sanitizer at a time.
type worker struct {
	*measurement
	blind []mechanism.Best

	predictor   *mobility.Predictor
	popularity  []float64
	here, there mobility.Distribution
	pass        int
	runner      Runner
}

func (w *worker) task(i int) error {
	pass, t := i/len(w.held), w.held[i%len(w.held)]
	if pass == 0 {
		w.oneStep(&w.parts[i], t)
		return nil
	}
	if w.runner.Sanitizer == nil || w.pass != pass {
		if err := w.begin(pass); err != nil {
			return err
		}
	}
	return w.filter(&w.parts[i], t)
}

// begin makes a sanitizer for a pass.
func (w *worker) begin(pass int) (err error) {
	w.predictor, w.popularity = nil, nil
	w.pass = pass
	delta := w.options.Deltas[pass-1]
	w.runner.Release, w.runner.Alone = true, w.blind
	w.runner.Beside = delta == w.options.Release.Delta
	w.runner.Sanitizer, err = w.sanitizer(delta)
	return err
}

// oneStep asks the model at each true cell for the next one.
func (w *worker) oneStep(p *part, t mobility.Track) {
	if w.predictor == nil {
		w.predictor = mobility.NewPredictor(w.model)
		w.popularity = popularity(w.model)
	}
	for i := 1; i < len(t.Cells); i++ {
		if t.Steps[i] != t.Steps[i-1]+1 {
			continue
		}
		w.here.Cells, w.here.P = append(w.here.Cells[:0], t.Cells[i-1]), append(w.here.P[:0], 1)
		w.predictor.Predict(&w.there, &w.here, t.Steps[i-1], 1)
		p.addLog(w.there.At(t.Cells[i]))
		p.popular += math.Log(max(w.popularity[t.Cells[i]], mobility.MinProbability))
	}
}

// filter releases a track.
func (w *worker) filter(p *part, t mobility.Track) error {
	reports := Centres(w.model.Grid, t.Steps, t.Cells)
	return w.runner.Run(Track{User: t.User, Reports: reports}, func(r *Result) error {
		p.addLog(r.Outcome.Prior.At(r.Cell))
		switch {
		case w.runner.Beside:
			p.score.Add(r)
		case r.Outcome.Kind == mechanism.Released:
			p.score.AddRelease(r.Outcome.SetSize, r.Outcome.Drift)
		}
		return nil
	})
}
