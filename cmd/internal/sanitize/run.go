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
	"github.com/geodither/geodither/mechanism/mobility"
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
	out      *files.Output

	metrics trial.Score
	fixes   int64
	clamped int64 // fixes outside the map that counted as in its nearest cell
	swapped int64 // fixes outside it that are on it with latitude and longitude swapped
	refused map[schemas.Reason]int64
	kinds   map[mechanism.Kind]int64
	metric  expect.MetricView
	took    time.Duration // of all cores
}

// Settings are how a run releases: as a service with the same settings does.
type Settings struct {
	engine.Settings
	Later []*engine.Version // of the model, after the first one
	// Personals are users' own models over the first version; nil: none.
	Personals *mobility.Personals
	// Brief leaves out of the summary what costs time and is for a report alone: the estimate
	// without any release.
	Brief bool
}

// user is what is known of one user. It belongs to the worker on the user's fixes.
type user struct {
	state, blind mechanism.State
	failed       bool // by an error that ends the run
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
			if err := r.add(j); err != nil {
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
		if err := jobs.Add(fix.UserID, r.take(fix)); err != nil {
			return err
		}
	}
	return jobs.Flush()
}

// Fixes returns how many fixes were read so far, with those that were refused.
func (r *Run) Fixes() int64 { return r.fixes }

// take makes a job of a fix. Nobody is a user for a fix alone whose place or time cannot be.
func (r *Run) take(fix schemas.Raw) job {
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
	if !r.settings.Brief {
		r.metrics.Blind.Add(j.errors.blindMean, j.errors.blindMedian)
	}
	return r.out.Write(j.record)
}
