package sanitize

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// batchFixes is how many fixes are read before they are worked on, by user. Files often hold one
// user after another, so a batch must be long for all cores to have work. It takes 50 MB.
const batchFixes = 1 << 16

// Run is one pass over traces. Users are worked on side by side, on all cores. Records, sums and
// the first error come in the order of the input, so the cores change nothing but the time.
type Run struct {
	settings Settings
	workers  []*worker
	users    map[string]*user
	out      *records.Output

	batch []job
	turns []*user // of the batch, in the order of their first fixes

	metrics trial.Score
	fixes   int64
	clamped int64 // fixes outside the map that counted as in its nearest cell
	swapped int64 // fixes outside it that are on it with latitude and longitude swapped
	refused map[schemas.Reason]int64
	kinds   map[mechanism.Kind]int64
	metric  expect.MetricView
	took    time.Duration // of all cores

	stateBytes, stateCells []int // of each state that a service would have written
}

// Settings are how a run releases: as a service with the same settings does.
type Settings struct {
	engine.Settings
	Later []*engine.Version // of the model, after the first one
}

// user is what is known of one user, and which fixes of the batch are theirs.
type user struct {
	state, blind mechanism.State
	jobs         []int
}

// New prepares a run whose records go to out.
func New(s Settings, out *records.Output) (*Run, error) {
	r := &Run{
		settings: s, out: out, users: map[string]*user{}, kinds: map[mechanism.Kind]int64{},
		refused: map[schemas.Reason]int64{}, batch: make([]job, 0, batchFixes),
	}
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
	for fix, err := range reader.Fixes() {
		if err != nil {
			if earlier := r.work(ctx, progress); earlier != nil {
				return earlier
			}
			return err
		}
		r.take(fix)
		if len(r.batch) == batchFixes {
			if err := r.work(ctx, progress); err != nil {
				return err
			}
		}
	}
	return r.work(ctx, progress)
}

// Fixes returns how many fixes were read so far, with those that were refused.
func (r *Run) Fixes() int64 { return r.fixes }

// take puts a fix into the batch, in its user's turn unless its place or time cannot be.
func (r *Run) take(fix schemas.Raw) {
	r.batch = append(r.batch, job{Fix: fix, err: engine.Plausible(fix)})
	job := len(r.batch) - 1
	if r.batch[job].err != nil {
		return
	}
	u := r.users[fix.UserID]
	if u == nil {
		u = new(user)
		r.users[fix.UserID] = u
	}
	if len(u.jobs) == 0 {
		r.turns = append(r.turns, u)
	}
	u.jobs = append(u.jobs, job)
}

// work does the batch, and empties it.
func (r *Run) work(ctx context.Context, progress *cli.Progress) error {
	// A job keeps its error, so that the first one in the order of the input is found.
	_ = parallel.Pool{Workers: len(r.workers)}.Do(len(r.turns),
		func(number int) func(*parallel.Task) error {
			w := r.workers[number]
			return func(t *parallel.Task) error {
				w.do(ctx, r.turns[t.Number], r.batch)
				return nil
			}
		})
	for i := range r.batch {
		if err := r.add(&r.batch[i]); err != nil {
			return err
		}
		if r.fixes%1024 == 0 {
			progress.Show(r.fixes)
		}
	}
	for _, u := range r.turns {
		u.jobs = u.jobs[:0]
	}
	r.batch, r.turns = r.batch[:0], r.turns[:0]
	return nil
}

// add takes a job that is done into the run. An error that is no refusal stays one.
func (r *Run) add(j *job) error {
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
	out := &j.outcome
	r.kinds[out.Kind]++
	if out.Changed {
		r.stateBytes = append(r.stateBytes, j.state.bytes)
		r.stateCells = append(r.stateCells, j.state.cells)
	}
	if out.Kind == mechanism.Released {
		r.metrics.AddRelease(out.SetSize, out.Drift)
		r.metric.Add(j.Fix.UserID, j.Fix.Timestamp, out.Epsilon, out.Metric)
	}
	if !out.Kind.Published() {
		return nil
	}
	r.measure(j)
	return r.out.Write(j.record)
}

// measure adds the distances of a record. That of a release is counted where there is one.
func (r *Run) measure(j *job) {
	out := &j.outcome
	truth := out.Grid.ToMap(j.Fix.Latitude, j.Fix.Longitude)
	if out.Kind != mechanism.Predicted {
		r.metrics.Release.Add(out.Release.Distance(truth))
	}
	r.metrics.Estimate.Add(out.Estimate.Distance(truth))
	r.metrics.Blind.Add(j.blind.Distance(truth))
}
