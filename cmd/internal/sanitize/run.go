package sanitize

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// aheadFixes is how many fixes are held at most, of which a core may work on the first one: files
// often hold one user after another, and a user is one core's. It takes 120 MB. Where users
// alternate, or with one core, some thousand are held.
const aheadFixes = 1 << 18

// Run is one pass over traces. Users are worked on side by side, on all cores. Records, sums and
// the first error come in the order of the input, so the cores change nothing but the time.
type Run struct {
	settings Settings
	workers  []*worker
	do       func(ctx context.Context, worker int, j *job)
	users    map[string]*user
	followed []*pastUser // with a record; none for a brief run
	out      *files.Output

	metrics trial.Score
	fixes   int64
	clamped int64 // fixes outside the map that counted as in its nearest cell
	swapped int64 // fixes outside it that are on it with latitude and longitude swapped
	refused map[schemas.Reason]int64
	kinds   map[mechanism.Kind]int64
	metric  expect.MetricView
	took    time.Duration // of all cores
	past    *Past         // nil: see LookBack
}

// Settings are how a run releases: as a service with the same settings does.
type Settings struct {
	engine.Settings
	// Brief leaves out of the summary what costs time and is for a report alone: see LookBack.
	Brief bool
}

// user is what is known of one user. It belongs to the worker on the user's fixes.
type user struct {
	state  mechanism.State
	blind  engine.Unseen
	failed bool // by an error that ends the run
	// past is for LookBack, and belongs to the goroutine that takes jobs into the run.
	past pastUser
}

// New prepares a run whose records go to out.
func New(s Settings, out *files.Output) (*Run, error) {
	r := &Run{
		settings: s, out: out, users: map[string]*user{}, kinds: map[mechanism.Kind]int64{},
		refused: map[schemas.Reason]int64{},
	}
	r.do = func(ctx context.Context, worker int, j *job) { r.workers[worker].do(ctx, j) }
	for range runtime.GOMAXPROCS(0) {
		w, err := newWorker(s)
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	return r, nil
}

// All sanitizes all fixes of the reader, to its end or to the first error.
func (r *Run) All(ctx context.Context, reader *traces.Reader, progress *cli.Progress) error {
	// A job keeps its error, so that the first one in the order of the input is found.
	jobs := parallel.NewKeyed(len(r.workers), aheadFixes,
		func(worker int, j *job) { r.do(ctx, worker, j) },
		func(j *job) error {
			if err := r.addJob(j); err != nil {
				return err
			}
			if r.fixes%1024 == 0 {
				progress.Show(r.fixes)
			}
			return nil
		})
	defer jobs.Close()
	for fix, err := range reader.Fixes() {
		if err != nil {
			if earlier := jobs.Flush(); earlier != nil {
				return earlier
			}
			return err
		}
		if err := jobs.Add(fix.UserID, r.newJob(fix)); err != nil {
			return err
		}
	}
	return jobs.Flush()
}

// LookBack measures what the records of the run show of the past. It does nothing for a brief run,
// and without records.
func (r *Run) LookBack(ctx context.Context, progress *cli.Progress) (err error) {
	if r.settings.Brief || len(r.followed) == 0 {
		return nil
	}
	models := []*mobility.Model{r.settings.Model}
	for _, v := range r.settings.Later {
		m, err := v.Load()
		if err != nil {
			return err
		}
		models = append(models, m)
	}
	o := r.workers[0].engine.Options()
	r.past, err = lookBack(ctx, models, &o, r.followed, progress)
	return err
}

// keep keeps what LookBack needs of a job that has a record.
func (r *Run) keep(j *job) {
	s, u := &j.record, &j.user.past
	if u.id = s.UserID; len(u.records) == 0 {
		r.followed = append(r.followed, u)
	}
	u.records = append(u.records, keptRecord{
		kind: s.Kind, model: s.ModelID, step: s.Step, number: s.Release,
		latitude: s.Latitude, longitude: s.Longitude,
		release:    [2]float64{s.ReleaseLatitude.Number, s.ReleaseLongitude.Number},
		truth:      [2]float64{j.Fix.Latitude, j.Fix.Longitude},
		filterKM:   j.errors.estimate,
		hasRelease: s.ReleaseLatitude.Known,
	})
}

// Fixes returns how many fixes were read so far, with those that were refused.
func (r *Run) Fixes() int64 { return r.fixes }

// newJob makes a job of a fix. Nobody is a user for a fix alone whose place or time cannot be.
func (r *Run) newJob(fix schemas.Raw) job {
	j := job{Fix: fix, err: engine.Plausible(fix)}
	if j.err != nil {
		return j
	}
	if j.user = r.users[fix.UserID]; j.user == nil {
		j.user = new(user)
		r.users[fix.UserID] = j.user
	}
	return j
}

// addJob takes a job that is done into the run. An error that is no refusal stays one.
func (r *Run) addJob(j *job) error {
	r.fixes++
	r.took += j.took
	if j.place.Swapped {
		r.swapped++
	}
	if j.err != nil {
		rejection, ok := errors.AsType[*schemas.Rejection](j.err)
		if !ok {
			return j.err
		}
		r.refused[rejection.Reason]++
		return nil
	}
	if j.place.Outside {
		r.clamped++
	}
	r.kinds[j.kind]++
	if j.kind == mechanism.Released {
		r.metrics.AddRelease(j.setSize, j.drift)
		r.metric.Add(j.Fix.UserID, j.Fix.Timestamp, j.record.Epsilon, j.metric)
	}
	if !j.kind.Published() {
		return nil
	}
	if j.kind != mechanism.Predicted { // it has a release
		r.metrics.Release.Add(j.errors.release)
	}
	r.metrics.Estimate.Add(j.errors.estimate)
	r.metrics.Blind.Add(j.errors.blindMean, j.errors.blindMedian)
	if !r.settings.Brief {
		r.keep(j)
	}
	return r.out.Write(j.record)
}

// job is one fix and what came of it.
type job struct {
	Fix     schemas.Raw // exported: fmt redacts it so
	user    *user       // nil: err is set from the start
	err     error       // a *schemas.Rejection where the service would refuse the fix
	record  schemas.Sanitized
	metric  law.Metric
	errors  errorsKM
	setSize int // |ΔX| of a release
	took    time.Duration
	place   engine.Placement
	kind    mechanism.Kind
	drift   bool // secret, as are the errors
}

// errorsKM are distances to the truth in kilometres: of the release, of the estimate, and of the
// best estimates without any release.
type errorsKM struct{ release, estimate, blindMean, blindMedian float64 }

// worker does jobs on one core.
type worker struct {
	engine  *engine.Engine
	blind   *engine.Blind
	partial bool   // the key lacks days
	before  []byte // a user's state before the last step, if it does
}

func newWorker(s Settings) (*worker, error) {
	releases, err := engine.New(s.Settings)
	if err != nil {
		return nil, err
	}
	releases.MeasureNear()
	if !(law.Options{Name: releases.Options().Mechanism}).Exact() {
		releases.Note(schemas.Unproved)
	}
	blind, err := engine.NewBlind(s.Model, s.Later, s.Release)
	if err != nil {
		return nil, err
	}
	return &worker{engine: releases, blind: blind, partial: s.Key.FirstDay() > 0}, nil
}

// do does a job, unless an earlier one of the user has ended the run.
func (w *worker) do(ctx context.Context, j *job) {
	u := j.user
	if u == nil || u.failed {
		return
	}
	var out mechanism.Outcome
	var blind mechanism.Best
	if j.err = ctx.Err(); j.err == nil {
		out, blind, j.err = w.one(u, j)
	}
	if j.err != nil {
		_, refused := errors.AsType[*schemas.Rejection](j.err)
		u.failed = !refused
		return
	}
	j.kind, j.drift = out.Kind, out.Drift
	j.setSize, j.metric = out.SetSize, out.Metric
	if out.Kind.Published() {
		truth := out.Grid.ToMap(j.Fix.Latitude, j.Fix.Longitude)
		j.errors.release = out.Release.Distance(truth)
		j.errors.estimate = out.Estimate.Distance(truth)
		j.errors.blindMean, j.errors.blindMedian = blind.Distances(truth)
	}
}

// one takes a user's state on by a fix. It returns the outcome and the best estimates without any
// release.
func (w *worker) one(u *user, j *job) (out mechanism.Outcome, blind mechanism.Best, err error) {
	w.remember(&u.state)
	began := time.Now()
	result, err := w.engine.Sanitize(j.Fix, &u.state)
	j.took = time.Since(began)
	j.record, j.place, out = result.Record, result.Placement, result.Outcome
	if errors.Is(err, noise.ErrDestroyed) {
		err = errors.Join(u.state.DecodeBinary(w.before),
			&schemas.Rejection{Reason: schemas.ReasonKeyDestroyed})
	}
	if err != nil || out.Kind == mechanism.Late {
		return out, blind, err
	}
	blind, err = w.blind.Continue(j.Fix, &u.blind)
	return out, blind, err
}

// remember keeps a state as it is before a step, for a fix whose day the key does not have: it
// leaves no trace, as in the service, not even that of a version of the model.
func (w *worker) remember(state *mechanism.State) {
	if w.before = w.before[:0]; w.partial && state.Started {
		w.before = state.AppendBinary(w.before)
	}
}
